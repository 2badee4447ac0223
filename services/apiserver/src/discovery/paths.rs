//! `/`: every path that answers, and the names of the health checks.

use trireme_kinds::Registry;

use super::groups;

const BEFORE: [&str; 5] = ["/.well-known/openid-configuration", "/api", "/api/v1", "/apis", "/apis/"];
const AFTER: [&str; 8] = [
    "/metrics",
    "/metrics/slis",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/",
    "/openid/v1/jwks",
    "/statusz",
    "/version",
];

/// The health checks that upstream publishes behind `poststarthook/`. The pages themselves answer for those whose work is
/// done here ([`crate::checks`] and the duties).
const HEALTH_CHECKS: [&str; 30] = [
    "start-apiserver-admission-initializer",
    "generic-apiserver-start-informers",
    "priority-and-fairness-config-consumer",
    "priority-and-fairness-filter",
    "storage-object-count-tracker-hook",
    "start-apiextensions-informers",
    "start-apiextensions-controllers",
    "crd-informer-synced",
    "start-system-namespaces-controller",
    "peer-endpoint-reconciler-controller",
    "start-cluster-authentication-info-controller",
    "start-kube-apiserver-identity-lease-controller",
    "start-kube-apiserver-identity-lease-garbage-collector",
    "storage-readiness",
    "start-legacy-token-tracking-controller",
    "start-service-ip-repair-controllers",
    "rbac/bootstrap-roles",
    "scheduling/bootstrap-system-priority-classes",
    "priority-and-fairness-config-producer",
    "bootstrap-controller",
    "start-kubernetes-service-cidr-controller",
    "start-kube-aggregator-informers",
    "apiservice-status-local-available-controller",
    "apiservice-status-remote-available-controller",
    "apiservice-registration-controller",
    "apiservice-discovery-controller",
    "kube-apiserver-autoregistration",
    "autoregister-completion",
    "apiservice-openapi-controller",
    "apiservice-openapiv3-controller",
];

/// All paths, sorted.
#[must_use]
pub fn all(registry: &Registry) -> Vec<String> {
    let mut paths: Vec<String> = BEFORE.iter().chain(&AFTER).map(ToString::to_string).collect();
    for group in groups::served(registry).iter().filter(|group| !group.name.is_empty()) {
        paths.push(format!("/apis/{}", group.name));
        paths.extend(group.versions.iter().map(|version| format!("/apis/{}/{version}", group.name)));
    }
    paths.extend(["/flagz", "/healthz", "/livez", "/readyz"].map(str::to_owned));
    for (page, own) in PAGES {
        paths.extend(own.iter().map(|check| format!("/{page}/{check}")));
        paths.extend(hooks().map(|hook| format!("/{page}/{hook}")));
    }
    paths.sort();
    paths
}

const PAGES: [(&str, &[&str]); 3] = [
    ("healthz", &["ping", "log", "loopback-serving-certificate", "etcd"]),
    ("livez", &["ping", "log", "loopback-serving-certificate", "etcd"]),
    ("readyz", &["ping", "log", "etcd", "etcd-readiness", "informer-sync", "shutdown"]),
];

fn hooks() -> impl Iterator<Item = String> {
    HEALTH_CHECKS.iter().map(|name| match *name {
        "autoregister-completion" => name.to_string(),
        name => format!("poststarthook/{name}"),
    })
}
