//! LimitRanger: what a container gets that asks for nothing, and how much it may ask for.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use trireme_kinds::Kind;
use trireme_machinery::meta;
use trireme_machinery::quantity::Quantity;
use trireme_machinery::status::Status;

use super::limits::Limits;
use super::pod::{items, text};
use super::resources::{self, Resources};
use super::{Attributes, Operation, Plugin};
use crate::pipeline::Objects;

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The plugin.
pub struct LimitRanger {
    ranges: Limits,
}

impl LimitRanger {
    /// Reads `ranges` from the cache, and from the store where it has none.
    #[must_use]
    pub fn new(objects: Arc<dyn Objects>, ranges: Arc<Kind>) -> Self {
        Self { ranges: Limits::new(objects, ranges) }
    }

    async fn ranges(&self, attributes: &Attributes<'_>) -> Result<Vec<Value>, Status> {
        Ok(self.ranges.of(attributes.namespace).await?.iter().map(|range| range.value()).collect())
    }
}

/// Whether limits apply to this write at all.
fn applies(attributes: &Attributes<'_>) -> bool {
    if attributes.old.is_some_and(meta::is_deleting) || attributes.object().is_null() {
        return false;
    }
    let created = attributes.operation == Operation::Create && attributes.is("", "pods");
    let resized = attributes.operation == Operation::Update && attributes.is_sub("", "pods", "resize");
    let claim = matches!(attributes.operation, Operation::Create | Operation::Update)
        && attributes.is("", "persistentvolumeclaims");
    created || resized || claim
}

#[async_trait]
impl Plugin for LimitRanger {
    fn name(&self) -> &'static str {
        "LimitRanger"
    }

    async fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if !applies(attributes) || attributes.kind.plural != "pods" {
            return Ok(());
        }
        let ranges = self.ranges(attributes).await?;
        if let Some(pod) = attributes.object.as_deref_mut() {
            ranges.iter().for_each(|range| set_defaults(range, pod));
        }
        Ok(())
    }

    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        if !applies(attributes) {
            return Ok(());
        }
        for range in self.ranges(attributes).await? {
            let errors = if attributes.kind.plural == "pods" {
                check_pod(&range, &attributes.object()["spec"])
            } else {
                check_claim(&range, &attributes.object()["spec"])
            };
            match errors.as_slice() {
                [] => {}
                [only] => return Err(attributes.forbidden(only)),
                several => return Err(attributes.forbidden(format!("[{}]", several.join(", ")))),
            }
        }
        Ok(())
    }
}

fn limits<'a>(range: &'a Value, of: &'a str) -> impl Iterator<Item = &'a Value> {
    items(&range["spec"]["limits"]).filter(move |limit| limit["type"] == of)
}

fn set_defaults(range: &Value, pod: &mut Value) {
    let (mut requests, mut maxima) = (serde_json::Map::new(), serde_json::Map::new());
    for limit in limits(range, "Container") {
        requests.extend(limit["defaultRequest"].as_object().cloned().unwrap_or_default());
        maxima.extend(limit["default"].as_object().cloned().unwrap_or_default());
    }
    let mut notes = Vec::new();
    for (list, what) in [("containers", "container"), ("initContainers", "init container")] {
        let containers = pod.pointer_mut(&format!("/spec/{list}")).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let name = text(container, "name").to_owned();
            let mut fill = |field: &str, defaults: &serde_json::Map<String, Value>| {
                let mut set = Vec::new();
                for (resource, amount) in defaults {
                    if container["resources"][field].get(resource).is_none() {
                        container["resources"][field][resource] = amount.clone();
                        set.push(resource.clone());
                    }
                }
                set
            };
            let set_limits = fill("limits", &maxima);
            let set_requests = fill("requests", &requests);
            if !set_requests.is_empty() {
                notes.push(format!("{} request for {what} {name}", set_requests.join(", ")));
            }
            if !set_limits.is_empty() {
                notes.push(format!("{} limit for {what} {name}", set_limits.join(", ")));
            }
        }
    }
    if !notes.is_empty() {
        meta::set_annotation(pod, ANNOTATION, &format!("LimitRanger plugin set: {}", notes.join("; ")));
    }
}

/// Requests and limits of whatever is bounded.
struct Asked {
    requests: Resources,
    limits: Resources,
}

fn check_pod(range: &Value, spec: &Value) -> Vec<String> {
    let mut errors = Vec::new();
    let containers = items(&spec["containers"]).chain(items(&spec["initContainers"]));
    let containers: Vec<Asked> = containers
        .map(|container| Asked {
            requests: resources::read(&container["resources"]["requests"]),
            limits: resources::read(&container["resources"]["limits"]),
        })
        .collect();
    for limit in limits(range, "Container") {
        containers.iter().for_each(|asked| check_all("Container", limit, asked, &mut errors));
    }
    for limit in limits(range, "Pod") {
        let asked = Asked { requests: resources::of_pod(spec, "requests"), limits: resources::of_pod(spec, "limits") };
        check_all("Pod", limit, &asked, &mut errors);
    }
    errors
}

fn check_all(of: &str, limit: &Value, asked: &Asked, errors: &mut Vec<String>) {
    for (resource, bound) in resources::read(&limit["min"]) {
        errors.extend(below(of, &resource, &bound, asked));
    }
    for (resource, bound) in resources::read(&limit["max"]) {
        errors.extend(above(of, &resource, &bound, asked));
    }
    for (resource, bound) in resources::read(&limit["maxLimitRequestRatio"]) {
        errors.extend(ratio(of, &resource, &bound, asked));
    }
}

fn check_claim(range: &Value, spec: &Value) -> Vec<String> {
    const OF: &str = "PersistentVolumeClaim";
    let asked = Asked { requests: resources::read(&spec["resources"]["requests"]), limits: Resources::new() };
    let mut errors = Vec::new();
    for limit in limits(range, OF) {
        for (resource, bound) in resources::read(&limit["min"]) {
            errors.extend(below(OF, &resource, &bound, &asked));
        }
        for (resource, bound) in resources::read(&limit["max"]) {
            let start = format!("maximum {resource} usage per {OF} is {bound}");
            match asked.requests.get(&resource) {
                None => errors.push(format!("{start}.  No request is specified")),
                Some(request) if *request > bound => errors.push(format!("{start}, but request is {request}")),
                Some(_) => {}
            }
        }
    }
    errors
}

fn below(of: &str, resource: &str, bound: &Quantity, asked: &Asked) -> Option<String> {
    let start = format!("minimum {resource} usage per {of} is {bound}");
    let Some(request) = asked.requests.get(resource) else { return Some(format!("{start}.  No request is specified")) };
    if request < bound {
        return Some(format!("{start}, but request is {request}"));
    }
    let limit = asked.limits.get(resource).filter(|limit| *limit < bound)?;
    Some(format!("{start}, but limit is {limit}"))
}

fn above(of: &str, resource: &str, bound: &Quantity, asked: &Asked) -> Option<String> {
    let start = format!("maximum {resource} usage per {of} is {bound}");
    let Some(limit) = asked.limits.get(resource) else { return Some(format!("{start}.  No limit is specified")) };
    if limit > bound {
        return Some(format!("{start}, but limit is {limit}"));
    }
    let request = asked.requests.get(resource).filter(|request| *request > bound)?;
    Some(format!("{start}, but request is {request}"))
}

fn ratio(of: &str, resource: &str, bound: &Quantity, asked: &Asked) -> Option<String> {
    let start = format!("{resource} max limit to request ratio per {of} is {bound}");
    let set = |resources: &Resources| resources.get(resource).filter(|amount| !amount.is_zero()).map(Quantity::as_f64);
    let Some(request) = set(&asked.requests) else {
        return Some(format!("{start}, but no request is specified or request is 0"));
    };
    let Some(limit) = set(&asked.limits) else {
        return Some(format!("{start}, but no limit is specified or limit is 0"));
    };
    let ratio = limit / request;
    (ratio > bound.as_f64()).then(|| format!("{start}, but provided ratio is {ratio:.6}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::testing::Behind;
    use serde_json::json;

    fn container(requests: Value, limits: Value) -> Value {
        json!({"name": "c", "resources": {"requests": requests, "limits": limits}})
    }

    fn range(limit: Value) -> Value {
        json!({"spec": {"limits": [limit]}})
    }

    #[test]
    fn bounds_read_like_upstream() {
        let max = range(json!({"type": "Container", "max": {"cpu": "500m"}}));
        let spec = json!({"containers": [container(json!({}), json!({"cpu": "1"}))]});
        assert_eq!(check_pod(&max, &spec), ["maximum cpu usage per Container is 500m, but limit is 1"]);
        let times = range(json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}));
        let spec = json!({"containers": [container(json!({"cpu": "100m"}), json!({"cpu": "1"}))]});
        assert_eq!(
            check_pod(&times, &spec),
            ["cpu max limit to request ratio per Container is 2, but provided ratio is 10.000000"]
        );
    }

    #[tokio::test]
    async fn a_range_that_the_cache_lacks_is_read_from_the_store() {
        let mut range = range(json!({"type": "Pod", "max": {"cpu": "1"}}));
        range["apiVersion"] = json!("v1");
        range["kind"] = json!("LimitRange");
        range["metadata"] = json!({"name": "r", "namespace": "new"});
        let registry = trireme_kinds::Registry::builtin();
        let ranges = registry.by_resource("", "v1", "limitranges").unwrap();
        let plugin = LimitRanger::new(Behind::unseen(vec![range]), ranges);
        let context = crate::pipeline::Context::internal("test");
        let mut pod =
            json!({"metadata": {"name": "p"}, "spec": {"containers": [container(json!({}), json!({"cpu": "2"}))]}});
        let attributes = Attributes {
            context: &context,
            kind: &registry.by_resource("", "v1", "pods").unwrap(),
            operation: Operation::Create,
            subresource: "",
            namespace: "new",
            name: "",
            object: Some(&mut pod),
            old: None,
            options: &Value::Null,
            dry_run: false,
        };
        let refused = plugin.validate(&attributes).await.unwrap_err();
        assert!(refused.message.contains("maximum cpu usage per Pod is 1, but limit is 2"), "{refused:?}");
    }

    #[test]
    fn defaults_are_noted() {
        let defaults = range(json!({"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}}));
        let mut pod = json!({"metadata": {}, "spec": {"containers": [{"name": "c", "resources": {}}]}});
        set_defaults(&defaults, &mut pod);
        assert_eq!(
            pod["spec"]["containers"][0]["resources"],
            json!({"limits": {"cpu": "1"}, "requests": {"cpu": "100m"}})
        );
        assert_eq!(
            meta::annotation(&pod, ANNOTATION),
            Some("LimitRanger plugin set: cpu request for container c; cpu limit for container c")
        );
    }
}
