//! A Service that changes its type loses what the new type has no use for, if the client left it as it was.

use serde_json::Value;

use crate::cells;

/// Removes what no longer applies and was not changed too.
pub(super) fn drop_what_the_type_has_not(new: &mut Value, old: &Value) {
    let ty = |service: &Value| cells::str(service, "spec.type").to_owned();
    let (is, was) = (ty(new), ty(old));
    let has_cluster_ip = |ty: &str| matches!(ty, "ClusterIP" | "NodePort" | "LoadBalancer");
    if has_cluster_ip(&was) && !has_cluster_ip(&is) {
        let same_ips = same(new, old, "clusterIP") && same(new, old, "clusterIPs");
        drop_if(new, same_ips, &["clusterIP", "clusterIPs"]);
        let same_families = same(new, old, "ipFamilies");
        drop_if(new, same_families, &["ipFamilies"]);
        let same_policy = same(new, old, "ipFamilyPolicy");
        drop_if(new, same_policy, &["ipFamilyPolicy"]);
    }
    if has_node_ports(&was, old) && !has_node_ports(&is, new) && same_node_ports(new, old) {
        for port in new["spec"]["ports"].as_array_mut().into_iter().flatten() {
            if let Some(port) = port.as_object_mut() {
                port.remove("nodePort");
            }
        }
    }
    let health_port =
        |ty: &str, s: &Value| ty == "LoadBalancer" && cells::str(s, "spec.externalTrafficPolicy") == "Local";
    if health_port(&was, old) && !health_port(&is, new) {
        let unchanged = same(new, old, "healthCheckNodePort");
        drop_if(new, unchanged, &["healthCheckNodePort"]);
    }
    if was == "LoadBalancer" && is != "LoadBalancer" {
        for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            let unchanged = same(new, old, key);
            drop_if(new, unchanged, &[key]);
        }
    }
    if externally_accessible(&was, old) && !externally_accessible(&is, new) {
        let unchanged = same(new, old, "externalTrafficPolicy");
        drop_if(new, unchanged, &["externalTrafficPolicy"]);
    }
    if is != "LoadBalancer"
        && let Some(balancer) = new["status"]["loadBalancer"].as_object_mut()
    {
        balancer.clear();
    }
}

fn has_node_ports(ty: &str, service: &Value) -> bool {
    ty == "NodePort"
        || (ty == "LoadBalancer" && cells::at(service, "spec.allocateLoadBalancerNodePorts") != &Value::Bool(false))
}

fn externally_accessible(ty: &str, service: &Value) -> bool {
    matches!(ty, "NodePort" | "LoadBalancer")
        || (ty == "ClusterIP" && !cells::list(service, "spec.externalIPs").is_empty())
}

fn same(new: &Value, old: &Value, key: &str) -> bool {
    new["spec"][key] == old["spec"][key]
}

fn same_node_ports(new: &Value, old: &Value) -> bool {
    let ports = |service: &Value| {
        cells::list(service, "spec.ports").iter().map(|p| cells::int(p, "nodePort")).collect::<Vec<_>>()
    };
    let had = ports(old);
    ports(new).iter().all(|port| *port == 0 || had.contains(port))
}

fn drop_if(service: &mut Value, unchanged: bool, keys: &[&str]) {
    if unchanged && let Some(spec) = service["spec"].as_object_mut() {
        for key in keys {
            spec.remove(*key);
        }
    }
}
