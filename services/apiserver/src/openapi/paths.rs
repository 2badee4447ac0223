//! Resources as paths and operations.

use serde_json::{Map, Value, json};
use trireme_kinds::{Kind, Registry, Subresource};

use super::encoded::Encoded;
use super::names;
use super::schemas::{Dialect, Schemas};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const WRITES: [(&str, &str); 3] = [("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const LISTS: [(&str, &str); 11] = [
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("shardSelector", "string"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const DELETES: [(&str, &str); 5] = [
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];
const PATCHES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];
const PRODUCES: [&str; 3] = ["application/json", "application/vnd.kubernetes.protobuf", "application/yaml"];

/// Adds all paths of a group and version.
pub(super) fn add(registry: &Registry, group: &str, version: &str, schemas: &mut Schemas<'_>, paths: &mut Encoded) {
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let resources = schemas.refer(&format!("{META}.APIResourceList"));
    let mut maker = Maker { schemas, group, version };
    let id = format!("get{}APIResources", names::operation_part(group, version));
    let get = maker.operation("get available resources", &id, None, &[], None, &[("200", "OK")], &resources);
    paths.put(format!("{root}/"), &json!({ "get": get }));
    for kind in registry.iter().filter(|kind| kind.group == group && kind.version == version) {
        maker.kind(&root, kind, paths);
    }
}

struct Maker<'a, 'b> {
    schemas: &'a mut Schemas<'b>,
    group: &'a str,
    version: &'a str,
}

impl Maker<'_, '_> {
    fn kind(&mut self, root: &str, kind: &Kind, paths: &mut Encoded) {
        let (scope, scoped) = if kind.namespaced { ("/namespaces/{namespace}", "Namespaced") } else { ("", "") };
        let part = names::operation_part(self.group, self.version);
        let id = |verb: &str, more: &str| format!("{verb}{part}{more}{scoped}{}", kind.kind);
        let type_name = self.schemas.name_of(kind.ty);
        let own = self.schemas.refer(&type_name);
        let gvk = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        let gvk = Some(&gvk);
        let name = &kind.kind;

        let mut collection = Map::new();
        if kind.has_verb("list") {
            let list = self.schemas.refer(&format!("{type_name}List"));
            let text = format!("list or watch objects of kind {name}");
            let get =
                self.operation(&text, &id("list", ""), Some(("list", gvk)), &LISTS, None, &[("200", "OK")], &list);
            collection.insert("get".into(), get);
            if kind.namespaced {
                let everywhere = format!("list{part}{name}ForAllNamespaces");
                let get =
                    self.operation(&text, &everywhere, Some(("list", gvk)), &LISTS, None, &[("200", "OK")], &list);
                paths.put(format!("{root}/{}", kind.plural), &json!({ "get": get }));
            }
        }
        if kind.has_verb("create") {
            let body = self.body(&own, true);
            let codes = [("200", "OK"), ("201", "Created"), ("202", "Accepted")];
            let text = format!("create a {name}");
            let post = self.operation(&text, &id("create", ""), Some(("post", gvk)), &WRITES, Some(body), &codes, &own);
            collection.insert("post".into(), post);
        }
        if kind.has_verb("deletecollection") {
            let options = self.schemas.refer(&format!("{META}.DeleteOptions"));
            let status = self.schemas.refer(&format!("{META}.Status"));
            let body = self.body(&options, false);
            let text = format!("delete collection of {name}");
            let params: Vec<_> = DELETES
                .iter()
                .chain(LISTS.iter().filter(|(n, _)| !matches!(*n, "watch" | "allowWatchBookmarks")))
                .copied()
                .collect();
            let delete = self.operation(
                &text,
                &id("delete", "Collection"),
                Some(("deletecollection", gvk)),
                &params,
                Some(body),
                &[("200", "OK")],
                &status,
            );
            collection.insert("delete".into(), delete);
        }
        if !collection.is_empty() {
            collection.insert("parameters".into(), self.path_parameters(kind.namespaced, false));
            paths.put(format!("{root}{scope}/{}", kind.plural), &Value::Object(collection));
        }

        let mut object = Map::new();
        self.reads_and_writes(&mut object, &own, gvk, name, &id, "", &kind.verbs);
        if kind.has_verb("delete") {
            let options = self.schemas.refer(&format!("{META}.DeleteOptions"));
            let status = self.schemas.refer(&format!("{META}.Status"));
            let body = self.body(&options, false);
            let codes = [("200", "OK"), ("202", "Accepted")];
            let text = format!("delete a {name}");
            let delete =
                self.operation(&text, &id("delete", ""), Some(("delete", gvk)), &DELETES, Some(body), &codes, &status);
            object.insert("delete".into(), delete);
        }
        if !object.is_empty() {
            object.insert("parameters".into(), self.path_parameters(kind.namespaced, true));
            paths.put(format!("{root}{scope}/{}/{{name}}", kind.plural), &Value::Object(object));
        }
        for sub in &kind.subresources {
            let path = format!("{root}{scope}/{}/{{name}}/{}", kind.plural, sub.name);
            if let Some(operations) = self.subresource(kind, sub, &id) {
                paths.put(path, &operations);
            }
        }
    }

    #[allow(clippy::too_many_arguments, reason = "one operation has that many parts, and two callers")]
    fn reads_and_writes(
        &mut self,
        object: &mut Map<String, Value>,
        own: &Value,
        gvk: Option<&Value>,
        name: &str,
        id: &dyn Fn(&str, &str) -> String,
        sub: &str,
        verbs: &[String],
    ) {
        let has = |verb: &str| verbs.iter().any(|v| v == verb);
        let what = if sub.is_empty() { String::new() } else { format!("{} of the ", sub.to_lowercase()) };
        if has("get") {
            let text = format!("read {what}the specified {name}").replace("the the", "the");
            let get =
                self.operation(&text, &(id("read", "") + sub), Some(("get", gvk)), &[], None, &[("200", "OK")], own);
            object.insert("get".into(), get);
        }
        if has("update") {
            let body = self.body(own, true);
            let text = format!("replace {what}the specified {name}").replace("the the", "the");
            let codes = [("200", "OK"), ("201", "Created")];
            let put =
                self.operation(&text, &(id("replace", "") + sub), Some(("put", gvk)), &WRITES, Some(body), &codes, own);
            object.insert("put".into(), put);
        }
        if has("patch") {
            let patch = self.schemas.refer(&format!("{META}.Patch"));
            let body = match self.schemas.dialect() {
                Dialect::V3 => {
                    let content: Map<String, Value> =
                        PATCHES.iter().map(|ty| ((*ty).to_owned(), json!({ "schema": patch }))).collect();
                    json!({"content": content, "required": true})
                }
                Dialect::V2 => json!({"name": "body", "in": "body", "required": true, "schema": patch}),
            };
            let params: Vec<_> = WRITES.iter().copied().chain([("force", "boolean")]).collect();
            let text = format!("partially update {what}the specified {name}").replace("the the", "the");
            let codes = [("200", "OK"), ("201", "Created")];
            let patch =
                self.operation(&text, &(id("patch", "") + sub), Some(("patch", gvk)), &params, Some(body), &codes, own);
            object.insert("patch".into(), patch);
        }
    }

    fn subresource(&mut self, kind: &Kind, sub: &Subresource, id: &dyn Fn(&str, &str) -> String) -> Option<Value> {
        let (group, version) = if sub.kind.version.is_empty() {
            (kind.group.as_str(), kind.version.as_str())
        } else {
            (sub.kind.group.as_str(), sub.kind.version.as_str())
        };
        let gvk = json!({"group": group, "version": version, "kind": sub.kind.kind});
        let part = names::subresource_part(&sub.name);
        let mut operations = Map::new();
        // Options are no objects: they are the query of a connection.
        if sub.kind.kind.ends_with("Options") || sub.name == "log" {
            let get = self.operation(
                &format!("connect GET requests to {} of {}", sub.name, kind.kind),
                &(id("connect", "Get") + &part),
                Some(("connect", Some(&gvk))),
                &[],
                None,
                &[("200", "OK")],
                &json!({"type": "string"}),
            );
            operations.insert("get".into(), get);
        } else {
            let package = if group.is_empty() { "core" } else { group.split('.').next().unwrap_or(group) };
            let own = self.schemas.refer(&format!("io.k8s.api.{package}.{version}.{}", sub.kind.kind));
            self.reads_and_writes(&mut operations, &own, Some(&gvk), &kind.kind, id, &part, &sub.verbs);
            if sub.verbs.iter().any(|verb| verb == "create") {
                let body = self.body(&own, true);
                let codes = [("200", "OK"), ("201", "Created"), ("202", "Accepted")];
                let text = format!("create {} of a {}", sub.name, kind.kind);
                let post = self.operation(
                    &text,
                    &(id("create", "") + &part),
                    Some(("post", Some(&gvk))),
                    &WRITES,
                    Some(body),
                    &codes,
                    &own,
                );
                operations.insert("post".into(), post);
            }
        }
        if operations.is_empty() {
            return None;
        }
        operations.insert("parameters".into(), self.path_parameters(kind.namespaced, true));
        Some(Value::Object(operations))
    }

    fn body(&self, schema: &Value, required: bool) -> Value {
        let mut body = match self.schemas.dialect() {
            Dialect::V3 => json!({"content": {"*/*": {"schema": schema}}}),
            Dialect::V2 => json!({"name": "body", "in": "body", "schema": schema}),
        };
        if required {
            body["required"] = json!(true);
        }
        body
    }

    fn parameter(&self, name: &str, ty: &str, place: &str) -> Value {
        let mut parameter = json!({"name": name, "in": place});
        if place == "path" {
            parameter["required"] = json!(true);
        }
        match self.schemas.dialect() {
            Dialect::V3 => parameter["schema"] = json!({"type": ty, "uniqueItems": true}),
            Dialect::V2 => {
                parameter["type"] = json!(ty);
                parameter["uniqueItems"] = json!(true);
            }
        }
        parameter
    }

    fn path_parameters(&self, namespaced: bool, named: bool) -> Value {
        let mut all = Vec::new();
        if named {
            all.push(self.parameter("name", "string", "path"));
        }
        if namespaced {
            all.push(self.parameter("namespace", "string", "path"));
        }
        all.push(self.parameter("pretty", "string", "query"));
        json!(all)
    }

    #[allow(clippy::too_many_arguments, reason = "an operation has that many parts")]
    fn operation(
        &mut self,
        text: &str,
        id: &str,
        action: Option<(&str, Option<&Value>)>,
        parameters: &[(&str, &str)],
        body: Option<Value>,
        codes: &[(&str, &str)],
        answer: &Value,
    ) -> Value {
        let mut out = json!({"tags": [names::tag(self.group, self.version)], "description": text, "operationId": id});
        let mut parameters: Vec<Value> =
            parameters.iter().map(|(name, ty)| self.parameter(name, ty, "query")).collect();
        let v3 = self.schemas.dialect() == Dialect::V3;
        match body {
            Some(body) if v3 => out["requestBody"] = body,
            Some(body) => parameters.push(body),
            None => {}
        }
        if !parameters.is_empty() {
            out["parameters"] = json!(parameters);
        }
        let mut responses = Map::new();
        for (code, text) in codes {
            let response = if v3 {
                let content: Map<String, Value> =
                    PRODUCES.iter().map(|ty| ((*ty).to_owned(), json!({ "schema": answer }))).collect();
                json!({"description": text, "content": content})
            } else {
                json!({"description": text, "schema": answer})
            };
            responses.insert((*code).to_owned(), response);
        }
        responses.insert("401".into(), json!({"description": "Unauthorized"}));
        out["responses"] = Value::Object(responses);
        if !v3 {
            out["produces"] = json!(PRODUCES);
            out["consumes"] = json!(["*/*"]);
            out["schemes"] = json!(["https"]);
        }
        if let Some((action, gvk)) = action {
            out["x-kubernetes-action"] = json!(action);
            if let Some(gvk) = gvk {
                out["x-kubernetes-group-version-kind"] = gvk.clone();
            }
        }
        out
    }
}
