//! Reads type declarations of gofmt-ed Go files: enough of Go for API types, not more.

use std::collections::HashMap;
use std::rc::Rc;

use anyhow::{Result, bail};

use super::Modules;

/// A Go type expression, with package paths resolved.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expr {
    /// `bool`, `string`, `int32`, …
    Basic(String),
    /// A declared type: package path and name.
    Named(String, String),
    Pointer(Box<Expr>),
    List(Box<Expr>),
    Map(Box<Expr>, Box<Expr>),
}

/// A declared type.
#[derive(Debug)]
pub(super) struct Decl {
    pub(super) name: String,
    pub(super) markers: Markers,
    pub(super) body: Body,
}

#[derive(Debug)]
pub(super) enum Body {
    Struct(Vec<Member>),
    Other(Expr),
}

/// A member of a struct.
#[derive(Debug)]
pub(super) struct Member {
    /// The name of the Go field; that of the type if it is embedded.
    pub(super) name: String,
    pub(super) embedded: bool,
    pub(super) ty: Expr,
    pub(super) tags: HashMap<String, String>,
    pub(super) markers: Markers,
}

/// The `+marker` lines of a comment.
#[derive(Debug, Default, Clone)]
pub(super) struct Markers(Vec<String>);

/// A package whose files were read.
#[derive(Debug, Default)]
pub(super) struct Package {
    /// Its name, as `v1`.
    pub(super) name: String,
    pub(super) types: HashMap<String, Rc<Decl>>,
    order: Vec<String>,
    /// Constants of a declared type: type, constant, value.
    constants: Vec<(String, String, String)>,
}

/// The packages read so far.
pub(super) struct Packages<'a> {
    source: &'a Modules,
    read: HashMap<String, Rc<Package>>,
}

impl<'a> Packages<'a> {
    pub(super) fn new(source: &'a Modules) -> Self {
        Self { source, read: HashMap::new() }
    }

    pub(super) fn package(&mut self, path: &str) -> Result<Rc<Package>> {
        if let Some(package) = self.read.get(path) {
            return Ok(package.clone());
        }
        let mut package = Package::default();
        for file in self.source.files(path)? {
            let text = std::fs::read_to_string(&file)?;
            File::new(path, &text).read(&mut package)?;
        }
        let package = Rc::new(package);
        self.read.insert(path.to_owned(), package.clone());
        Ok(package)
    }

    /// The declaration of a type.
    pub(super) fn decl(&mut self, path: &str, name: &str) -> Result<Rc<Decl>> {
        match self.package(path)?.types.get(name) {
            Some(decl) => Ok(decl.clone()),
            None => bail!("{path} declares no {name}"),
        }
    }

    /// The kinds of a package: its types that embed TypeMeta.
    pub(super) fn kinds(&mut self, path: &str) -> Result<Vec<String>> {
        let package = self.package(path)?;
        let is_kind = |decl: &Decl| match &decl.body {
            Body::Struct(members) => members.iter().any(|m| m.embedded && m.name == "TypeMeta"),
            Body::Other(_) => false,
        };
        Ok(package.order.iter().filter(|n| package.types.get(*n).is_some_and(|d| is_kind(d))).cloned().collect())
    }
}

impl Package {
    /// The values of the constants of a type, as they stand in the source.
    pub(super) fn values(&self, ty: &str) -> Vec<&str> {
        self.constants.iter().filter(|(t, _, _)| t == ty).map(|(_, _, v)| v.as_str()).collect()
    }

    /// The value of a constant, as it stands in the source.
    pub(super) fn constant(&self, name: &str) -> Option<&str> {
        self.constants.iter().find(|(_, n, _)| n == name).map(|(_, _, v)| v.as_str())
    }
}

impl Markers {
    /// The value of `+name=value`; empty for `+name`.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// The values of every `+name=value`.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(move |m| {
            let rest = m.strip_prefix(name)?;
            if rest.is_empty() { Some("") } else { rest.strip_prefix('=') }
        })
    }

    fn parse(comment: &[&str]) -> Self {
        Self(
            comment
                .iter()
                .filter_map(|line| line.trim_start_matches('/').trim().strip_prefix('+'))
                .map(|m| m.split(" //").next().unwrap_or(m).trim().to_owned())
                .collect(),
        )
    }
}

/// One file while it is read.
struct File<'a> {
    package: &'a str,
    lines: Vec<&'a str>,
    imports: HashMap<String, String>,
}

impl<'a> File<'a> {
    fn new(package: &'a str, text: &'a str) -> Self {
        let mut file = Self { package, lines: without_block_comments(text), imports: HashMap::new() };
        file.imports = file
            .lines
            .iter()
            .filter_map(|line| {
                let line = line.trim().trim_start_matches("import ");
                let (alias, path) = line.strip_suffix('"')?.split_once('"')?;
                let alias = alias.trim();
                let fallback = path.rsplit('/').next().unwrap_or(path);
                (!alias.contains(' '))
                    .then(|| (if alias.is_empty() { fallback } else { alias }.to_owned(), path.to_owned()))
            })
            .collect();
        file
    }

    fn read(&self, package: &mut Package) -> Result<()> {
        let mut comment: Vec<&str> = Vec::new();
        let mut at = 0;
        let mut last_const_type = String::new();
        let mut group = "";
        while at < self.lines.len() {
            let raw = self.lines[at];
            let line = raw.trim();
            at += 1;
            if let Some(name) = raw.strip_prefix("package ") {
                package.name = name.split(' ').next().unwrap_or(name).to_owned();
                comment.clear();
            } else if line.starts_with("//") {
                comment.push(line);
            } else if line.is_empty() {
                // A marker may stand apart from the comment below it.
                if !group.is_empty() {
                    comment.clear();
                }
            } else if raw == "type (" || raw == "const (" {
                group = if raw.starts_with('t') { "type" } else { "const" };
                comment.clear();
            } else if raw == ")" {
                group = "";
                comment.clear();
            } else if raw.starts_with("type ") || (group == "type" && raw.starts_with('\t') && !raw.starts_with("\t\t"))
            {
                let markers = Markers::parse(&comment);
                comment.clear();
                at = self.declare(line.trim_start_matches("type "), at, markers, package)?;
            } else if raw.starts_with("const ") || group == "const" {
                self.constant(line.trim_start_matches("const "), &mut last_const_type, package);
                comment.clear();
            } else {
                comment.clear();
            }
        }
        Ok(())
    }

    /// Reads a declaration whose first line is given; answers where reading goes on.
    fn declare(&self, line: &str, mut at: usize, markers: Markers, package: &mut Package) -> Result<usize> {
        let Some((name, rest)) = line.split_once(' ') else { return Ok(at) };
        if name.contains('[') || rest.starts_with("interface") || rest.starts_with("func") {
            return Ok(at);
        }
        let rest = rest.trim_start_matches("= ");
        let body = if rest.starts_with("struct {") && !rest.ends_with('}') {
            let mut members = Vec::new();
            let mut comment: Vec<&str> = Vec::new();
            while at < self.lines.len() {
                let line = self.lines[at].trim();
                at += 1;
                if line == "}" {
                    break;
                } else if line.starts_with("//") {
                    comment.push(line);
                } else if line.is_empty() {
                    comment.clear();
                } else {
                    if let Some(member) = self.member(line, Markers::parse(&comment))? {
                        members.push(member);
                    }
                    comment.clear();
                }
            }
            Body::Struct(members)
        } else if rest.starts_with("struct") {
            Body::Struct(Vec::new())
        } else {
            Body::Other(self.expr(rest.split(" //").next().unwrap_or(rest).trim())?)
        };
        package.order.push(name.to_owned());
        package.types.insert(name.to_owned(), Rc::new(Decl { name: name.to_owned(), markers, body }));
        Ok(at)
    }

    /// `Name Type tags` or `Type tags`.
    fn member(&self, line: &str, markers: Markers) -> Result<Option<Member>> {
        let (code, tags) = match line.split_once('`') {
            Some((code, rest)) => (code.trim(), rest.split('`').next().unwrap_or_default()),
            None => (line.split(" //").next().unwrap_or(line).trim(), ""),
        };
        let mut words = code.split_whitespace();
        let (Some(first), second) = (words.next(), words.next()) else { return Ok(None) };
        let (name, ty, embedded) = match second {
            Some(ty) => (first.to_owned(), ty.to_owned() + &words.collect::<String>(), false),
            None => (first.rsplit(['.', '*']).next().unwrap_or(first).to_owned(), first.to_owned(), true),
        };
        if !name.starts_with(|c: char| c.is_ascii_uppercase()) {
            return Ok(None);
        }
        Ok(Some(Member { name, embedded, ty: self.expr(&ty)?, tags: tag_values(tags), markers }))
    }

    fn constant(&self, line: &str, last_type: &mut String, package: &mut Package) {
        let line = line.split(" //").next().unwrap_or(line);
        let Some((left, value)) = line.split_once('=') else { return };
        let mut words = left.split_whitespace();
        let Some(name) = words.next() else { return };
        *last_type = words.next().unwrap_or_default().to_owned();
        let value = value.trim();
        // `Type("value")` types a constant too.
        let (ty, value) = match value.split_once('(') {
            Some((ty, rest)) if last_type.is_empty() => (ty.to_owned(), rest.trim_end_matches(')')),
            _ => (last_type.clone(), value),
        };
        package.constants.push((ty, name.to_owned(), value.to_owned()));
    }

    fn expr(&self, text: &str) -> Result<Expr> {
        let text = text.trim();
        if let Some(rest) = text.strip_prefix('*') {
            return Ok(Expr::Pointer(Box::new(self.expr(rest)?)));
        }
        if let Some(rest) = text.strip_prefix("[]") {
            return Ok(Expr::List(Box::new(self.expr(rest)?)));
        }
        if let Some(rest) = text.strip_prefix("map[") {
            let Some((key, value)) = rest.split_once(']') else { bail!("no map: {text}") };
            return Ok(Expr::Map(Box::new(self.expr(key)?), Box::new(self.expr(value)?)));
        }
        if let Some((alias, name)) = text.split_once('.') {
            let Some(path) = self.imports.get(alias) else { bail!("{}: no import {alias}", self.package) };
            return Ok(Expr::Named(path.clone(), name.to_owned()));
        }
        Ok(match text {
            "bool" | "string" | "byte" | "int" | "int8" | "int16" | "int32" | "int64" | "uint" | "uint8" | "uint16"
            | "uint32" | "uint64" | "float32" | "float64" | "interface{}" | "any" => Expr::Basic(text.to_owned()),
            name => Expr::Named(self.package.to_owned(), name.to_owned()),
        })
    }
}

/// The lines of a file; those of a block comment are empty.
fn without_block_comments(text: &str) -> Vec<&str> {
    let mut inside = false;
    text.lines()
        .map(|line| {
            let opens = line.trim_start().starts_with("/*");
            let hidden = inside || opens;
            inside = hidden && !line.contains("*/");
            if hidden { "" } else { line }
        })
        .collect()
}

/// `json:"name,omitempty" protobuf:"bytes,1,opt,name=name"` as a map.
fn tag_values(mut tags: &str) -> HashMap<String, String> {
    let mut out = HashMap::new();
    while let Some((key, rest)) = tags.split_once(":\"") {
        let Some((value, rest)) = rest.split_once('"') else { break };
        out.insert(key.trim().to_owned(), value.to_owned());
        tags = rest;
    }
    out
}
