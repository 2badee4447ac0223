//! Reading and completing a Service's spec.

use serde_json::{Value, json};

fn text<'a>(service: &'a Value, field: &str) -> &'a str {
    service["spec"][field].as_str().unwrap_or_default()
}

/// Whether it is of a type that has a cluster IP.
pub(super) fn has_cluster_ip(service: &Value) -> bool {
    text(service, "type") != "ExternalName"
}

/// Whether it says that it wants no cluster IP.
pub(super) fn is_headless(service: &Value) -> bool {
    text(service, "clusterIP") == "None" || cluster_ips(service).first().is_some_and(|ip| ip == "None")
}

/// Whether each of its ports gets one on the nodes.
pub(super) fn wants_node_ports(service: &Value) -> bool {
    match text(service, "type") {
        "NodePort" => true,
        "LoadBalancer" => service["spec"]["allocateLoadBalancerNodePorts"].as_bool().unwrap_or(true),
        _ => false,
    }
}

fn may_have_node_ports(service: &Value) -> bool {
    matches!(text(service, "type"), "NodePort" | "LoadBalancer")
}

/// Whether a load balancer asks each node for its health.
pub(super) fn wants_health_check(service: &Value) -> bool {
    text(service, "type") == "LoadBalancer" && text(service, "externalTrafficPolicy") == "Local"
}

/// Its cluster IPs.
pub(super) fn cluster_ips(service: &Value) -> Vec<String> {
    let ips = service["spec"]["clusterIPs"].as_array().into_iter().flatten();
    ips.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Sets its cluster IPs, and the field of old for the first of them.
pub(super) fn set_cluster_ips(service: &mut Value, ips: &[String]) {
    let spec = &mut service["spec"];
    if let Some(first) = ips.first() {
        spec["clusterIP"] = json!(first);
        spec["clusterIPs"] = json!(ips);
    } else if let Some(spec) = spec.as_object_mut() {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
}

/// The node ports of its ports, if its type has any.
pub(super) fn node_ports(service: &Value) -> Vec<u16> {
    if !may_have_node_ports(service) {
        return Vec::new();
    }
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let ports = ports.filter_map(|port| port["nodePort"].as_u64()).filter_map(|port| u16::try_from(port).ok());
    ports.filter(|port| *port != 0).collect()
}

/// Brings `clusterIP` and `clusterIPs` together, where a client knows only one of them.
pub(super) fn normalise_cluster_ips(service: &mut Value, old: Option<&Value>) {
    let (ip, ips) = (text(service, "clusterIP").to_owned(), cluster_ips(service));
    let Some(old) = old else {
        if !ip.is_empty() && ips.is_empty() {
            service["spec"]["clusterIPs"] = json!([ip]);
        }
        return;
    };
    let (old_ip, old_ips) = (text(old, "clusterIP"), cluster_ips(old));
    let mut ips = ips;
    if !old_ips.is_empty() && ips.is_empty() && ip == old_ip {
        ips.clone_from(&old_ips);
    }
    if ip != old_ip && ips == old_ips {
        ips = if ip.is_empty() { Vec::new() } else { vec![ip] };
    }
    let Some(spec) = service["spec"].as_object_mut() else { return };
    if ips.is_empty() {
        spec.remove("clusterIPs");
    } else {
        spec.insert("clusterIPs".into(), json!(ips));
    }
}

/// Takes over from `old` what was allocated for it and what `new` leaves out.
pub(super) fn keep_allocated(new: &mut Value, old: &Value) {
    if has_cluster_ip(new) && has_cluster_ip(old) {
        if text(new, "clusterIP").is_empty() && !text(old, "clusterIP").is_empty() {
            new["spec"]["clusterIP"] = old["spec"]["clusterIP"].clone();
        }
        if cluster_ips(new).is_empty() && !cluster_ips(old).is_empty() {
            new["spec"]["clusterIPs"] = old["spec"]["clusterIPs"].clone();
        }
    }
    if wants_node_ports(new) && wants_node_ports(old) {
        keep_node_ports(new, old);
    }
    if wants_health_check(new)
        && wants_health_check(old)
        && new["spec"]["healthCheckNodePort"].as_u64().unwrap_or(0) == 0
    {
        new["spec"]["healthCheckNodePort"] = old["spec"]["healthCheckNodePort"].clone();
    }
}

fn keep_node_ports(new: &mut Value, old: &Value) {
    let has = node_ports(new);
    let used: Vec<u16> = node_ports(old).into_iter().filter(|port| has.contains(port)).collect();
    let old_ports: Vec<Value> = old["spec"]["ports"].as_array().cloned().unwrap_or_default();
    let ports = new.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten() {
        if port["nodePort"].as_u64().unwrap_or(0) != 0 {
            continue;
        }
        let name = port["name"].as_str().unwrap_or_default();
        let same = old_ports.iter().rfind(|old| old["name"].as_str().unwrap_or_default() == name);
        let before = same.and_then(|old| old["nodePort"].as_u64()).filter(|port| *port != 0);
        if let Some(before) = before
            && !used.iter().any(|port| u64::from(*port) == before)
        {
            port["nodePort"] = json!(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_field_fills_the_other() {
        let mut service = json!({"spec": {"clusterIP": "10.0.0.1"}});
        normalise_cluster_ips(&mut service, None);
        assert_eq!(cluster_ips(&service), ["10.0.0.1"]);
        let old = service.clone();
        let mut cleared = json!({"spec": {"clusterIP": "", "clusterIPs": ["10.0.0.1"]}});
        normalise_cluster_ips(&mut cleared, Some(&old));
        assert!(cluster_ips(&cleared).is_empty());
    }

    #[test]
    fn what_was_allocated_is_kept() {
        let old = json!({"spec": {"type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
            "ports": [{"name": "a", "port": 80, "nodePort": 30001}]}});
        let mut new =
            json!({"spec": {"type": "NodePort", "ports": [{"name": "a", "port": 81}, {"name": "b", "port": 82}]}});
        keep_allocated(&mut new, &old);
        assert_eq!(new["spec"]["clusterIP"], "10.0.0.1");
        assert_eq!(new["spec"]["ports"][0]["nodePort"], 30001);
        assert!(new["spec"]["ports"][1]["nodePort"].is_null());
    }
}
