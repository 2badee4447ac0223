//! Requests and limits, in the numbers that cgroups take.

use super::qos::{self, Class};
use super::view::{self, spec};
use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use std::collections::BTreeMap;
use trireme_machinery::quantity::Quantity;
use trireme_proto::runtime::v1 as pb;

/// A cgroup's CPU period, in microseconds.
pub const CPU_PERIOD: i64 = 100_000;
const MIN_SHARES: i64 = 2;
const MAX_SHARES: i64 = 262_144;
const MIN_QUOTA: i64 = 1_000;

type Resources = BTreeMap<String, Text>;

fn quantity(map: Option<&Resources>, name: &str) -> Option<Quantity> {
    Quantity::parse(&map?.get(name)?.0).ok()
}

/// A resource in thousandths, if it is named.
pub fn milli(map: Option<&Resources>, name: &str) -> Option<i64> {
    quantity(map, name).map(|quantity| quantity.milli_value())
}

/// A resource in whole units, rounded up, if it is named.
pub fn whole(map: Option<&Resources>, name: &str) -> Option<i64> {
    quantity(map, name).map(|quantity| quantity.value())
}

/// What of a container: its requests, where a missing one is its limit.
pub fn request_milli_cpu(resources: Option<&ResourceRequirements>) -> Option<i64> {
    let resources = resources?;
    milli(resources.requests.as_ref(), "cpu").or_else(|| milli(resources.limits.as_ref(), "cpu"))
}

/// As [`request_milli_cpu`], for memory in bytes.
pub fn request_memory(resources: Option<&ResourceRequirements>) -> Option<i64> {
    let resources = resources?;
    whole(resources.requests.as_ref(), "memory").or_else(|| whole(resources.limits.as_ref(), "memory"))
}

/// CPU shares of a request: 1024 to the core.
pub fn shares(milli_cpu: i64) -> i64 {
    (milli_cpu * 1024 / 1000).clamp(MIN_SHARES, MAX_SHARES)
}

/// CPU quota of a limit; none for no limit.
pub fn quota(milli_cpu: i64) -> Option<i64> {
    (milli_cpu > 0).then(|| (milli_cpu * CPU_PERIOD / 1000).max(MIN_QUOTA))
}

/// The cgroup of one container.
pub fn container_limits(pod: &Pod, container: &Container, node_memory: i64) -> pb::LinuxContainerResources {
    let resources = container.resources.as_ref();
    let pod_limits = spec(pod).resources.as_ref().and_then(|resources| resources.limits.as_ref());
    let limits = resources.and_then(|resources| resources.limits.as_ref());
    let cpu_limit = milli(limits, "cpu").filter(|cpu| *cpu > 0).or_else(|| milli(pod_limits, "cpu"));
    let memory_limit = whole(limits, "memory").filter(|bytes| *bytes > 0).or_else(|| whole(pod_limits, "memory"));
    let request = resources.and_then(|resources| milli(resources.requests.as_ref(), "cpu")).or(cpu_limit);
    pb::LinuxContainerResources {
        cpu_shares: request.map_or(MIN_SHARES, shares),
        cpu_period: if cpu_limit.and_then(quota).is_some() { CPU_PERIOD } else { 0 },
        cpu_quota: cpu_limit.and_then(quota).unwrap_or_default(),
        memory_limit_in_bytes: memory_limit.unwrap_or_default(),
        oom_score_adj: oom_score_adj(pod, container, node_memory),
        ..Default::default()
    }
}

/// Who dies first when the node's memory runs out.
fn oom_score_adj(pod: &Pod, container: &Container, node_memory: i64) -> i64 {
    const GUARANTEED: i64 = -997;
    const BEST_EFFORT: i64 = 1000;
    if spec(pod).priority_class_name.as_deref() == Some("system-node-critical") {
        return GUARANTEED;
    }
    match qos::class(pod) {
        Class::Guaranteed => GUARANTEED,
        Class::BestEffort => BEST_EFFORT,
        Class::Burstable => {
            let own = request_memory(container.resources.as_ref()).unwrap_or_default();
            let smallest = spec(pod)
                .containers
                .iter()
                .map(|container| request_memory(container.resources.as_ref()).unwrap_or_default())
                .min()
                .unwrap_or_default();
            let request = if view::is_sidecar(container) { own.max(smallest) } else { own };
            (1000 - 1000 * request / node_memory.max(1)).clamp(1000 + GUARANTEED, BEST_EFFORT - 1)
        }
    }
}

/// What a Pod may use in all: the limits of its own cgroup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PodLimits {
    /// CPU shares.
    pub shares: i64,
    /// CPU quota in a period of [`CPU_PERIOD`]; none: unlimited.
    pub quota: Option<i64>,
    /// Bytes; none: unlimited.
    pub memory: Option<i64>,
}

/// The sum over containers; at least what an init container needs, with running sidecars counted in.
fn effective(pod: &Pod, of: impl Fn(&Container) -> Option<i64>) -> (i64, bool) {
    let mut all_said = true;
    let mut take = |container: &Container| {
        of(container).filter(|value| *value > 0).unwrap_or_else(|| {
            all_said = false;
            0
        })
    };
    let mut total: i64 = spec(pod).containers.iter().map(&mut take).sum();
    let (mut sidecars, mut init) = (0, 0);
    for container in view::init_containers(pod) {
        let own = take(container);
        if view::is_sidecar(container) {
            sidecars += own;
            init = init.max(sidecars);
        } else {
            init = init.max(own + sidecars);
        }
    }
    total = (total + sidecars).max(init);
    (total, all_said)
}

/// A Pod's request of a resource, as the scheduler counts it: thousandths for cpu, bytes for memory.
pub fn pod_request(pod: &Pod, cpu: bool) -> i64 {
    let name = if cpu { "cpu" } else { "memory" };
    let read = |map: Option<&Resources>| if cpu { milli(map, name) } else { whole(map, name) };
    let overhead = read(spec(pod).overhead.as_ref()).unwrap_or_default();
    let own = spec(pod).resources.as_ref().and_then(|resources| read(resources.requests.as_ref()));
    let of = |container: &Container| {
        let resources = container.resources.as_ref();
        if cpu { request_milli_cpu(resources) } else { request_memory(resources) }
    };
    overhead + own.unwrap_or_else(|| effective(pod, of).0)
}

/// Limits of the Pod's cgroup.
pub fn pod_limits(pod: &Pod) -> PodLimits {
    let limit = |cpu: bool| {
        let read = |map: Option<&Resources>| if cpu { milli(map, "cpu") } else { whole(map, "memory") };
        let overhead = read(spec(pod).overhead.as_ref()).unwrap_or_default();
        if let Some(own) = spec(pod).resources.as_ref().and_then(|resources| read(resources.limits.as_ref())) {
            return Some(own + overhead);
        }
        let of = |container: &Container| read(container.resources.as_ref().and_then(|r| r.limits.as_ref()));
        let (total, all_said) = effective(pod, of);
        (all_said && total > 0).then_some(total + overhead)
    };
    if qos::class(pod) == Class::BestEffort {
        return PodLimits { shares: MIN_SHARES, ..PodLimits::default() };
    }
    PodLimits { shares: shares(pod_request(pod, true)), quota: limit(true).and_then(quota), memory: limit(false) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(containers: serde_json::Value) -> Pod {
        serde_json::from_value(serde_json::json!({"metadata": {"name": "p"}, "spec": {"containers": containers}}))
            .unwrap()
    }

    #[test]
    fn limits_become_cgroup_numbers() {
        let pod = pod(serde_json::json!([
            {"name": "a", "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}, "limits": {"cpu": "1500m", "memory": "128Mi"}}},
            {"name": "b", "resources": {"requests": {"cpu": "1"}}},
        ]));
        let limits = container_limits(&pod, &pod.spec.as_ref().unwrap().containers[0], 1 << 30);
        assert_eq!((limits.cpu_shares, limits.cpu_quota, limits.cpu_period), (256, 150_000, 100_000));
        assert_eq!(limits.memory_limit_in_bytes, 128 << 20);
        assert_eq!(limits.oom_score_adj, 1000 - 62);
        let limits = container_limits(&pod, &pod.spec.as_ref().unwrap().containers[1], 1 << 30);
        assert_eq!((limits.cpu_shares, limits.cpu_quota), (1024, 0));
        assert_eq!(pod_limits(&pod), PodLimits { shares: 1280, quota: None, memory: None });
    }

    #[test]
    fn a_pod_without_requests_gets_the_least() {
        let pod = pod(serde_json::json!([{"name": "a"}]));
        let limits = container_limits(&pod, &pod.spec.as_ref().unwrap().containers[0], 1 << 30);
        assert_eq!((limits.cpu_shares, limits.memory_limit_in_bytes, limits.oom_score_adj), (2, 0, 1000));
        assert_eq!(pod_limits(&pod).shares, 2);
    }
}
