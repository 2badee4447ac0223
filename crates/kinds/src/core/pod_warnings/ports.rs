//! Ports of a Pod's containers that stand in each other's way.

use crate::check::Node;

/// Checks the ports of all containers.
pub(super) fn check(containers: &[Node<'_>], warnings: &mut Vec<String>) {
    let ports: Vec<Node<'_>> = containers.iter().flat_map(|container| container.list("ports")).collect();
    for (i, port) in ports.iter().enumerate() {
        if !port.str("hostIP").is_empty() && port.int("hostPort") == 0 {
            warnings.push(format!("{}: hostIP set without hostPort: {}", port.path, printed(port)));
        }
        for other in ports[..i].iter().filter(|other| number(other) == number(port)) {
            if let Some(how) = conflict(port, other) {
                warnings.push(format!("{}: {how} port definition with {}", port.path, other.path));
            }
        }
    }
    for (i, port) in ports.iter().enumerate() {
        let name = port.str("name");
        let first = ports[..i].iter().find(|other| !name.is_empty() && other.str("name") == name);
        if let Some(first) = first {
            warnings.push(format!(
                "{}: duplicate port name {} with {first}, services and probes that select ports by name will use {first}",
                port.path,
                trireme_machinery::go::quote(name),
                first = first.path
            ));
        }
    }
}

fn number<'a>(port: &Node<'a>) -> (i64, &'a str) {
    (port.int("containerPort"), port.str("protocol"))
}

fn conflict(port: &Node<'_>, other: &Node<'_>) -> Option<&'static str> {
    let (ip, others_ip) = (port.str("hostIP"), other.str("hostIP"));
    let (host_port, others_port) = (port.int("hostPort"), other.int("hostPort"));
    if ip == others_ip && host_port == others_port {
        Some("duplicate")
    } else if host_port == 0 || others_port == 0 {
        Some("overlapping")
    } else if host_port == others_port && ip.is_empty() != others_ip.is_empty() {
        Some("dangerously ambiguous")
    } else {
        None
    }
}

/// A port as Go prints its structure.
fn printed(port: &Node<'_>) -> String {
    format!(
        "{{Name:{} HostPort:{} ContainerPort:{} Protocol:{} HostIP:{}}}",
        port.str("name"),
        port.int("hostPort"),
        port.int("containerPort"),
        port.str("protocol"),
        port.str("hostIP")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ports_are_compared_across_containers() {
        let pod = json!({"spec": {"containers": [
            {"ports": [{"name": "a", "containerPort": 1, "protocol": "TCP"}]},
            {"ports": [
                {"name": "a", "containerPort": 1, "protocol": "TCP", "hostIP": "1.2.3.4"},
                {"containerPort": 1, "protocol": "TCP", "hostPort": 5},
                {"containerPort": 1, "protocol": "UDP", "hostPort": 5},
            ]},
        ]}});
        let mut warnings = Vec::new();
        check(&Node::of(&pod, "spec").list("containers"), &mut warnings);
        assert_eq!(
            warnings,
            [
                "spec.containers[1].ports[0]: hostIP set without hostPort: {Name:a HostPort:0 ContainerPort:1 Protocol:TCP \
                 HostIP:1.2.3.4}",
                "spec.containers[1].ports[0]: overlapping port definition with spec.containers[0].ports[0]",
                "spec.containers[1].ports[1]: overlapping port definition with spec.containers[0].ports[0]",
                "spec.containers[1].ports[1]: overlapping port definition with spec.containers[1].ports[0]",
                "spec.containers[1].ports[0]: duplicate port name \"a\" with spec.containers[0].ports[0], services and \
                 probes that select ports by name will use spec.containers[0].ports[0]",
            ]
        );
    }
}
