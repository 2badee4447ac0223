//! The health pages, in upstream's words.

use crate::harness::Cluster;

/// The checks of kube-apiserver 1.37 whose work is done here, as its `/livez?verbose` lists them.
const LIVE: [&str; 16] = [
    "ping",
    "log",
    "etcd",
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
];

fn page(name: &str, checks: &[&str], excluded: &[&str]) -> String {
    let line = |check: &&str| {
        let excluded = if excluded.contains(check) { " excluded:" } else { "" };
        format!("[+]{check}{excluded} ok\n")
    };
    checks.iter().map(line).chain([format!("{name} check passed\n")]).collect()
}

#[tokio::test]
async fn checks_are_upstreams_by_name_and_order() {
    let cluster = Cluster::start().await;
    let live = cluster.get("/livez?verbose").await;
    assert_eq!((live.status, live.text.as_str()), (200, page("livez", &LIVE, &[]).as_str()));
    assert_eq!(live.headers["content-type"], "text/plain; charset=utf-8");
    assert_eq!(live.headers["x-content-type-options"], "nosniff");
    assert_eq!(cluster.get("/healthz?verbose").await.text, page("healthz", &LIVE, &[]));

    let mut ready: Vec<&str> = LIVE.to_vec();
    ready.splice(3..3, ["etcd-readiness", "informer-sync"]);
    ready.push("shutdown");
    assert_eq!(cluster.get("/readyz?verbose=1").await.text, page("readyz", &ready, &[]));
    assert_eq!(cluster.get("/readyz").await.text, "ok");
    let without = cluster.get("/readyz?verbose&exclude=etcd&exclude=ping").await;
    assert_eq!(without.text, page("readyz", &ready, &["etcd", "ping"]));
    let unknown = cluster.get("/livez?verbose&exclude=nope").await.text;
    assert!(unknown.contains("warn: some health checks cannot be excluded: no matches for \"nope\"\n"), "{unknown}");

    for check in ["ping", "etcd", "poststarthook/rbac/bootstrap-roles"] {
        let one = cluster.get(&format!("/livez/{check}")).await;
        assert_eq!((one.status, one.text.as_str()), (200, "ok"), "{check}");
    }
    let unknown = cluster.get("/livez/nope").await;
    assert_eq!((unknown.status, unknown.text.as_str()), (404, "404 page not found\n"));
}

#[tokio::test]
async fn without_the_store_it_is_neither_live_nor_ready() {
    let mut cluster = Cluster::start().await;
    cluster.kill_store();
    for page in ["livez", "readyz"] {
        let sick = cluster.get(&format!("/{page}")).await;
        assert_eq!(sick.status, 500);
        assert!(sick.text.contains("[-]etcd failed: reason withheld\n"), "{}", sick.text);
        assert!(sick.text.ends_with(&format!("{page} check failed\n")), "{}", sick.text);
        assert_eq!(cluster.get(&format!("/{page}?exclude=etcd&exclude=etcd-readiness")).await.text, "ok");
    }
    let one = cluster.get("/livez/etcd").await;
    assert!(one.status == 500 && one.text.starts_with("internal server error: "), "{}", one.text);
}
