//! `pods/binding`: a Pod gets its node, once.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use trireme_kinds::Kind;
use trireme_machinery::field;
use trireme_machinery::gvk::GroupResource;
use trireme_machinery::path::Path;
use trireme_machinery::status::{Reason, Status};
use trireme_machinery::{meta, names, time};

use super::{Subresources, done, is_dry_run};
use crate::auth::user::quoted;
use crate::pipeline::{Answer, Context, Request, decode};

impl Subresources {
    pub(super) async fn bind(&self, context: &Context, request: &Request, kind: &Arc<Kind>) -> Result<Answer, Status> {
        let info = &request.info;
        let mut binding = decode::body(context, &self.inner.bodies.binding, request)?;
        let name = if info.name.is_empty() { meta::name(&binding).to_owned() } else { info.name.clone() };
        if meta::name(&binding) != name {
            return Err(Status::bad_request("name in URL does not match name in Binding object"));
        }
        check(&binding)?;
        self.admit(context, request, kind, &mut binding).await?;
        let (uid, version) = (meta::uid(&binding).to_owned(), meta::resource_version(&binding).to_owned());
        let mut change = |pod: &mut Value| {
            precondition(pod, &name, &uid, &version)?;
            assign(pod, &binding, context.now)
                .map_err(|why| Status::conflict(&GroupResource::new("", "pods/binding"), &name, why))
        };
        if is_dry_run(request) {
            let pod = self.inner.objects.get(&self.inner.pods, &info.namespace, &name).await?;
            change(&mut pod.value())?;
        } else {
            // The write is the scheduler's, not ours: its cause, its claim.
            self.inner
                .objects
                .update(context, &self.inner.pods, &info.namespace, &name, "binding", &mut change)
                .await?;
        }
        Ok(done())
    }
}

/// Upstream answers a binding that is wrong in itself with a bare 500.
fn check(binding: &Value) -> Result<(), Status> {
    let target = Path::new("target");
    let text = |key: &str| binding["target"][key].as_str().unwrap_or_default();
    let mut errors = Vec::new();
    if !matches!(text("kind"), "" | "Node") {
        errors.push(field::not_supported(&target.child("kind"), text("kind"), ["Node", "<empty>"]));
    }
    let (at, name) = (target.child("name"), text("name"));
    if name.is_empty() {
        errors.push(field::required(&at, ""));
    } else if errors.is_empty() {
        errors.extend(names::is_dns1123_subdomain(name).into_iter().map(|why| field::invalid(&at, name, why)));
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::failure(500, Reason::Unknown, field::aggregate(&errors))) }
}

fn precondition(pod: &Value, name: &str, uid: &str, version: &str) -> Result<(), Status> {
    let refuse = |what: &str, wanted: &str, found: &str| {
        let why = format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}");
        Err(Status::conflict(&GroupResource::new("", "pods"), name, why))
    };
    if !uid.is_empty() && uid != meta::uid(pod) {
        return refuse("UID", uid, meta::uid(pod));
    }
    if !version.is_empty() && version != meta::resource_version(pod) {
        return refuse("ResourceVersion", version, meta::resource_version(pod));
    }
    Ok(())
}

fn assign(pod: &mut Value, binding: &Value, now: jiff::Timestamp) -> Result<(), String> {
    let name = meta::name(pod).to_owned();
    if meta::is_deleting(pod) {
        return Err(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    if !node.is_empty() {
        return Err(format!("pod {name} is already assigned to node {}", quoted(node)));
    }
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        return Err(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    pod["spec"]["nodeName"] = binding["target"]["name"].clone();
    for (key, value) in meta::annotations(binding).into_iter().flatten() {
        meta::set_annotation(pod, key, value.as_str().unwrap_or_default());
    }
    for (key, value) in meta::labels(binding).into_iter().flatten() {
        meta::set_label(pod, key, value.as_str().unwrap_or_default());
    }
    if let Some(status) = pod.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("nominatedNodeName");
    }
    set_condition(pod, json!({"type": "PodScheduled", "status": "True"}), now);
    Ok(())
}

/// Sets a condition of a Pod; the time of its last transition moves only with its status.
pub(super) fn set_condition(pod: &mut Value, condition: Value, now: jiff::Timestamp) {
    let mut condition: Map<String, Value> = condition.as_object().cloned().unwrap_or_default();
    condition.insert("lastProbeTime".into(), Value::Null);
    condition.insert("lastTransitionTime".into(), json!(time::format(now)));
    if !pod["status"]["conditions"].is_array() {
        pod["status"]["conditions"] = json!([]);
    }
    let Some(list) = pod["status"]["conditions"].as_array_mut() else { return };
    match list.iter_mut().find(|known| known["type"] == condition["type"]) {
        Some(known) => {
            if known["status"] == condition["status"] {
                condition.insert("lastTransitionTime".into(), known["lastTransitionTime"].clone());
            }
            *known = Value::Object(condition);
        }
        None => list.push(Value::Object(condition)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_bound_once() {
        let binding =
            json!({"metadata": {"name": "p", "labels": {"zone": "z"}}, "target": {"kind": "Node", "name": "n1"}});
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {}, "status": {"phase": "Pending"}});
        assign(&mut pod, &binding, jiff::Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(pod["spec"]["nodeName"], "n1");
        assert_eq!(pod["metadata"]["labels"]["zone"], "z");
        assert_eq!(pod["status"]["conditions"][0]["type"], "PodScheduled");
        let again = assign(&mut pod, &binding, jiff::Timestamp::UNIX_EPOCH).unwrap_err();
        assert_eq!(again, "pod p is already assigned to node \"n1\"");
    }

    #[test]
    fn a_wrong_target_reads_like_upstream() {
        let error = check(&json!({"target": {"kind": "Frob", "name": ""}})).unwrap_err();
        let text = "[target.kind: Unsupported value: \"Frob\": supported values: \"Node\", \"<empty>\", target.name: Required value]";
        assert_eq!((error.code, error.message.as_str()), (500, text));
    }
}
