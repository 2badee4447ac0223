//! Pod (v1).

use jiff::Timestamp;
use serde_json::{Value, json};
use trireme_machinery::field::ErrorList;
use trireme_machinery::gvk::GroupVersionKind;
use trireme_machinery::meta;

use super::{pod_spec, pod_update, pod_warnings, qos};
use crate::cells;
use crate::check::Node;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::table::{AGE, NAME, TableColumn, column, field, wide, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "Pod", "pods")
        .short(&["po"])
        .category("all")
        .generation()
        .serves("attach", "PodAttachOptions", &["create", "get"])
        .serves("binding", "Binding", &["create"])
        .serves("ephemeralcontainers", "Pod", &["get", "patch", "update"])
        .subresource("eviction", GroupVersionKind::new("policy", "v1", "Eviction"), &["create"])
        .serves("exec", "PodExecOptions", &["create", "get"])
        .serves("log", "Pod", &["get"])
        .serves("portforward", "PodPortForwardOptions", &["create", "get"])
        .serves("proxy", "PodProxyOptions", &["create", "delete", "get", "patch", "update"])
        .serves("resize", "Pod", &["get", "patch", "update"])
        .status()
        .hooks(Pod)
}

#[derive(Debug)]
struct Pod;

impl Hooks for Pod {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn default(&self, pod: &mut Value) {
        // The one address and the list of them say the same; if not, the one is right.
        let Some(status) = pod.get_mut("status").and_then(Value::as_object_mut) else { return };
        let first = status.get("podIPs").and_then(|l| l.get(0)).map(|ip| ip["ip"].clone());
        match status.get("podIP").filter(|one| *one != "").cloned() {
            Some(one) if first.as_ref() != Some(&one) => _ = status.insert("podIPs".to_owned(), json!([{"ip": one}])),
            Some(_) => {}
            None => {
                if let Some(first) = first {
                    status.insert("podIP".to_owned(), first);
                }
            }
        }
    }

    fn selectable_field_names(&self) -> &'static [&'static str] {
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ]
    }

    fn selectable_field(&self, pod: &Value, name: &str) -> String {
        match name {
            "spec.hostNetwork" => (cells::at(pod, name) == &Value::Bool(true)).to_string(),
            name => cells::str(pod, name).to_owned(),
        }
    }

    fn prepare_create(&self, pod: &mut Value, ctx: &Context<'_>) {
        let class = qos::class(pod);
        let mut status = json!({"phase": "Pending", "qosClass": class});
        if !cells::list(pod, "spec.schedulingGates").is_empty() {
            let message = "Scheduling is blocked due to non-empty scheduling gates";
            status["conditions"] = json!([{
                "type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": message,
                "lastProbeTime": null, "lastTransitionTime": trireme_machinery::time::format(ctx.now),
            }]);
        }
        pod["status"] = status;
    }

    fn prepare_update_status(&self, new: &mut Value, old: &Value, _: &Context<'_>) {
        // Old kubelets corrupt owner references, and nobody takes a deletion back through the status.
        for key in ["ownerReferences", "deletionTimestamp"] {
            match old["metadata"].get(key) {
                Some(value) => new["metadata"][key] = value.clone(),
                None => {
                    if let Some(metadata) = new["metadata"].as_object_mut() {
                        metadata.remove(key);
                    }
                }
            }
        }
        observed_generations(new, old);
        for key in
            ["qosClass", "resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses"]
        {
            let (had, has) = (old["status"].get(key), new["status"].get(key));
            if has.is_none_or(|v| v == "")
                && let Some(value) = had
            {
                new["status"][key] = value.clone();
            }
        }
    }

    fn warnings(&self, pod: &Value, old: Option<&Value>) -> Vec<String> {
        // People change Pods through what made them.
        if old.is_some() {
            return Vec::new();
        }
        let name = pod_warnings::of_name(pod, old, "the Pod's hostname");
        name.into_iter().chain(pod_warnings::of(&Node::root(pod))).collect()
    }

    fn validate(&self, pod: &Value, _: &Context<'_>) -> ErrorList {
        pod_spec::new_pod(pod)
    }

    fn validate_update(&self, new: &Value, old: &Value, _: &Context<'_>) -> ErrorList {
        pod_update::update(new, old)
    }

    fn validate_update_status(&self, new: &Value, old: &Value, _: &Context<'_>) -> ErrorList {
        pod_update::status(new, old)
    }

    fn prepare_subresource(&self, subresource: &str, new: &mut Value, old: &Value) {
        match subresource {
            "ephemeralcontainers" => keep_but(new, old, "ephemeralContainers"),
            "resize" => pod_update::prepare_resize(new, old),
            _ => {}
        }
    }

    fn validate_subresource(&self, subresource: &str, new: &Value, old: &Value) -> ErrorList {
        match subresource {
            "ephemeralcontainers" => pod_update::ephemeral_containers(new, old),
            "resize" => pod_update::resize(new, old),
            _ => ErrorList::new(),
        }
    }

    fn graceful_delete(&self, pod: &Value, requested: Option<i64>) -> Option<i64> {
        let period =
            requested.or_else(|| cells::at(pod, "spec.terminationGracePeriodSeconds").as_i64()).unwrap_or_default();
        let ended = matches!(cells::str(pod, "status.phase"), "Failed" | "Succeeded");
        if cells::str(pod, "spec.nodeName").is_empty() || ended {
            return Some(0);
        }
        Some(if period < 0 { 1 } else { period })
    }
}

/// Keeps of an update only one field of the spec.
fn keep_but(new: &mut Value, old: &Value, key: &str) {
    let mut kept = old.clone();
    match new["spec"].get(key) {
        Some(value) => kept["spec"][key] = value.clone(),
        None => {
            if let Some(spec) = kept["spec"].as_object_mut() {
                spec.remove(key);
            }
        }
    }
    kept["metadata"] = new["metadata"].clone();
    *new = kept;
}

/// Keeps the generations that a status says it has observed, if the new one says nothing about that.
fn observed_generations(new: &mut Value, old: &Value) {
    let keep = |new: &mut Value, old: Option<&Value>| {
        if cells::int(new, "observedGeneration") == 0
            && let (Some(map), Some(old)) = (new.as_object_mut(), old)
            && let Some(generation) = old.get("observedGeneration")
        {
            map.insert("observedGeneration".to_owned(), generation.clone());
        }
    };
    keep(&mut new["status"], old.get("status"));
    let mut before: Vec<&Value> = cells::list(old, "status.conditions").iter().collect();
    for condition in new["status"].get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(at) = before.iter().position(|old| old["type"] == condition["type"]) {
            keep(condition, Some(before.remove(at)));
        }
    }
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Ready", "string", words("The aggregate readiness state of this pod for accepting traffic."), |o, now| {
        summary(o, now).ready.into()
    }),
    column("Status", "string", words("The aggregate status of the containers in this pod."), |o, now| {
        summary(o, now).reason.into()
    }),
    column(
        "Restarts",
        "string",
        words(
            "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.",
        ),
        |o, now| summary(o, now).restarts.into(),
    ),
    AGE,
    wide("IP", "string", field("core.v1.PodStatus", "podIP"), |o, _| {
        cells::list(o, "status.podIPs").first().map_or_else(|| "<none>".into(), |ip| cells::text_or(ip, "ip", "<none>"))
    }),
    wide("Node", "string", field("core.v1.PodSpec", "nodeName"), |o, _| cells::text_or(o, "spec.nodeName", "<none>")),
    wide("Nominated Node", "string", field("core.v1.PodStatus", "nominatedNodeName"), |o, _| {
        cells::text_or(o, "status.nominatedNodeName", "<none>")
    }),
    wide("Readiness Gates", "string", field("core.v1.PodSpec", "readinessGates"), |o, _| readiness_gates(o).into()),
];

fn readiness_gates(pod: &Value) -> String {
    let gates = cells::list(pod, "spec.readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let passed = gates.iter().filter(|g| cells::has_condition(pod, cells::str(g, "conditionType"))).count();
    format!("{passed}/{}", gates.len())
}

/// What the containers of a Pod come to, in three cells.
struct Summary {
    ready: String,
    reason: String,
    restarts: String,
}

fn summary(pod: &Value, now: Timestamp) -> Summary {
    let statuses = cells::list(pod, "status.containerStatuses");
    let inits = cells::list(pod, "spec.initContainers");
    let is_sidecar = |name: &str| inits.iter().any(|c| c["name"] == name && c["restartPolicy"] == "Always");
    let phase = cells::str(pod, "status.phase");
    let mut reason = cells::str(pod, "status.reason");
    if reason.is_empty() {
        reason = phase;
    }
    let mut reason = reason.to_owned();
    if cells::list(pod, "status.conditions")
        .iter()
        .any(|c| c["type"] == "PodScheduled" && c["reason"] == "SchedulingGated")
    {
        reason = "SchedulingGated".to_owned();
    }
    let total =
        cells::list(pod, "spec.containers").len() + inits.iter().filter(|c| c["restartPolicy"] == "Always").count();
    let mut ready = 0;
    let mut all = Restarts::default();
    let mut sidecars = Restarts::default();

    let mut initializing = false;
    for (i, container) in cells::list(pod, "status.initContainerStatuses").iter().enumerate() {
        let sidecar = is_sidecar(cells::str(container, "name"));
        all.add(container);
        if sidecar {
            sidecars.add(container);
        }
        let (ended, waiting) = (&container["state"]["terminated"], cells::str(container, "state.waiting.reason"));
        if !ended.is_null() && cells::int(ended, "exitCode") == 0 {
            continue;
        }
        if sidecar && container["started"] == true {
            ready += usize::from(container["ready"] == true);
            continue;
        }
        reason = if !ended.is_null() {
            format!("Init:{}", end_of(ended))
        } else if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{i}/{}", inits.len())
        };
        initializing = true;
        break;
    }

    if !initializing || cells::has_condition(pod, "Initialized") {
        all = sidecars;
        let mut running = false;
        let mut error = None;
        for container in statuses.iter().rev() {
            all.add(container);
            let (ended, waiting) = (&container["state"]["terminated"], cells::str(container, "state.waiting.reason"));
            if !waiting.is_empty() {
                reason = waiting.to_owned();
            } else if !ended.is_null() {
                reason = end_of(ended);
                if cells::int(ended, "exitCode") != 0 {
                    error = Some(reason.clone());
                }
            } else if container["ready"] == true && !container["state"]["running"].is_null() {
                running = true;
                ready += 1;
            }
        }
        // A Pod of which some containers completed is what the others are.
        if reason == "Completed" {
            if running && cells::has_condition(pod, "Ready") {
                reason = "Running".to_owned();
            } else if let Some(error) = error {
                reason = error;
            } else if running {
                reason = "NotReady".to_owned();
            }
        }
    }
    if meta::is_deleting(pod) {
        if cells::str(pod, "status.reason") == "NodeLost" {
            reason = "Unknown".to_owned();
        } else if !matches!(phase, "Failed" | "Succeeded") {
            reason = "Terminating".to_owned();
        }
    }
    let restarts = match &all.last {
        Some(last) if all.count > 0 => {
            format!("{} ({} ago)", all.count, cells::since(&Value::from(last.to_string()), now))
        }
        _ => all.count.to_string(),
    };
    Summary { ready: format!("{ready}/{total}"), reason, restarts }
}

/// Why a container ended.
fn end_of(ended: &Value) -> String {
    match (cells::str(ended, "reason"), cells::int(ended, "signal")) {
        ("", 0) => format!("ExitCode:{}", cells::int(ended, "exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// How often containers were restarted, and when last.
#[derive(Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count += cells::int(container, "restartCount");
        let ended = cells::str(container, "lastState.terminated.finishedAt").parse::<Timestamp>().ok();
        self.last = self.last.max(ended);
    }
}
