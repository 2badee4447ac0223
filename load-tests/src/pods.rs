//! One Pod after another, from the request to Running as a watch sees it, and how much of that is the runtime's.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DeleteParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::json;
use trireme_testkit::{Cluster, Collector, Span};

/// The longest a Pod may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Prints medians.
pub(crate) async fn measure(cluster: &Cluster, collector: &Collector) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::default_namespaced(crate::client(cluster).await?);
    let (mut whole, mut ours) = (Vec::new(), Vec::new());
    for i in 0..crate::PODS {
        let name = format!("figure-{i}");
        let (begun, running) = tokio::time::timeout(PATIENCE, run(&pods, &name)).await.context("not in time")??;
        pods.delete(&name, &DeleteParams::default().grace_period(0)).await?;
        let spans = trace(collector, &name).await?;
        let runtime = covered(&spans, begun, running);
        whole.push(running - begun);
        ours.push(running - begun - runtime);
    }
    println!("| one Pod from POST to Running seen by a watch, median of {} | {} ms |", crate::PODS, median(&mut whole));
    println!("| of that, outside of every call of the runtime | {} ms |", median(&mut ours));
    Ok(())
}

/// Nanoseconds since 1970 of the request and of the event that says Running.
async fn run(pods: &Api<Pod>, name: &str) -> anyhow::Result<(u64, u64)> {
    let watch = pods.watch(&WatchParams::default().fields(&format!("metadata.name={name}")), "0").await?;
    pin_mut!(watch);
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{ "name": "pause", "image": "trireme.local/pause:1" }],
        },
    }))?;
    let begun = now()?;
    pods.create(&PostParams::default(), &pod).await?;
    while let Some(event) = watch.next().await {
        if let WatchEvent::Added(pod) | WatchEvent::Modified(pod) = event?
            && pod.status.and_then(|s| s.phase).is_some_and(|p| p == "Running")
        {
            return Ok((begun, now()?));
        }
    }
    bail!("the watch ended")
}

fn now() -> anyhow::Result<u64> {
    Ok(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos())?)
}

/// The spans of the trace that created this Pod, once the kubelet's are there.
async fn trace(collector: &Collector, name: &str) -> anyhow::Result<Vec<Span>> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let spans = collector.spans();
        let started = |id: &str| spans.iter().any(|s| s.trace == id && s.name == "cri.StartContainer");
        let of_pod = spans.iter().filter(|s| s.attributes.values().any(|v| v == name));
        match of_pod.map(|s| s.trace.as_str()).find(|id| started(id)) {
            Some(id) => return Ok(collector.trace(id)),
            None if tokio::time::Instant::now() > deadline => bail!("no span of {name}'s container"),
            None => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Nanoseconds between `from` and `to` during which a call of the runtime was under way.
fn covered(spans: &[Span], from: u64, to: u64) -> u64 {
    let mut calls: Vec<(u64, u64)> = spans
        .iter()
        .filter(|s| s.name.starts_with("cri."))
        .map(|s| (s.start.clamp(from, to), s.end.clamp(from, to)))
        .collect();
    calls.sort_unstable();
    let (mut sum, mut reached) = (0, from);
    for (start, end) in calls {
        sum += end.saturating_sub(start.max(reached));
        reached = reached.max(end);
    }
    sum
}

/// The median, in milliseconds.
fn median(nanoseconds: &mut [u64]) -> u64 {
    nanoseconds.sort_unstable();
    nanoseconds.get(nanoseconds.len() / 2).copied().unwrap_or_default() / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_overlap_count_once() {
        let span = |start, end| Span {
            service: "kubelet".into(),
            name: "cri.StartContainer".into(),
            trace: String::new(),
            id: String::new(),
            parent: String::new(),
            start,
            end,
            attributes: Default::default(),
        };
        let spans = [span(10, 20), span(15, 30), span(16, 18), span(40, 200), span(1, 5)];
        assert_eq!(covered(&spans, 4, 100), 1 + 20 + 60);
    }
}
