//! The slices of a Service: which to make, change and delete so that they hold its pods. Pure.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod, Service};
use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointHints, EndpointPort, EndpointSlice, ForNode, ForZone,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use trireme_client::Object;

use super::ports;
use crate::common::{names, owner, pods};

pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
pub(super) const MANAGER: &str = "endpointslice-controller.k8s.io";
pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";
const HEADLESS: &str = "service.kubernetes.io/headless";
pub(super) const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
const ZONE: &str = "topology.kubernetes.io/zone";

/// What a round looks at.
pub(super) struct Observed<'a> {
    pub(super) service: &'a Service,
    /// The pods that the Service selects.
    pub(super) pods: &'a [Arc<Pod>],
    /// The Service's slices that this controller manages.
    pub(super) slices: &'a [Arc<EndpointSlice>],
    pub(super) node: &'a dyn Fn(&str) -> Option<Arc<Node>>,
    pub(super) most: usize,
    /// When what is told last changed, for the annotation; of slices that change.
    pub(super) trigger: Option<String>,
}

/// What is to be done.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) create: Vec<EndpointSlice>,
    pub(super) update: Vec<EndpointSlice>,
    pub(super) delete: Vec<EndpointSlice>,
    /// Pods on nodes that are not there (yet): look again.
    pub(super) unknown_nodes: Vec<String>,
}

/// Ports as they are compared.
type PortKey = Vec<(Option<String>, Option<String>, Option<i32>, Option<String>)>;

fn port_key(ports: &[EndpointPort]) -> PortKey {
    let mut key: PortKey = ports
        .iter()
        .map(|p| (p.name.clone().filter(|n| !n.is_empty()), p.protocol.clone(), p.port, p.app_protocol.clone()))
        .collect();
    key.sort();
    key
}

/// Plans the slices of a Service.
pub(super) fn plan(observed: &Observed<'_>) -> Plan {
    let mut plan = Plan::default();
    let families = families(observed.service);
    for slice in observed.slices.iter().filter(|s| !families.contains(&s.address_type.as_str())) {
        plan.delete.push((**slice).clone());
    }
    for family in families {
        plan_family(observed, family, &mut plan);
    }
    plan.unknown_nodes.sort();
    plan.unknown_nodes.dedup();
    plan
}

fn families(service: &Service) -> Vec<&'static str> {
    let spec = service.spec.clone().unwrap_or_default();
    let named: Vec<_> = spec.ip_families.iter().flatten().map(|f| if f == "IPv6" { "IPv6" } else { "IPv4" }).collect();
    match spec.cluster_ip.as_deref() {
        _ if !named.is_empty() => named,
        Some(ip) if ip.contains(':') => vec!["IPv6"],
        Some("None") | None => vec!["IPv4", "IPv6"],
        Some(_) => vec!["IPv4"],
    }
}

fn plan_family(observed: &Observed<'_>, family: &'static str, plan: &mut Plan) {
    let service = observed.service;
    let mut wanted: BTreeMap<PortKey, (Vec<EndpointPort>, Vec<Endpoint>)> = BTreeMap::new();
    for pod in observed.pods.iter().filter(|p| belongs(p)) {
        let node_name = pod.spec.as_ref().and_then(|s| s.node_name.clone()).unwrap_or_default();
        let node = (observed.node)(&node_name);
        let publish = service.spec.as_ref().and_then(|s| s.publish_not_ready_addresses).unwrap_or(false);
        if node.is_none() && !publish {
            plan.unknown_nodes.push(node_name);
            continue;
        }
        let ports = pod_ports(service, pod);
        let slot = wanted.entry(port_key(&ports)).or_insert_with(|| (ports, Vec::new()));
        if let Some(endpoint) = endpoint(service, pod, node.as_deref(), family) {
            slot.1.push(endpoint);
        }
    }
    let here = observed.slices.iter().filter(|s| s.address_type == family);
    let mut existing: BTreeMap<PortKey, Vec<&EndpointSlice>> = BTreeMap::new();
    let (mut create, mut update, mut delete) = (Vec::new(), Vec::new(), Vec::new());
    let mut count = 0;
    for slice in here {
        count += 1;
        if owned_by(slice, service) {
            existing.entry(port_key(slice.ports.as_deref().unwrap_or_default())).or_default().push(slice);
        } else {
            delete.push((**slice).clone());
        }
    }
    for (key, (ports, endpoints)) in wanted {
        let slices = existing.remove(&key).unwrap_or_default();
        let made = arrange(observed, family, &ports, endpoints, slices);
        create.extend(made.create);
        update.extend(made.update);
        delete.extend(made.delete);
    }
    delete.extend(existing.into_values().flatten().map(|s| (*s).clone()));
    // A Service always has a slice, so that "no endpoints" can be told from "not looked at yet".
    if create.is_empty() && delete.len() == count {
        let placeholder_slice = new_slice(service, family, &[]);
        let keep = |s: &EndpointSlice| {
            endpoints(s).is_empty()
                && s.ports.as_ref().is_none_or(Vec::is_empty)
                && s.metadata.labels == placeholder_slice.metadata.labels
        };
        match delete.iter().position(keep) {
            Some(at) => drop(delete.remove(at)),
            None => create.push(placeholder_slice),
        }
    }
    // What is to be deleted is rather made into what is to be created.
    while !create.is_empty()
        && let Some(at) = delete.iter().position(|s| owned_by(s, service))
    {
        let old = delete.remove(at);
        if let Some(mut slice) = create.pop() {
            slice.metadata.name = old.metadata.name;
            slice.metadata.resource_version = old.metadata.resource_version;
            slice.metadata.uid = old.metadata.uid;
            slice.metadata.generate_name = old.metadata.generate_name;
            slice.metadata.annotations = old.metadata.annotations;
            update.push(slice);
        }
    }
    for slice in create.iter_mut().chain(&mut update) {
        let annotations = slice.metadata.annotations.get_or_insert_default();
        match &observed.trigger {
            Some(time) => drop(annotations.insert(TRIGGER_TIME.to_owned(), time.clone())),
            None => drop(annotations.remove(TRIGGER_TIME)),
        }
        if annotations.is_empty() {
            slice.metadata.annotations = None;
        }
    }
    plan.create.append(&mut create);
    plan.update.append(&mut update);
    plan.delete.append(&mut delete);
}

/// Puts endpoints of the same ports into slices: those that are there stay where they are, the rest fill what changes
/// anyway, then what has room, then new slices.
fn arrange(
    observed: &Observed<'_>,
    family: &'static str,
    ports: &[EndpointPort],
    wanted: Vec<Endpoint>,
    existing: Vec<&EndpointSlice>,
) -> Plan {
    let mut missing: HashMap<String, Endpoint> = HashMap::new();
    let mut order = Vec::new();
    for endpoint in wanted {
        let id = identity(&endpoint);
        if missing.insert(id.clone(), endpoint).is_none() {
            order.push(id);
        }
    }
    let mut plan = Plan::default();
    let mut kept: Vec<(EndpointSlice, bool)> = Vec::new();
    for slice in existing {
        let mut next = slice.clone();
        let stay: Vec<Endpoint> = endpoints(slice).iter().filter_map(|e| missing.remove(&identity(e))).collect();
        if stay.is_empty() {
            plan.delete.push(slice.clone());
            continue;
        }
        next.endpoints = Some(stay);
        next.metadata.labels = Some(labels(observed.service));
        let changed = next.endpoints != slice.endpoints || next.metadata.labels != slice.metadata.labels;
        kept.push((next, changed));
    }
    let mut rest: Vec<Endpoint> = order.into_iter().filter_map(|id| missing.remove(&id)).collect();
    for only_changed in [true, false] {
        for (slice, changed) in &mut kept {
            let room = observed.most.saturating_sub(endpoints(slice).len()).min(rest.len());
            if room > 0 && (*changed || (!only_changed && rest.len() <= room)) {
                slice.endpoints.get_or_insert_default().extend(rest.drain(..room));
                *changed = true;
            }
        }
    }
    while !rest.is_empty() {
        let mut slice = match plan.delete.pop() {
            Some(emptied) => {
                let mut slice = emptied;
                slice.metadata.labels = Some(labels(observed.service));
                slice
            }
            None => new_slice(observed.service, family, ports),
        };
        slice.endpoints = Some(rest.drain(..rest.len().min(observed.most)).collect());
        if slice.metadata.resource_version.is_some() { plan.update.push(slice) } else { plan.create.push(slice) }
    }
    plan.update.extend(kept.into_iter().filter(|(_, changed)| *changed).map(|(slice, _)| slice));
    plan
}

/// A pod is an endpoint from when it has an address until it ends.
fn belongs(pod: &Pod) -> bool {
    !pods::is_finished(pod) && !ports::addresses(pod).is_empty()
}

fn endpoints(slice: &EndpointSlice) -> &[Endpoint] {
    slice.endpoints.as_deref().unwrap_or_default()
}

fn identity(endpoint: &Endpoint) -> String {
    let target = endpoint.target_ref.as_ref().and_then(|r| r.uid.clone()).unwrap_or_default();
    format!("{target}/{}", endpoint.addresses.join(","))
}

fn pod_ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let all = service.spec.as_ref().and_then(|s| s.ports.as_ref());
    all.into_iter()
        .flatten()
        .filter_map(|port| {
            Some(EndpointPort {
                name: Some(port.name.clone().unwrap_or_default()),
                port: Some(ports::target(pod, port)?),
                protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
                app_protocol: port.app_protocol.clone(),
            })
        })
        .collect()
}

fn endpoint(service: &Service, pod: &Pod, node: Option<&Node>, family: &str) -> Option<Endpoint> {
    let addresses: Vec<String> =
        ports::addresses(pod).iter().filter(|ip| ip.is_ipv6() == (family == "IPv6")).map(ToString::to_string).collect();
    if addresses.is_empty() {
        return None;
    }
    let spec = service.spec.as_ref();
    let (serving, terminating) = (pods::is_ready(pod), pod.is_deleting());
    let publish = spec.and_then(|s| s.publish_not_ready_addresses).unwrap_or(false);
    let ready = publish || (serving && !terminating);
    let node_name = pod.spec.as_ref().and_then(|s| s.node_name.clone()).filter(|n| !n.is_empty());
    let zone = node.and_then(|n| n.metadata.labels.as_ref()?.get(ZONE).cloned()).filter(|z| !z.is_empty());
    let preference = spec.and_then(|s| s.traffic_distribution.as_deref()).unwrap_or_default();
    Some(Endpoint {
        addresses,
        conditions: Some(EndpointConditions {
            ready: Some(ready),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
            ..ObjectReference::default()
        }),
        hints: if ready { hints(preference, zone.as_deref(), node_name.as_deref()) } else { None },
        hostname: ports::hostname(pod, service),
        node_name,
        zone,
        deprecated_topology: None,
    })
}

/// Where the traffic to an endpoint should come from.
fn hints(preference: &str, zone: Option<&str>, node: Option<&str>) -> Option<EndpointHints> {
    let near = matches!(preference, "PreferClose" | "PreferSameZone" | "PreferSameNode");
    let zone = zone.filter(|_| near).map(|name| vec![ForZone { name: name.to_owned() }]);
    let node = node.filter(|_| preference == "PreferSameNode").map(|name| vec![ForNode { name: name.to_owned() }]);
    (zone.is_some() || node.is_some()).then_some(EndpointHints { for_zones: zone, for_nodes: node })
}

fn owned_by(slice: &EndpointSlice, service: &Service) -> bool {
    slice.metadata.owner_references.iter().flatten().any(|r| r.uid == service.uid() && r.kind == "Service")
}

fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(HEADLESS);
    if ports::is_headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels.insert(SERVICE_NAME.to_owned(), service.metadata.name.clone().unwrap_or_default());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    labels
}

fn new_slice(service: &Service, family: &str, ports: &[EndpointPort]) -> EndpointSlice {
    let base = names::prefix(service.metadata.name.as_deref().unwrap_or_default());
    EndpointSlice {
        metadata: ObjectMeta {
            name: Some(names::generate(&base)),
            generate_name: Some(base),
            namespace: service.metadata.namespace.clone(),
            labels: Some(labels(service)),
            owner_references: Some(vec![owner::reference_to(service)]),
            ..ObjectMeta::default()
        },
        address_type: family.to_owned(),
        endpoints: None,
        ports: Some(ports.to_vec()).filter(|p| !p.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn service(spec: Value) -> Service {
        let mut service = json!({"metadata": {"name": "web", "namespace": "d", "uid": "s"}, "spec": {"clusterIP": "10.96.0.5", "ipFamilies": ["IPv4"], "ports": [{"port": 80}]}});
        for (name, value) in spec.as_object().into_iter().flatten() {
            service["spec"][name] = value.clone();
        }
        serde_json::from_value(service).unwrap()
    }

    fn pod(name: &str, ip: &str, ready: bool) -> Arc<Pod> {
        let status = if ready { "True" } else { "False" };
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": name, "namespace": "d", "uid": name},
                "spec": {"nodeName": "n1", "containers": [{"name": "c", "ports": [{"name": "http", "containerPort": 8080}]}]},
                "status": {"phase": "Running", "podIPs": [{"ip": ip}], "conditions": [{"type": "Ready", "status": status}]},
            }))
            .unwrap(),
        )
    }

    fn node(name: &str) -> Option<Arc<Node>> {
        let node = json!({"metadata": {"name": name, "labels": {ZONE: "z1"}}});
        (name == "n1").then(|| Arc::new(serde_json::from_value(node).unwrap()))
    }

    fn run(service: &Service, pods: &[Arc<Pod>], slices: &[EndpointSlice], most: usize) -> Plan {
        let slices: Vec<_> = slices.iter().cloned().map(Arc::new).collect();
        plan(&Observed { service, pods, slices: &slices, node: &node, most, trigger: None })
    }

    fn stored(mut slice: EndpointSlice) -> EndpointSlice {
        slice.metadata.resource_version = Some("7".into());
        slice
    }

    #[test]
    fn one_slice_with_ready_and_unready_pods() {
        let plan = run(&service(json!({})), &[pod("a", "10.0.0.1", true), pod("b", "10.0.0.2", false)], &[], 100);
        assert_eq!(plan.create.len(), 1);
        let slice = serde_json::to_value(&plan.create[0]).unwrap();
        assert!(slice["metadata"]["name"].as_str().unwrap().starts_with("web-"));
        assert_eq!(slice["metadata"]["labels"], json!({MANAGED_BY: MANAGER, SERVICE_NAME: "web"}));
        assert_eq!(slice["ports"], json!([{"name": "", "protocol": "TCP", "port": 80}]));
        assert_eq!(
            slice["endpoints"][1],
            json!({"addresses": ["10.0.0.2"], "conditions": {"ready": false, "serving": false, "terminating": false},
                "targetRef": {"kind": "Pod", "namespace": "d", "name": "b", "uid": "b"}, "nodeName": "n1", "zone": "z1"})
        );
    }

    #[test]
    fn nothing_is_done_twice() {
        let (service, pods) = (service(json!({})), [pod("a", "10.0.0.1", true)]);
        let slice = stored(run(&service, &pods, &[], 100).create.remove(0));
        let again = run(&service, &pods, &[slice], 100);
        assert!(again.create.is_empty() && again.update.is_empty() && again.delete.is_empty(), "{again:?}");
    }

    #[test]
    fn a_service_without_pods_has_an_empty_slice_that_becomes_the_first() {
        let service = service(json!({}));
        let empty = run(&service, &[], &[], 100);
        assert_eq!((empty.create.len(), endpoints(&empty.create[0]).len()), (1, 0));
        let placeholder_slice = stored(empty.create[0].clone());
        let again = run(&service, &[], std::slice::from_ref(&placeholder_slice), 100);
        assert!(again.create.is_empty() && again.delete.is_empty());
        let first = run(&service, &[pod("a", "10.0.0.1", true)], std::slice::from_ref(&placeholder_slice), 100);
        assert_eq!((first.create.len(), first.update.len(), first.delete.len()), (0, 1, 0));
        assert_eq!(first.update[0].metadata.name, placeholder_slice.metadata.name);
        let back = run(&service, &[], &[stored(first.update[0].clone())], 100);
        assert_eq!((back.create.len(), back.update.len(), back.delete.len()), (0, 1, 0));
        assert!(endpoints(&back.update[0]).is_empty());
    }

    #[test]
    fn a_full_slice_is_followed_by_another() {
        let pods: Vec<_> = (0..5).map(|i| pod(&format!("p{i}"), &format!("10.0.0.{i}"), true)).collect();
        let service = service(json!({}));
        let plan = run(&service, &pods, &[], 2);
        let sizes: Vec<_> = plan.create.iter().map(|s| endpoints(s).len()).collect();
        assert_eq!(sizes, [2, 2, 1]);
        let slices: Vec<_> = plan.create.into_iter().map(stored).collect();
        let mut more = pods;
        more.push(pod("p5", "10.0.0.9", true));
        let plan = run(&service, &more, &slices, 2);
        assert_eq!((plan.create.len(), plan.update.len()), (0, 1));
        assert_eq!(endpoints(&plan.update[0]).len(), 2);
    }

    #[test]
    fn a_named_port_is_looked_up_in_the_pod() {
        let service = service(
            json!({"ports": [{"name": "web", "port": 80, "targetPort": "http"}, {"name": "x", "port": 1, "targetPort": "none"}]}),
        );
        let plan = run(&service, &[pod("a", "10.0.0.1", true)], &[], 100);
        let ports = plan.create[0].ports.as_ref().unwrap();
        assert_eq!((ports.len(), ports[0].port), (1, Some(8080)));
    }

    #[test]
    fn a_pod_that_leaves_serves_until_it_ends() {
        let mut leaving = (*pod("a", "10.0.0.1", true)).clone();
        leaving.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        let plan = run(&service(json!({})), &[Arc::new(leaving)], &[], 100);
        let conditions = endpoints(&plan.create[0])[0].conditions.clone().unwrap();
        assert_eq!(
            (conditions.ready, conditions.serving, conditions.terminating),
            (Some(false), Some(true), Some(true))
        );
    }

    #[test]
    fn headless_and_near() {
        let headless = service(json!({"clusterIP": "None", "ports": null, "trafficDistribution": "PreferClose"}));
        let plan = run(&headless, &[pod("a", "10.0.0.1", true)], &[], 100);
        let slice = &plan.create[0];
        assert_eq!(slice.metadata.labels.as_ref().unwrap()[HEADLESS], "");
        assert_eq!(slice.ports, None);
        assert_eq!(endpoints(slice)[0].hints.as_ref().unwrap().for_zones.as_ref().unwrap()[0].name, "z1");
    }

    #[test]
    fn a_pod_on_an_unknown_node_is_waited_for() {
        let mut pod = (*pod("a", "10.0.0.1", true)).clone();
        pod.spec.as_mut().unwrap().node_name = Some("n9".into());
        let plan = run(&service(json!({})), &[Arc::new(pod)], &[], 100);
        assert_eq!(plan.unknown_nodes, ["n9"]);
        assert!(endpoints(&plan.create[0]).is_empty());
    }
}
