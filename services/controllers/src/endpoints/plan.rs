//! The Endpoints object of a Service. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, Endpoints, ObjectReference, Pod, Service,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use trireme_client::Object;

use crate::common::pods;
use crate::endpointslice::ports;

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";
const HEADLESS: &str = "service.kubernetes.io/headless";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// Addresses in an Endpoints object at most; the rest is only in slices.
const MOST: usize = 1000;

/// The object that a Service should have; `None`: it has it.
pub(super) fn plan(service: &Service, selected: &[Arc<Pod>], existing: Option<&Endpoints>) -> Option<Endpoints> {
    let (subsets, truncated) = truncate(subsets(service, selected));
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(HEADLESS);
    if ports::is_headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    let mut next = existing.cloned().unwrap_or_else(|| Endpoints {
        metadata: ObjectMeta {
            name: service.metadata.name.clone(),
            namespace: service.metadata.namespace.clone(),
            ..ObjectMeta::default()
        },
        subsets: None,
    });
    next.metadata.labels = Some(labels);
    next.subsets = Some(subsets).filter(|s| !s.is_empty());
    if truncated {
        next.metadata.annotations.get_or_insert_default().insert(OVER_CAPACITY.to_owned(), "truncated".to_owned());
    } else if let Some(annotations) = &mut next.metadata.annotations {
        annotations.remove(OVER_CAPACITY);
    }
    (existing != Some(&next)).then_some(next)
}

type PortKey = (String, i32, String);

/// Ports, the ready addresses behind them and the others.
type Group = (Vec<EndpointPort>, Vec<EndpointAddress>, Vec<EndpointAddress>);

/// Addresses with the same ports share a subset.
fn subsets(service: &Service, selected: &[Arc<Pod>]) -> Vec<EndpointSubset> {
    let spec = service.spec.clone().unwrap_or_default();
    let publish = spec.publish_not_ready_addresses.unwrap_or(false);
    let wanted = spec.ports.clone().unwrap_or_default();
    let mut groups: BTreeMap<Vec<PortKey>, Group> = BTreeMap::new();
    for pod in selected.iter().filter(|p| belongs(p, publish)) {
        let Some(address) = address(service, pod) else { continue };
        let mut found: Vec<EndpointPort> = wanted
            .iter()
            .filter_map(|port| {
                Some(EndpointPort {
                    name: port.name.clone().filter(|n| !n.is_empty()),
                    port: ports::target(pod, port)?,
                    protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
                    app_protocol: port.app_protocol.clone(),
                })
            })
            .collect();
        if found.is_empty() && !wanted.is_empty() {
            continue;
        }
        found.sort_by_key(port_key);
        let key = found.iter().map(port_key).collect();
        let group = groups.entry(key).or_insert_with(|| (found, Vec::new(), Vec::new()));
        if publish || pods::is_ready(pod) { group.1.push(address) } else { group.2.push(address) }
    }
    let some = |mut addresses: Vec<EndpointAddress>| {
        addresses.sort_by_key(|a| a.ip.parse::<std::net::IpAddr>().ok());
        Some(addresses).filter(|a| !a.is_empty())
    };
    groups
        .into_values()
        .map(|(ports, ready, unready)| EndpointSubset {
            addresses: some(ready),
            not_ready_addresses: some(unready),
            ports: Some(ports).filter(|p| !p.is_empty()),
        })
        .collect()
}

fn port_key(port: &EndpointPort) -> PortKey {
    (port.name.clone().unwrap_or_default(), port.port, port.protocol.clone().unwrap_or_default())
}

/// Unlike in slices, a pod that is being deleted is left out unless everything is published.
fn belongs(pod: &Pod, publish: bool) -> bool {
    !pods::is_finished(pod) && !ports::addresses(pod).is_empty() && (publish || !pod.is_deleting())
}

fn address(service: &Service, pod: &Pod) -> Option<EndpointAddress> {
    let first = service.spec.as_ref().and_then(|s| s.ip_families.as_ref()?.first());
    let six = first.is_some_and(|f| f == "IPv6");
    let ip = ports::addresses(pod).into_iter().find(|ip| ip.is_ipv6() == six)?;
    Some(EndpointAddress {
        ip: ip.to_string(),
        hostname: ports::hostname(pod, service),
        node_name: pod.spec.as_ref().and_then(|s| s.node_name.clone()),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
            ..ObjectReference::default()
        }),
    })
}

fn truncate(mut subsets: Vec<EndpointSubset>) -> (Vec<EndpointSubset>, bool) {
    let mut room = MOST;
    let mut truncated = false;
    let mut cut = |addresses: &mut Option<Vec<EndpointAddress>>| {
        if let Some(list) = addresses {
            truncated |= list.len() > room;
            list.truncate(room);
            room -= list.len();
        }
    };
    subsets.iter_mut().for_each(|s| cut(&mut s.addresses));
    subsets.iter_mut().for_each(|s| cut(&mut s.not_ready_addresses));
    (subsets, truncated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(name: &str, ip: &str, ready: bool) -> Arc<Pod> {
        let status = if ready { "True" } else { "False" };
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": name, "namespace": "d", "uid": name},
                "spec": {"nodeName": "n1", "containers": []},
                "status": {"phase": "Running", "podIPs": [{"ip": ip}], "conditions": [{"type": "Ready", "status": status}]},
            }))
            .unwrap(),
        )
    }

    fn service(ports: Value) -> Service {
        serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "d", "labels": {"tier": "front"}},
            "spec": {"clusterIP": "10.96.0.5", "ports": ports}}))
        .unwrap()
    }

    #[test]
    fn ready_and_unready_addresses() {
        let service = service(json!([{"port": 80}]));
        let pods = [pod("b", "10.0.0.10", false), pod("c", "10.0.0.9", true), pod("a", "10.0.0.10", true)];
        let endpoints = plan(&service, &pods, None).unwrap();
        let value = serde_json::to_value(&endpoints).unwrap();
        assert_eq!(value["metadata"]["labels"], json!({MANAGED_BY: MANAGER, "tier": "front"}));
        let subset = &value["subsets"][0];
        assert_eq!(subset["ports"], json!([{"port": 80, "protocol": "TCP"}]));
        let ips: Vec<_> = subset["addresses"].as_array().unwrap().iter().map(|a| a["ip"].as_str().unwrap()).collect();
        assert_eq!(ips, ["10.0.0.9", "10.0.0.10"]);
        assert_eq!(subset["notReadyAddresses"][0]["targetRef"]["name"], "b");
        assert_eq!(plan(&service, &pods, Some(&endpoints)), None);
    }

    #[test]
    fn without_pods_there_are_no_subsets() {
        assert_eq!(plan(&service(json!([{"port": 80}])), &[], None).unwrap().subsets, None);
    }
}
