//! From Go's types to the lines of the table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Result, bail};

use super::go::{Body, Decl, Expr, Member, Packages};

/// The table while it grows: lines of fields by the name of their type.
#[derive(Default)]
pub(super) struct Table {
    pub(super) types: BTreeMap<String, String>,
}

/// What Go's encoder and the table make of a type.
struct Shaped {
    /// The type in the table's notation.
    text: String,
    kind: Kind,
}

#[derive(PartialEq, Clone, Copy)]
enum Kind {
    Scalar,
    /// A list, a map or bytes: its zero value is `null`.
    Nilable,
    Object,
    /// Encoded as `null` when nothing was set, even if omitted when empty.
    NullStruct,
    Quantity,
}

/// Types that encode themselves, and how the table calls them.
const SPECIAL: [(&str, &str, &str, Kind); 12] = [
    ("k8s.io/apimachinery/pkg/apis/meta/v1", "Time", "time", Kind::NullStruct),
    ("k8s.io/apimachinery/pkg/apis/meta/v1", "MicroTime", "microtime", Kind::NullStruct),
    ("k8s.io/apimachinery/pkg/apis/meta/v1", "Duration", "duration", Kind::Quantity),
    ("k8s.io/apimachinery/pkg/apis/meta/v1", "FieldsV1", "v1.FieldsV1=any", Kind::NullStruct),
    ("k8s.io/apimachinery/pkg/api/resource", "Quantity", "quantity", Kind::Quantity),
    ("k8s.io/apimachinery/pkg/util/intstr", "IntOrString", "intorstring", Kind::Quantity),
    ("k8s.io/apimachinery/pkg/runtime", "RawExtension", "runtime.RawExtension=any", Kind::NullStruct),
    ("k8s.io/apimachinery/pkg/runtime", "Object", "any", Kind::NullStruct),
    ("k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1", "JSON", "v1.JSON=any", Kind::NullStruct),
    (
        JSON_SCHEMA,
        "JSONSchemaPropsOrArray",
        "v1.JSONSchemaPropsOrArray=@io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps|[]@io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps",
        Kind::NullStruct,
    ),
    (
        JSON_SCHEMA,
        "JSONSchemaPropsOrBool",
        "v1.JSONSchemaPropsOrBool=@io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps|bool",
        Kind::NullStruct,
    ),
    (
        JSON_SCHEMA,
        "JSONSchemaPropsOrStringArray",
        "v1.JSONSchemaPropsOrStringArray=@io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps|[]string",
        Kind::NullStruct,
    ),
];
const JSON_SCHEMA: &str = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1";

impl Table {
    /// Adds a struct and everything it refers to; answers its name in the table.
    pub(super) fn add(&mut self, packages: &mut Packages<'_>, path: &str, name: &str) -> Result<String> {
        let key = published(path, name);
        if let Some(known) = self.types.keys().find(|k| k.split(' ').next() == Some(key.as_str())) {
            return Ok(known.split(' ').next().unwrap_or_default().to_owned());
        }
        let package = packages.package(path)?;
        let decl = packages.decl(path, name)?;
        let atomic =
            if decl.markers.get("structType") == Some("atomic") || decl.markers.get("mapType") == Some("atomic") {
                " atomic"
            } else {
                ""
            };
        let head = format!("{key} {}.{name}{atomic}", package.name);
        // Stands in the table before its fields do, since it may refer to itself.
        self.types.insert(head.clone(), String::new());
        let mut lines = String::new();
        self.members(packages, &decl, "", &mut lines)?;
        self.types.insert(head, lines);
        Ok(key)
    }

    fn members(
        &mut self,
        packages: &mut Packages<'_>,
        decl: &Decl,
        embedded_in: &str,
        lines: &mut String,
    ) -> Result<()> {
        let Body::Struct(members) = &decl.body else { bail!("{} is no struct", decl.name) };
        for member in members {
            let json = member.tags.get("json").map(String::as_str).unwrap_or_default();
            let mut parts = json.split(',');
            let name = parts.next().unwrap_or_default();
            let flags: Vec<&str> = parts.collect();
            if name == "-" {
                continue;
            }
            if member.embedded && name.is_empty() {
                let Expr::Named(path, ty) = strip_pointer(&member.ty) else { bail!("{}: odd embedding", decl.name) };
                let inner = packages.decl(path, ty)?;
                // In protobuf it is a message of its own, unless it has no number: TypeMeta travels in the envelope.
                let within = match number(member) {
                    "0" => "-".to_owned(),
                    number if embedded_in.is_empty() => format!("{}#{number}", member.name),
                    number => format!("{embedded_in}.{}#{number}", member.name),
                };
                self.members(packages, &inner, &within, lines)?;
                continue;
            }
            let name = if name.is_empty() { member.name.as_str() } else { name };
            self.field(packages, member, name, &flags, embedded_in, lines)?;
        }
        Ok(())
    }

    fn field(
        &mut self,
        packages: &mut Packages<'_>,
        member: &Member,
        name: &str,
        flags: &[&str],
        embedded_in: &str,
        lines: &mut String,
    ) -> Result<()> {
        let pointer = matches!(member.ty, Expr::Pointer(_));
        let shaped = self.expr(packages, strip_pointer(&member.ty))?;
        let omit = flags.contains(&"omitempty");
        let presence = match (pointer, shaped.kind) {
            _ if flags.contains(&"omitzero") => "nil",
            (true, _) if omit => "nil",
            (true, _) | (false, Kind::NullStruct) => "null",
            (false, Kind::Scalar | Kind::Nilable) if omit => "empty",
            (false, Kind::Nilable) => "null",
            (false, _) => "always",
        };
        let number = if embedded_in == "-" { "0" } else { number(member) };
        write!(lines, "\n {name} {number} {presence} {}", shaped.text)?;

        let markers = &member.markers;
        let optional = match (markers.get("optional").is_some(), markers.get("required").is_some()) {
            (_, true) => false,
            (true, _) => true,
            _ => omit || flags.contains(&"omitzero"),
        };
        if !optional {
            lines.push_str(" required");
        }
        let marker = |name: &str| markers.get(name).or_else(|| markers.get(&format!("k8s:{name}")));
        let is_atomic = |m: Option<&str>| m == Some("atomic");
        if is_atomic(markers.get("mapType")) || is_atomic(markers.get("structType")) {
            lines.push_str(" atomic");
        }
        match marker("listType") {
            Some("set") => lines.push_str(" set"),
            Some("map") => {
                let keys: Vec<&str> = if markers.get("listMapKey").is_some() {
                    markers.all("listMapKey").collect()
                } else {
                    markers.all("k8s:listMapKey").collect()
                };
                write!(lines, " map={}", keys.join(","))?;
            }
            _ => {}
        }
        if let Some(strategy) = member.tags.get("patchStrategy") {
            write!(lines, " patch={strategy}")?;
        }
        if let Some(key) = member.tags.get("patchMergeKey") {
            write!(lines, " key={key}")?;
        }
        if let Some(default) = markers.get("default") {
            let value = self.default(packages, default, &member.ty)?;
            if !matches!(value.as_str(), "\"\"" | "0" | "false" | "{}") {
                write!(lines, " default={value}")?;
            }
        }
        let values = enum_values(packages, strip_pointer(&member.ty))?;
        if !values.is_empty() {
            write!(lines, " enum={}", values.join(","))?;
        }
        if !matches!(embedded_in, "" | "-") {
            write!(lines, " in={embedded_in}")?;
        }
        Ok(())
    }

    /// A default as JSON; `ref(Name)` is the value of a constant.
    fn default(&self, packages: &mut Packages<'_>, text: &str, ty: &Expr) -> Result<String> {
        let Some(reference) = text.strip_prefix("ref(").and_then(|t| t.strip_suffix(')')) else {
            return Ok(text.to_owned());
        };
        let (path, name) = match reference.rsplit_once('.') {
            Some((path, name)) => (path.to_owned(), name),
            None => match strip_pointer(ty) {
                Expr::Named(path, _) => (path.clone(), reference),
                _ => ("k8s.io/api/core/v1".to_owned(), reference),
            },
        };
        match packages.package(&path)?.constant(name) {
            Some(value) => Ok(value.to_owned()),
            None => bail!("no constant {reference}"),
        }
    }

    fn expr(&mut self, packages: &mut Packages<'_>, expr: &Expr) -> Result<Shaped> {
        Ok(match expr {
            Expr::Basic(name) => Shaped { text: basic(name)?.to_owned(), kind: Kind::Scalar },
            Expr::Pointer(inner) => self.expr(packages, inner)?,
            Expr::List(item) if **item == Expr::Basic("byte".to_owned()) => {
                Shaped { text: "bytes".to_owned(), kind: Kind::Nilable }
            }
            Expr::List(item) => Shaped { text: format!("[]{}", self.expr(packages, item)?.text), kind: Kind::Nilable },
            Expr::Map(key, value) => {
                let value = self.expr(packages, value)?.text;
                let go = self.go_map_key(packages, key)?;
                Shaped { text: format!("{go}{{}}{value}"), kind: Kind::Nilable }
            }
            Expr::Named(path, name) => {
                if let Some((.., text, kind)) = SPECIAL.iter().find(|(p, n, ..)| p == path && n == name) {
                    if text.contains("JSONSchemaProps") {
                        self.add(packages, JSON_SCHEMA, "JSONSchemaProps")?;
                    }
                    return Ok(Shaped { text: (*text).to_owned(), kind: *kind });
                }
                let package = packages.package(path)?;
                match &packages.decl(path, name)?.body {
                    Body::Struct(_) => {
                        Shaped { text: format!("@{}", self.add(packages, path, name)?), kind: Kind::Object }
                    }
                    Body::Other(inner) => {
                        let shaped = self.expr(packages, inner)?;
                        let text = match shaped.text.split_once('=') {
                            Some((_, body)) if !shaped.text.starts_with(['[', '{']) => body.to_owned(),
                            _ => shaped.text,
                        };
                        if text.starts_with('@') {
                            return Ok(Shaped { text, kind: shaped.kind });
                        }
                        Shaped { text: format!("{}.{name}={text}", package.name), kind: shaped.kind }
                    }
                }
            }
        })
    }

    /// `map[v1.ResourceName]…=` where the keys of a map are no plain strings; nothing else. Its values are named by the
    /// maps of Kubernetes only where the map itself has a name, which then replaces this.
    fn go_map_key(&self, packages: &mut Packages<'_>, key: &Expr) -> Result<String> {
        match key {
            Expr::Basic(_) => Ok(String::new()),
            Expr::Named(path, name) => Ok(format!("map[{}.{name}]=", packages.package(path)?.name)),
            _ => bail!("odd map key"),
        }
    }
}

/// The protobuf number of a member, `0` if it has none.
fn number(member: &Member) -> &str {
    member.tags.get("protobuf").and_then(|p| p.split(',').nth(1)).unwrap_or("0")
}

fn basic(name: &str) -> Result<&str> {
    Ok(match name {
        "bool" | "string" | "int32" | "int64" => name,
        "int" => "int=int64",
        "float64" => "double",
        "interface{}" | "any" => "any",
        other => bail!("no type for {other}"),
    })
}

fn strip_pointer(expr: &Expr) -> &Expr {
    match expr {
        Expr::Pointer(inner) => strip_pointer(inner),
        other => other,
    }
}

/// The values of an enumeration or of a list of its values, sorted as they are published.
fn enum_values(packages: &mut Packages<'_>, expr: &Expr) -> Result<Vec<String>> {
    let (path, name) = match expr {
        Expr::Named(path, name) => (path, name),
        Expr::List(item) => return enum_values(packages, item),
        _ => return Ok(Vec::new()),
    };
    if SPECIAL.iter().any(|(p, n, ..)| p == path && n == name) {
        return Ok(Vec::new());
    }
    let decl = packages.decl(path, name)?;
    if decl.markers.get("enum").is_none() {
        return Ok(Vec::new());
    }
    let package = packages.package(path)?;
    // A constant may stand for one of the core group.
    let core = packages.package("k8s.io/api/core/v1")?;
    let mut values: Vec<String> = package
        .values(name)
        .into_iter()
        .map(|value| {
            value
                .rsplit_once('.')
                .filter(|_| !value.starts_with('"'))
                .and_then(|(_, n)| core.constant(n))
                .unwrap_or(value)
        })
        // Words of the table are parted by spaces.
        .map(|value| value.trim_matches('"').replace(' ', "~"))
        .collect();
    values.sort();
    values.dedup();
    Ok(values)
}

/// The name a type is published under, without `io.k8s.api.`.
fn published(path: &str, name: &str) -> String {
    let rest = path.trim_start_matches("k8s.io/");
    match rest.strip_prefix("api/") {
        Some(group) => format!("{}.{name}", group.replace('/', ".")),
        None => format!("io.k8s.{}.{name}", rest.replace('/', ".")),
    }
}
