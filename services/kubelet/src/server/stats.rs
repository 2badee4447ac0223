//! What the node and its containers use: `/stats/summary`.

use crate::cri::names;
use crate::error::Result;
use crate::host::Host;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use trireme_proto::runtime::v1 as pb;

/// The summary.
pub(super) async fn summary(host: &Host) -> Result<Value> {
    let now = Timestamp::now().to_string();
    let mut pods: BTreeMap<String, (Value, Vec<Value>)> = BTreeMap::new();
    for stats in host.cri.list_container_stats().await? {
        let Some(attributes) = &stats.attributes else { continue };
        let label = |key: &str| attributes.labels.get(key).cloned().unwrap_or_default();
        let reference = json!({"name": label(names::POD_NAME), "namespace": label(names::POD_NAMESPACE), "uid": label(names::POD_UID)});
        let pod = pods.entry(label(names::POD_UID)).or_insert_with(|| (reference, Vec::new()));
        let mut container = usage(&stats, &now);
        container["name"] = label(names::CONTAINER_NAME).into();
        pod.1.push(container);
    }
    let pods: Vec<Value> = pods
        .into_values()
        .map(|(reference, containers)| {
            let sum = |section: &str, field: &str| -> u64 {
                containers.iter().filter_map(|container| container[section][field].as_u64()).sum()
            };
            json!({
                "podRef": reference,
                "cpu": {"time": now, "usageCoreNanoSeconds": sum("cpu", "usageCoreNanoSeconds")},
                "memory": {"time": now, "workingSetBytes": sum("memory", "workingSetBytes")},
                "containers": containers,
            })
        })
        .collect();
    Ok(json!({"node": node(host, &now), "pods": pods}))
}

fn usage(stats: &pb::ContainerStats, now: &str) -> Value {
    let number = |value: &Option<pb::UInt64Value>| value.as_ref().map(|value| value.value);
    let time =
        |nanos: i64| Timestamp::from_nanosecond(i128::from(nanos)).map_or_else(|_| now.to_owned(), |at| at.to_string());
    let mut section = json!({"startTime": now});
    if let Some(cpu) = &stats.cpu {
        section["cpu"] = json!({"time": time(cpu.timestamp), "usageCoreNanoSeconds": number(&cpu.usage_core_nano_seconds), "usageNanoCores": number(&cpu.usage_nano_cores)});
    }
    if let Some(memory) = &stats.memory {
        section["memory"] = json!({"time": time(memory.timestamp), "workingSetBytes": number(&memory.working_set_bytes), "usageBytes": number(&memory.usage_bytes), "rssBytes": number(&memory.rss_bytes)});
    }
    if let Some(disk) = &stats.writable_layer {
        section["rootfs"] = json!({"time": time(disk.timestamp), "usedBytes": number(&disk.used_bytes), "inodesUsed": number(&disk.inodes_used)});
    }
    section
}

fn node(host: &Host, now: &str) -> Value {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks: Vec<u64> = text
        .lines()
        .next()
        .map(|line| line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect())
        .unwrap_or_default();
    // user, nice, system, idle, iowait, irq, softirq, steal: hundredths of a second.
    let busy: u64 =
        ticks.iter().take(8).enumerate().filter(|(at, _)| !matches!(at, 3 | 4)).map(|(_, ticks)| ticks).sum();
    let available = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:").map(str::to_owned))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
    });
    let memory = u64::try_from(host.machine.memory).unwrap_or_default();
    json!({
        "nodeName": host.config.node_name,
        "startTime": now,
        "cpu": {"time": now, "usageCoreNanoSeconds": busy * 10_000_000},
        "memory": {
            "time": now,
            "availableBytes": available,
            "workingSetBytes": available.map(|available| memory.saturating_sub(available)),
        },
    })
}
