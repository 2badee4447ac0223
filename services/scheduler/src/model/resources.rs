//! Amounts of resources: what a pod asks for and what a node has.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use trireme_machinery::quantity;

/// What a container that names no CPU counts for when nodes are compared.
const UNNAMED_MILLI_CPU: i64 = 100;
/// What a container that names no memory counts for when nodes are compared.
const UNNAMED_MEMORY: i64 = 200 << 20;

type List = BTreeMap<String, Quantity>;

/// Amounts of resources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resources {
    /// Thousandths of a CPU.
    pub milli_cpu: i64,
    /// Bytes of memory.
    pub memory: i64,
    /// Bytes of local storage.
    pub ephemeral_storage: i64,
    /// Everything else that is counted: extended resources, huge pages.
    pub scalars: BTreeMap<String, i64>,
}

// === impl Resources ===

impl Resources {
    /// Reads a list of quantities; what no node can be full of (`pods`) is left out.
    pub fn of(list: Option<&List>) -> Self {
        let mut resources = Self::default();
        for (name, text) in list.into_iter().flatten() {
            let Ok(amount) = quantity::Quantity::parse(&text.0) else { continue };
            match name.as_str() {
                "cpu" => resources.milli_cpu = amount.milli_value(),
                "memory" => resources.memory = amount.value(),
                "ephemeral-storage" => resources.ephemeral_storage = amount.value(),
                name if is_scalar(name) => {
                    resources.scalars.insert(name.to_owned(), amount.value());
                }
                _ => {}
            }
        }
        resources
    }

    /// Whether nothing is asked for.
    pub fn is_zero(&self) -> bool {
        self.milli_cpu == 0 && self.memory == 0 && self.ephemeral_storage == 0 && self.scalars.values().all(|n| *n == 0)
    }

    /// The amount of one scalar.
    pub fn scalar(&self, name: &str) -> i64 {
        self.scalars.get(name).copied().unwrap_or_default()
    }

    /// Adds other amounts.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, i64::saturating_add);
    }

    /// Takes other amounts away.
    pub fn sub(&mut self, other: &Self) {
        self.combine(other, i64::saturating_sub);
    }

    /// Raises each amount to the other one.
    pub fn raise_to(&mut self, other: &Self) {
        self.combine(other, i64::max);
    }

    fn combine(&mut self, other: &Self, op: impl Fn(i64, i64) -> i64) {
        self.milli_cpu = op(self.milli_cpu, other.milli_cpu);
        self.memory = op(self.memory, other.memory);
        self.ephemeral_storage = op(self.ephemeral_storage, other.ephemeral_storage);
        for (name, amount) in &other.scalars {
            let own = self.scalars.entry(name.clone()).or_default();
            *own = op(*own, *amount);
        }
    }
}

/// What a pod asks for.
pub fn requests(spec: &PodSpec) -> Resources {
    effective(spec, |container| Resources::of(listed(container)))
}

/// What a pod counts for when nodes are compared: containers that name no CPU or memory are given some.
pub fn requests_for_scoring(spec: &PodSpec) -> Resources {
    effective(spec, |container| {
        let list = listed(container);
        let mut resources = Resources::of(list);
        let named = |name: &str| list.is_some_and(|list| list.contains_key(name));
        if !named("cpu") {
            resources.milli_cpu = UNNAMED_MILLI_CPU;
        }
        if !named("memory") {
            resources.memory = UNNAMED_MEMORY;
        }
        resources
    })
}

/// The sum of the containers, or the most that the containers before them need at once; then what the pod itself says.
fn effective(spec: &PodSpec, of: impl Fn(&Container) -> Resources) -> Resources {
    let mut total = Resources::default();
    for container in &spec.containers {
        total.add(&of(container));
    }
    let mut sidecars = Resources::default();
    let mut peak = Resources::default();
    for container in spec.init_containers.iter().flatten() {
        let mut own = of(container);
        if container.restart_policy.as_deref() == Some("Always") {
            total.add(&own);
            sidecars.add(&own);
            peak.raise_to(&sidecars);
        } else {
            own.add(&sidecars);
            peak.raise_to(&own);
        }
    }
    total.raise_to(&peak);
    let pod_level = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    if let Some(list) = pod_level {
        let named = Resources::of(Some(list));
        if list.contains_key("cpu") {
            total.milli_cpu = named.milli_cpu;
        }
        if list.contains_key("memory") {
            total.memory = named.memory;
        }
        total.scalars.extend(named.scalars);
    }
    total.add(&Resources::of(spec.overhead.as_ref()));
    total
}

fn listed(container: &Container) -> Option<&List> {
    container.resources.as_ref()?.requests.as_ref()
}

/// Whether a resource is counted in whole numbers: extended ones, huge pages, attachable volumes.
fn is_scalar(name: &str) -> bool {
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    let extended = !native && !name.starts_with("requests.");
    extended
        || name.starts_with("hugepages-")
        || name.starts_with("attachable-volumes-")
        || name.contains("kubernetes.io/")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(value: serde_json::Value) -> PodSpec {
        serde_json::from_value(value).unwrap()
    }

    fn container(cpu: &str) -> serde_json::Value {
        json!({"name": "c", "resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn containers_add_up_and_init_containers_peak() {
        let spec = spec(json!({
            "containers": [container("100m"), container("200m")],
            "initContainers": [container("1"),
                {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "50m", "memory": "1Mi"}}},
                container("400m")],
            "overhead": {"cpu": "10m"}}));
        let resources = requests(&spec);
        assert_eq!(resources.milli_cpu, 1010);
        assert_eq!(resources.memory, 1 << 20);
    }

    #[test]
    fn the_pod_level_wins() {
        let spec = spec(json!({"containers": [container("100m")], "resources": {"requests": {"cpu": "2"}}}));
        assert_eq!(requests(&spec).milli_cpu, 2000);
    }

    #[test]
    fn unnamed_requests_count_only_for_scores() {
        let spec = spec(json!({"containers": [{"name": "c"},
            {"name": "d", "resources": {"requests": {"cpu": "0", "example.com/gpu": "2"}}}]}));
        assert_eq!(requests(&spec).milli_cpu, 0);
        assert_eq!(requests(&spec).scalar("example.com/gpu"), 2);
        let scoring = requests_for_scoring(&spec);
        assert_eq!((scoring.milli_cpu, scoring.memory), (100, 400 << 20));
    }
}
