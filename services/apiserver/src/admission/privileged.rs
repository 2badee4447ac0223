//! `--allow-privileged=false`: no container of the cluster is privileged.
//!
//! No plugin that flags choose: upstream has it in the validation of Pods and of the templates they are made from.

use async_trait::async_trait;
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::meta;
use trireme_machinery::path::Path;
use trireme_machinery::status::Status;

use super::pod::{CONTAINERS, items};
use super::{Attributes, Operation, Plugin};

/// Refuses privileged containers.
pub struct NoPrivileged;

#[async_trait]
impl Plugin for NoPrivileged {
    fn name(&self) -> &'static str {
        ""
    }

    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let whole = matches!(attributes.subresource, "" | "ephemeralcontainers");
        if !whole || !matches!(attributes.operation, Operation::Create | Operation::Update) {
            return Ok(());
        }
        let kind = attributes.kind;
        let (Some(object), Some(way)) = (attributes.object.as_deref(), way_to_spec(&kind.group, &kind.plural)) else {
            return Ok(());
        };
        let errors = privileged(object, way);
        if errors.is_empty() { Ok(()) } else { Err(Status::invalid(&kind.gvk(), meta::name(object), errors)) }
    }
}

/// Where the spec of a Pod is in an object.
fn way_to_spec(group: &str, plural: &str) -> Option<&'static [&'static str]> {
    match (group, plural) {
        ("", "pods") => Some(&["spec"]),
        ("", "podtemplates") => Some(&["template", "spec"]),
        ("", "replicationcontrollers") | ("apps", _) | ("batch", "jobs") => Some(&["spec", "template", "spec"]),
        ("batch", "cronjobs") => Some(&["spec", "jobTemplate", "spec", "template", "spec"]),
        _ => None,
    }
}

fn privileged(object: &Value, way: &[&'static str]) -> ErrorList {
    let (mut spec, mut path) = (object, None::<Path>);
    for step in way {
        spec = &spec[*step];
        path = Some(path.map_or_else(|| Path::new(step), |path| path.child(step)));
    }
    let mut errors = ErrorList::new();
    for (list, path) in CONTAINERS.iter().filter_map(|list| Some((*list, path.as_ref()?.child(list)))) {
        for (index, container) in items(&spec[list]).enumerate() {
            if container["securityContext"]["privileged"] == true {
                let at = path.index(index).child("securityContext").child("privileged");
                errors.push(field::forbidden(&at, "disallowed by cluster policy"));
            }
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn privileged_containers_are_found_wherever_they_are() {
        let bad = json!({"securityContext": {"privileged": true}});
        let good = json!({"securityContext": {"privileged": false}});
        let spec = json!({"initContainers": [bad], "containers": [good, bad, {}]});
        let cron = json!({"spec": {"jobTemplate": {"spec": {"template": {"spec": spec}}}}});
        let errors = privileged(&cron, way_to_spec("batch", "cronjobs").unwrap());
        let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let at = "spec.jobTemplate.spec.template.spec";
        assert_eq!(
            told,
            [
                format!("{at}.initContainers[0].securityContext.privileged: Forbidden: disallowed by cluster policy"),
                format!("{at}.containers[1].securityContext.privileged: Forbidden: disallowed by cluster policy"),
            ]
        );
        assert!(privileged(&json!({"spec": {"containers": [good]}}), way_to_spec("", "pods").unwrap()).is_empty());
    }
}
