//! What clients are warned of in a Service.

use serde_json::Value;

use crate::check::Node;

/// Warnings about a Service.
pub(super) fn of(service: &Value) -> Vec<String> {
    let spec = Node::of(service, "spec");
    let ty = spec.str("type");
    let headless = ty == "ClusterIP" && spec.str("clusterIP") == "None";
    let external = !spec.is_empty("externalIPs");
    let topology = service["metadata"]["annotations"].get("service.kubernetes.io/topology-aware-hints").is_some();
    let told = [
        (
            topology,
            "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use \
             service.kubernetes.io/topology-mode instead",
        ),
        (headless && !spec.is_empty("loadBalancerIP"), "spec.loadBalancerIP is ignored for headless services"),
        (headless && external, "spec.externalIPs is ignored for headless services"),
        (headless && spec.str("sessionAffinity") != "None", "spec.SessionAffinity is ignored for headless services"),
        (
            external && !headless && ty != "ExternalName",
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        ),
        (ty == "ExternalName" && external, "spec.externalIPs is ignored when spec.type is \"ExternalName\""),
        (
            ty != "ExternalName" && !spec.is_empty("externalName"),
            "spec.externalName is ignored when spec.type is not \"ExternalName\"",
        ),
        (
            spec.str("trafficDistribution") == "PreferClose",
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
        ),
    ];
    told.into_iter().filter(|(is, _)| *is).map(|(_, text)| text.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_ignored_is_told() {
        let headless = json!({"spec": {
            "type": "ClusterIP", "clusterIP": "None", "sessionAffinity": "ClientIP", "externalIPs": ["192.0.2.1"],
        }});
        assert_eq!(
            of(&headless),
            [
                "spec.externalIPs is ignored for headless services",
                "spec.SessionAffinity is ignored for headless services",
            ]
        );
        let plain = json!({"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1", "externalName": "a.example"}});
        assert_eq!(of(&plain), ["spec.externalName is ignored when spec.type is not \"ExternalName\""]);
        assert!(of(&json!({"spec": {"type": "NodePort", "sessionAffinity": "None"}})).is_empty());
    }
}
