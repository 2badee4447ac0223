//! `…/scale`: how many, for every kind that says where its numbers are.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use trireme_kinds::{Kind, ScalePaths};
use trireme_machinery::field;
use trireme_machinery::gvk::GroupResource;
use trireme_machinery::labels::Selector;
use trireme_machinery::meta;
use trireme_machinery::path::Path;
use trireme_machinery::status::Status;

use super::{Subresources, is_dry_run};
use crate::pipeline::engine::Target;
use crate::pipeline::{Answer, Context, ObjectAnswer, ObjectBody, Request, apply_patch, check_place, decode};

impl Subresources {
    pub(super) async fn scale(&self, context: &Context, request: &Request, kind: &Arc<Kind>) -> Result<Answer, Status> {
        let info = &request.info;
        let scale_kind = &self.inner.bodies.scale;
        let answer = |object: &Value| {
            let scale = from_object(kind, object);
            Answer::Object(ObjectAnswer { code: 200, kind: Some(scale_kind.clone()), object: ObjectBody::Value(scale) })
        };
        if info.verb == "get" {
            let stored = self.inner.objects.get(kind, &info.namespace, &info.name).await?;
            return Ok(answer(&stored.value()));
        }
        let target = Target { kind: kind.clone(), namespace: info.namespace.clone(), name: info.name.clone() };
        let mut put = None;
        if info.verb == "update" {
            let mut scale = decode::body(context, scale_kind, request)?;
            // Before anybody looks whether there is such an object.
            check_place(&mut scale, &target)?;
            put = Some(scale);
        }
        let mut change = |object: &mut Value| {
            let old = from_object(kind, object);
            let new = match &put {
                Some(new) => new.clone(),
                None => {
                    let mut patched = apply_patch(context, scale_kind, request, &old)?;
                    check_place(&mut patched, &target)?;
                    patched
                }
            };
            to_object(kind, object, &new, &info.name)
        };
        if is_dry_run(request) {
            let mut value = self.inner.objects.get(kind, &info.namespace, &info.name).await?.value();
            change(&mut value)?;
            return Ok(answer(&value));
        }
        let stored =
            self.inner.objects.update(context, kind, &info.namespace, &info.name, "scale", &mut change).await?;
        Ok(answer(&stored.value()))
    }
}

fn pointer(dotted: &str) -> String {
    format!("/{}", dotted.trim_start_matches('.').replace('.', "/"))
}

fn paths(kind: &Kind) -> ScalePaths {
    kind.scale.clone().unwrap_or_else(|| ScalePaths {
        spec_replicas: "spec.replicas".into(),
        status_replicas: "status.replicas".into(),
        selector: None,
    })
}

/// The Scale of an object.
fn from_object(kind: &Kind, object: &Value) -> Value {
    let paths = paths(kind);
    let number = |path: &str| object.pointer(&pointer(path)).and_then(Value::as_i64).unwrap_or(0);
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    let mut spec = Map::new();
    match number(&paths.spec_replicas) {
        0 => {}
        replicas => _ = spec.insert("replicas".into(), json!(replicas)),
    }
    let mut status = Map::new();
    status.insert("replicas".into(), json!(number(&paths.status_replicas)));
    let selector = paths.selector.as_deref().and_then(|path| object.pointer(&pointer(path))).map(selector_text);
    if let Some(selector) = selector.filter(|text| !text.is_empty()) {
        status.insert("selector".into(), json!(selector));
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}

/// The selector as text; a plain map of labels (ReplicationController) and a string are taken too.
fn selector_text(selector: &Value) -> String {
    match selector {
        Value::String(text) => text.clone(),
        Value::Object(map)
            if map.contains_key("matchLabels") || map.contains_key("matchExpressions") || map.is_empty() =>
        {
            Selector::from_label_selector(selector).map(|selector| selector.to_string()).unwrap_or_default()
        }
        Value::Object(map) => {
            let labels: Vec<String> =
                map.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect();
            labels.join(",")
        }
        _ => String::new(),
    }
}

/// Writes what the Scale asks for into the object.
fn to_object(kind: &Kind, object: &mut Value, scale: &Value, name: &str) -> Result<(), Status> {
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    if replicas < 0 {
        let path = Path::new("spec").child("replicas");
        let error = field::invalid(&path, &replicas, "must be greater than or equal to 0");
        let scale_kind = trireme_machinery::gvk::GroupVersionKind::new("autoscaling", "v1", "Scale");
        return Err(Status::invalid(&scale_kind, name, vec![error]));
    }
    let (uid, own) = (meta::uid(scale), meta::uid(object));
    if !uid.is_empty() && uid != own {
        let resource = GroupResource::new(&*kind.group, format!("{}/scale", kind.plural));
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {own}");
        return Err(Status::conflict(&resource, name, why));
    }
    let path = pointer(&paths(kind).spec_replicas);
    let (parent, field) = path.rsplit_once('/').unwrap_or(("", "replicas"));
    match object.pointer_mut(parent).and_then(Value::as_object_mut) {
        Some(parent) => _ = parent.insert(field.to_owned(), json!(replicas)),
        None => return Err(Status::internal(format!("{parent} is missing"))),
    }
    // The version that the client saw, if it says so, is the one that must still be there.
    let version = meta::resource_version(scale).to_owned();
    if !version.is_empty() {
        meta::set_resource_version(object, &version);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_become_text() {
        assert_eq!(selector_text(&json!({"matchLabels": {"app": "web"}})), "app=web");
        assert_eq!(selector_text(&json!({"app": "web", "tier": "a"})), "app=web,tier=a");
    }
}
