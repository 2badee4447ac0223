//! One apply is one trace.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail};
use trireme_testkit::{Cluster, Collector, Options, Span, poll};

use crate::support::{LONG, WEB, http_get, ready_pods};

/// Who takes part in an apply.
const SERVICES: [&str; 6] = ["apiserver", "store", "controllers", "scheduler", "kubelet", "proxy"];

/// The hops whose propagation can be switched off, and what the check says then.
const HOPS: [(&str, &str); 6] = [
    ("store", "store is not in the trace"),
    ("bus", "controllers is not in the trace"),
    ("watch", "controllers is not in the trace"),
    ("informer", "controllers is not in the trace"),
    ("apiserver", "mvcc.apply of store"),
    ("cri", "cri.RunPodSandbox of kubelet"),
];

/// What an apply of two Pods makes somebody tell, at least.
const SPANS: [(&str, &str, usize); 6] = [
    ("kubelet", "cri.RunPodSandbox", 2),
    ("kubelet", "cri.CreateContainer", 2),
    ("kubelet", "cri.StartContainer", 2),
    ("scheduler", "schedule ", 2),
    ("proxy", "nft", 1),
    ("store", "mvcc.apply", 8),
];

#[test]
fn an_apply_is_one_trace() -> anyhow::Result<()> {
    let trace = whole(&applied(&[])?)?;
    assert!(trace.len() > 50, "only {} spans", trace.len());
    Ok(())
}

/// With one hop's propagation off, the same check must fail: it does see that hop.
#[test]
fn a_hop_that_loses_the_cause_is_noticed() -> anyhow::Result<()> {
    for (hop, words) in HOPS {
        let Err(said) = whole(&applied(&[("TRIREME_TRACE_CUT", hop)])?) else {
            bail!("with {hop} cut the trace is still whole");
        };
        println!("with {hop} cut: {said:#}");
        assert!(format!("{said:#}").contains(words), "with {hop} cut: {said:#}");
    }
    Ok(())
}

/// All spans of an apply: everything that follows from it was done, and what ended in order has told what it did.
fn applied(environment: &[(&str, &str)]) -> anyhow::Result<Collector> {
    let collector = Collector::start()?;
    let mut options = Options::new(&format!("--otlp {}", collector.url()));
    for (name, value) in environment {
        options = options.env(name, value);
    }
    let cluster = Cluster::up(options)?;
    cluster.apply(WEB)?;
    ready_pods(&cluster, "app=web", 2)?;
    let service = cluster.kubectl("get service web -o json")?.json()?;
    let address = service["spec"]["clusterIP"].as_str().context("clusterIP")?;
    poll::until("the Service answers", LONG, || http_get(address, 80, "/"))?;
    cluster.stop()?;
    Ok(collector)
}

/// The trace of the apply, if it is whole: every service, down to the containers and the rules, no orphan.
fn whole(collector: &Collector) -> anyhow::Result<Vec<Span>> {
    let spans = collector.spans();
    let root = spans
        .iter()
        .find(|s| {
            s.service == "apiserver"
                && s.parent.is_empty()
                && s.name.starts_with("POST")
                && s.name.contains("deployments")
        })
        .context("no root span of the Deployment's creation")?;
    let trace = collector.trace(&root.trace);
    let services: BTreeSet<&str> = trace.iter().map(|s| s.service.as_str()).collect();
    for service in SERVICES {
        if !services.contains(service) {
            bail!("{service} is not in the trace: {services:?}");
        }
    }
    has_all(&trace)?;
    let ready =
        trace.iter().filter(|s| s.service == "apiserver" && s.name.starts_with("PATCH") && s.name.contains("status"));
    if ready.count() < 2 {
        bail!("the kubelet's reports are not in the trace");
    }
    let orphans = collector.orphans(&root.trace);
    if !orphans.is_empty() {
        bail!("orphans: {orphans:?}");
    }
    if let Some(inferred) = trace.iter().find(|s| s.attributes.get("cause").is_some_and(|c| c == "inferred")) {
        bail!("inferred: {inferred:?}");
    }
    Ok(trace)
}

/// Whether everybody has told what an apply makes them do.
fn has_all(spans: &[Span]) -> anyhow::Result<()> {
    for (service, name, least) in SPANS {
        let count = spans.iter().filter(|s| s.service == service && s.name.starts_with(name)).count();
        if count < least {
            bail!("{count} spans {name} of {service}, wanted {least}");
        }
    }
    Ok(())
}
