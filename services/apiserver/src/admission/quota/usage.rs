//! What an object costs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use trireme_kinds::Kind;
use trireme_machinery::quantity::{Format, Quantity};

use crate::admission::pod::{items, text};
use crate::admission::resources::{self, Resources};

/// Kinds that are counted under their own name too.
const COUNTED: [&str; 7] =
    ["pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps", "persistentvolumeclaims"];
/// Resources of containers that a quota makes mandatory.
const MANDATORY: [&str; 8] = [
    "cpu",
    "memory",
    "requests.cpu",
    "requests.memory",
    "limits.cpu",
    "limits.memory",
    "requests.ephemeral-storage",
    "limits.ephemeral-storage",
];

fn one() -> Quantity {
    Quantity::from_value(1, Format::DecimalSi)
}

/// `count/deployments.apps`.
fn count_name(kind: &Kind) -> String {
    format!("count/{}", kind.group_resource())
}

fn core(kind: &Kind) -> &str {
    if kind.group.is_empty() { &kind.plural } else { "" }
}

/// Whether an update can change what the object costs.
pub(super) fn changes(kind: &Kind) -> bool {
    matches!(core(kind), "services" | "persistentvolumeclaims")
}

/// Whether a quota on this resource looks at objects of the kind.
pub(super) fn counts(kind: &Kind, resource: &str) -> bool {
    if resource == count_name(kind) || (COUNTED.contains(&core(kind)) && resource == kind.plural) {
        return true;
    }
    match core(kind) {
        "pods" => {
            let base =
                resource.strip_prefix("requests.").or_else(|| resource.strip_prefix("limits.")).unwrap_or(resource);
            let compute = matches!(base, "cpu" | "memory" | "ephemeral-storage") || base.starts_with("hugepages-");
            compute || (resource.starts_with("requests.") && base.contains('/'))
        }
        "services" => matches!(resource, "services.nodeports" | "services.loadbalancers"),
        "persistentvolumeclaims" => {
            resource == "requests.storage" || resource.contains(".storageclass.storage.k8s.io/")
        }
        _ => false,
    }
}

/// What the object costs.
pub(super) fn of(kind: &Kind, _namespace: &str, object: &Value) -> Resources {
    let mut cost = Resources::new();
    cost.insert(count_name(kind), one());
    if COUNTED.contains(&core(kind)) {
        cost.insert(kind.plural.clone(), one());
    }
    match core(kind) {
        "pods" => of_pod(object, &mut cost),
        "services" => of_service(&object["spec"], &mut cost),
        "persistentvolumeclaims" => of_claim(object, &mut cost),
        _ => {}
    }
    cost
}

fn of_pod(pod: &Value, cost: &mut Resources) {
    // A Pod that ended uses nothing but its place in the count of objects.
    if matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
        cost.remove("pods");
        return;
    }
    let spec = &pod["spec"];
    cost.extend(compute(
        &resources::of_pod_with_overhead(spec, "requests"),
        &resources::of_pod_with_overhead(spec, "limits"),
    ));
}

fn compute(requests: &Resources, limits: &Resources) -> Resources {
    let mut cost = Resources::new();
    for (name, amount) in requests {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-") {
            cost.insert(name.clone(), amount.clone());
            cost.insert(format!("requests.{name}"), amount.clone());
        } else if name.contains('/') {
            cost.insert(format!("requests.{name}"), amount.clone());
        }
    }
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(amount) = limits.get(name) {
            cost.insert(format!("limits.{name}"), amount.clone());
        }
    }
    cost
}

fn of_service(spec: &Value, cost: &mut Resources) {
    let number = |count: usize| Quantity::from_value(i64::try_from(count).unwrap_or(i64::MAX), Format::DecimalSi);
    let ports = spec["ports"].as_array().map_or(0, Vec::len);
    let balanced = text(spec, "type") == "LoadBalancer";
    let on_nodes = match text(spec, "type") {
        "NodePort" => ports,
        "LoadBalancer" if spec["allocateLoadBalancerNodePorts"] == false => {
            items(&spec["ports"]).filter(|port| port["nodePort"].as_i64().unwrap_or(0) != 0).count()
        }
        "LoadBalancer" => ports,
        _ => 0,
    };
    cost.insert("services.loadbalancers".into(), number(usize::from(balanced)));
    cost.insert("services.nodeports".into(), number(on_nodes));
}

fn of_claim(claim: &Value, cost: &mut Resources) {
    let annotated = trireme_machinery::meta::annotation(claim, "volume.beta.kubernetes.io/storage-class");
    let class = annotated.unwrap_or_else(|| text(&claim["spec"], "storageClassName")).to_owned();
    let of_class = |resource: &str| format!("{class}.storageclass.storage.k8s.io/{resource}");
    if !class.is_empty() {
        cost.insert(of_class("persistentvolumeclaims"), one());
    }
    if let Some(storage) = resources::parse(&claim["spec"]["resources"]["requests"]["storage"]) {
        if !class.is_empty() {
            cost.insert(of_class("requests.storage"), storage.clone());
        }
        cost.insert("requests.storage".into(), storage);
    }
}

/// What containers don't say though the quota counts it: `limits.memory for: a,b; requests.cpu for: a`.
pub(super) fn missing(watched: &[&str], spec: &Value) -> Option<String> {
    if spec["resources"].as_object().is_some_and(|resources| !resources.is_empty()) {
        return None;
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let required: Vec<&str> = watched.iter().copied().filter(|name| MANDATORY.contains(name)).collect();
    for container in items(&spec["containers"]).chain(items(&spec["initContainers"])) {
        let own = &container["resources"];
        let has = compute(&resources::read(&own["requests"]), &resources::read(&own["limits"]));
        for name in required.iter().filter(|name| !has.contains_key(**name)) {
            missing.entry(name).or_default().insert(text(container, "name"));
        }
    }
    if missing.is_empty() {
        return None;
    }
    let texts: Vec<String> = missing
        .into_iter()
        .map(|(resource, names)| format!("{resource} for: {}", names.into_iter().collect::<Vec<_>>().join(",")))
        .collect();
    Some(texts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_missing_reads_like_upstream() {
        let spec = json!({"containers": [{"name": "c"}]});
        let missing = missing(&["requests.cpu", "limits.memory"], &spec).unwrap();
        assert_eq!(missing, "limits.memory for: c; requests.cpu for: c");
    }

    #[test]
    fn services_cost_ports_and_balancers() {
        let mut cost = Resources::new();
        of_service(&json!({"type": "LoadBalancer", "ports": [{"port": 1}, {"port": 2}]}), &mut cost);
        assert_eq!((cost["services.loadbalancers"].value(), cost["services.nodeports"].value()), (1, 2));
    }
}
