//! What is wrong with a Service.

use std::net::IpAddr;
use trireme_machinery::go;

use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;
use trireme_machinery::path::Path;

use crate::check::{Node, in_order};
use crate::{ip, metadata};

const ONLY_LOAD_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const MAX_AFFINITY_SECONDS: i64 = 86400;

/// Of a Service that is created or changed.
pub(super) fn validate(service: &Value, errors: &mut ErrorList) {
    let spec = Node::of(service, "spec");
    let ty = spec.str("type");
    let ips: Vec<&str> = spec.list("clusterIPs").iter().map(Node::text).collect();
    let headless = ips == ["None"];
    if spec.is_empty("ports") && !headless && ty != "ExternalName" {
        spec.required("ports", errors);
    }
    match ty {
        "LoadBalancer" | "NodePort" if headless => {
            let at = spec.path.child("clusterIPs").index(0);
            errors.push(field::invalid(&at, "None", format!("may not be set to 'None' for {ty} services")));
        }
        "ExternalName" => external_name(&spec, errors),
        _ => {}
    }
    ports(&spec, errors);
    errors.extend(metadata::labels(spec.get("selector").value, &spec.path.child("selector")));
    affinity(&spec, errors);
    if ty != "ExternalName" {
        cluster_ips(&spec, headless, errors);
    }
    for address in spec.list("externalIPs") {
        let wrong = ip::address(&address.path, address.text());
        let fine = wrong.is_empty();
        errors.extend(wrong);
        if fine {
            endpoint_ip(address.text(), &address.path, errors);
        }
    }
    spec.required_one_of("type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], errors);
    port_numbers(&spec, ty, errors);
    source_ranges(service, &spec, errors);
    if ty != "LoadBalancer" {
        for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            spec.forbidden(key, ONLY_LOAD_BALANCER, errors);
        }
    } else {
        if !spec.has("allocateLoadBalancerNodePorts") {
            errors.push(field::required(&Path::new("allocateLoadBalancerNodePorts"), ""));
        }
        if spec.has("loadBalancerClass") {
            spec.named("loadBalancerClass", names::is_qualified_name, errors);
        }
    }
    traffic(&spec, ty, errors);
}

fn external_name(spec: &Node<'_>, errors: &mut ErrorList) {
    let why = "may not be set for ExternalName services";
    for key in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if !spec.is_empty(key) {
            errors.push(field::forbidden(&spec.path.child(key), why));
        }
    }
    let name = spec.str("externalName").trim_end_matches('.');
    let at = spec.path.child("externalName");
    if name.is_empty() {
        errors.push(field::required(&at, ""));
    } else {
        errors.extend(names::is_dns1123_subdomain(name).into_iter().map(|m| field::invalid(&at, name, m)));
    }
}

fn ports(spec: &Node<'_>, errors: &mut ErrorList) {
    let ports = spec.list("ports");
    let mut seen = Vec::new();
    for port in &ports {
        let name = port.str("name");
        if name.is_empty() {
            if ports.len() > 1 {
                port.required("name", errors);
            }
        } else {
            port.named("name", names::is_dns1123_label, errors);
            if seen.contains(&name) {
                errors.push(field::duplicate(&port.path.child("name"), name));
            }
            seen.push(name);
        }
        port_number(port, "port", errors);
        port.required_one_of("protocol", &["SCTP", "TCP", "UDP"], errors);
        let target = port.get("targetPort");
        match target.value.as_str() {
            Some(_) => target.is_named(names::is_port_name, errors),
            None => port_number(port, "targetPort", errors),
        }
        if port.has("appProtocol") {
            port.named("appProtocol", names::is_qualified_name, errors);
        }
    }
}

fn port_number(port: &Node<'_>, key: &str, errors: &mut ErrorList) {
    let number = port.int(key);
    errors.extend(names::is_port_number(number).into_iter().map(|m| field::invalid(&port.path.child(key), &number, m)));
}

fn port_numbers(spec: &Node<'_>, ty: &str, errors: &mut ErrorList) {
    let ports = spec.list("ports");
    if ty == "ClusterIP" {
        for port in ports.iter().filter(|p| p.int("nodePort") != 0) {
            errors.push(field::forbidden(&port.path.child("nodePort"), "may not be used when `type` is 'ClusterIP'"));
        }
    }
    let (mut node_ports, mut own) = (Vec::new(), Vec::new());
    for port in ports.iter().filter(|p| p.int("nodePort") != 0) {
        let key = (port.str("protocol"), port.int("nodePort"));
        if node_ports.contains(&key) {
            errors.push(field::duplicate(&port.path.child("nodePort"), &key.1));
        }
        node_ports.push(key);
    }
    for port in &ports {
        let key = (port.str("protocol"), port.int("port"));
        if own.contains(&key) {
            let shown = in_order([
                ("Name", "\"\"".to_owned()),
                ("Protocol", go::json(&key.0.into())),
                ("AppProtocol", "null".to_owned()),
                ("Port", key.1.to_string()),
                ("TargetPort", "0".to_owned()),
                ("NodePort", "0".to_owned()),
            ]);
            errors.push(field::duplicate(&port.path, port.value).showing(shown));
        }
        own.push(key);
    }
}

fn affinity(spec: &Node<'_>, errors: &mut ErrorList) {
    spec.required_one_of("sessionAffinity", &["ClientIP", "None"], errors);
    let config = spec.get("sessionAffinityConfig");
    match spec.str("sessionAffinity") {
        "ClientIP" => {
            let timeout = config.get("clientIP").get("timeoutSeconds");
            match timeout.value.as_i64() {
                None => errors.push(field::required(&config.path, "when session affinity type is ClientIP")),
                Some(seconds) if seconds <= 0 || seconds > MAX_AFFINITY_SECONDS => {
                    let why = format!("must be greater than 0 and less than {MAX_AFFINITY_SECONDS}");
                    errors.push(field::invalid(&timeout.path, &seconds, why));
                }
                Some(_) => {}
            }
        }
        "None" => spec.forbidden("sessionAffinityConfig", "must not be set when session affinity is None", errors),
        _ => {}
    }
}

fn cluster_ips(spec: &Node<'_>, headless: bool, errors: &mut ErrorList) {
    let ips = spec.list("clusterIPs");
    let first = ips.first().map(|n| n.text());
    match (spec.str("clusterIP"), first) {
        ("", Some(_)) => spec.invalid("clusterIPs", "must be empty when `clusterIP` is not specified", errors),
        ("", None) => {}
        (_, None) => {
            spec.required("clusterIPs", errors);
        }
        (ip, Some(first)) if ip != first => spec.invalid("clusterIPs", "first value must match `clusterIP`", errors),
        _ => {}
    }
    let families = spec.list("ipFamilies");
    for (i, family) in families.iter().enumerate() {
        if !matches!(family.text(), "IPv4" | "IPv6") {
            errors.push(field::not_supported(&family.path, &family.text(), ["IPv4", "IPv6"]));
        }
        if families[..i].iter().any(|f| f.text() == family.text()) {
            errors.push(field::duplicate(&family.path, family.text()));
        }
    }
    spec.one_of("ipFamilyPolicy", &["PreferDualStack", "RequireDualStack", "SingleStack"], errors);
    let mut broken = false;
    for (i, address) in ips.iter().enumerate() {
        if i == 0 && address.text() == "None" {
            if ips.len() > 1 {
                broken = true;
                spec.invalid("clusterIPs", "'None' must be the first and only value", errors);
            }
            continue;
        }
        let wrong = ip::address(&address.path, address.text());
        broken |= !wrong.is_empty();
        errors.extend(wrong);
    }
    if ips.len() > 2 {
        spec.invalid("clusterIPs", "may only hold up to 2 values", errors);
    }
    if broken || headless {
        return;
    }
    let is_v6 = |node: &Node<'_>| node.text().parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6());
    if ips.len() == 2 && is_v6(&ips[0]) == is_v6(&ips[1]) {
        spec.invalid("clusterIPs", "may specify no more than one IP for each IP family", errors);
    }
    for (i, (address, family)) in ips.iter().zip(&families).enumerate() {
        let wanted = family.text();
        if matches!(wanted, "IPv4" | "IPv6") && (wanted == "IPv6") != is_v6(address) {
            let why = format!("expected an {wanted} value as indicated by `ipFamilies[{i}]`");
            errors.push(field::invalid(&address.path, address.text(), why));
        }
    }
}

/// Addresses that no endpoint can have.
pub(crate) fn endpoint_ip(text: &str, at: &Path, errors: &mut ErrorList) {
    let Ok(ip) = text.parse::<IpAddr>() else {
        errors.push(field::invalid(at, text, "must be a valid IP address"));
        return;
    };
    let mut wrong = |is: bool, why: &str| {
        if is {
            errors.push(field::invalid(at, text, why));
        }
    };
    wrong(ip.is_unspecified(), &format!("may not be unspecified ({text})"));
    wrong(ip.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    let link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    wrong(link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    let link_local_multicast = match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    };
    wrong(link_local_multicast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
}

fn source_ranges(service: &Value, spec: &Node<'_>, errors: &mut ErrorList) {
    let is_balancer = spec.str("type") == "LoadBalancer";
    let ranges = spec.list("loadBalancerSourceRanges");
    if !ranges.is_empty() {
        let at = spec.path.child("LoadBalancerSourceRanges");
        if !is_balancer {
            errors.push(field::forbidden(&at, ONLY_LOAD_BALANCER));
        }
        for (i, range) in ranges.iter().enumerate() {
            errors.extend(ip::range(&at.index(i), range.text().trim()));
        }
    } else if let Some(annotation) = service["metadata"]["annotations"][SOURCE_RANGES].as_str() {
        let at = Path::new("metadata").child("annotations").key(SOURCE_RANGES);
        if !is_balancer {
            errors.push(field::forbidden(&at, ONLY_LOAD_BALANCER));
        }
        for range in annotation.trim().split(',').filter(|r| !r.is_empty()) {
            errors.extend(ip::range(&at, range.trim()));
        }
    }
}

fn traffic(spec: &Node<'_>, ty: &str, errors: &mut ErrorList) {
    let external = matches!(ty, "NodePort" | "LoadBalancer") || (ty == "ClusterIP" && !spec.is_empty("externalIPs"));
    if external {
        spec.required_one_of("externalTrafficPolicy", &["Cluster", "Local"], errors);
    } else if !spec.is_empty("externalTrafficPolicy") {
        spec.invalid("externalTrafficPolicy", "may only be set for externally-accessible services", errors);
    }
    if ty == "LoadBalancer" && spec.str("externalTrafficPolicy") == "Local" {
        if spec.required("healthCheckNodePort", errors) {
            port_number(spec, "healthCheckNodePort", errors);
        }
    } else if spec.int("healthCheckNodePort") != 0 {
        let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        spec.invalid("healthCheckNodePort", why, errors);
    }
    if spec.has("internalTrafficPolicy") {
        spec.one_of("internalTrafficPolicy", &["Cluster", "Local"], errors);
    } else if matches!(ty, "NodePort" | "LoadBalancer" | "ClusterIP") {
        errors.push(field::required(&spec.path.child("internalTrafficPolicy"), ""));
    }
    spec.one_of("trafficDistribution", &["PreferClose", "PreferSameZone", "PreferSameNode"], errors);
}

/// What a change may not do.
pub(super) fn update(new: &Value, old: &Value, errors: &mut ErrorList) {
    let (new, old) = (Node::of(new, "spec"), Node::of(old, "spec"));
    let balancer = |spec: &Node<'_>| spec.str("type") == "LoadBalancer";
    if balancer(&new) && balancer(&old) && new.get("loadBalancerClass").value != old.get("loadBalancerClass").value {
        new.invalid("loadBalancerClass", "may not change once set", errors);
    }
    let checked = |spec: &Node<'_>| balancer(spec) && spec.str("externalTrafficPolicy") == "Local";
    if checked(&new) && checked(&old) && new.int("healthCheckNodePort") != old.int("healthCheckNodePort") {
        errors.push(field::forbidden(&new.path.child("healthCheckNodePort"), "field is immutable"));
    }
    if old.str("type") == "ExternalName" || new.str("type") == "ExternalName" {
        return;
    }
    primary(&new, &old, "clusterIPs", errors);
    primary(&new, &old, "ipFamilies", errors);
}

/// The first of two stays what it is; the second may come and go with the policy.
fn primary(new: &Node<'_>, old: &Node<'_>, list: &str, errors: &mut ErrorList) {
    let (is, was) = (new.list(list), old.list(list));
    let (Some(first), Some(had)) = (is.first(), was.first()) else { return };
    let second_changed = is.len() == 2 && was.len() == 2 && is[1].value != was[1].value;
    if first.value != had.value || second_changed {
        new.invalid(list, "may not change once set", errors);
    } else if is.len() < was.len() && new.str("ipFamilyPolicy") != "SingleStack" {
        let why = "must be 'SingleStack' to release the secondary";
        let what = if list == "clusterIPs" { "cluster IP" } else { "ip family" };
        errors.push(field::invalid(
            &new.path.child("ipFamilyPolicy"),
            new.str("ipFamilyPolicy"),
            format!("{why} {what}"),
        ));
    }
}
