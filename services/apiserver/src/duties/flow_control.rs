//! Priority levels and flow schemas.
//!
//! Two of each are mandatory and always as they should be; the others are suggestions, kept up as long as their
//! annotation says so.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use trireme_kinds::Kind;
use trireme_machinery::meta;
use trireme_machinery::status::Status;

use super::ensure::ensure_all;
use super::{Duty, Surroundings};
use crate::error::Error;
use crate::pipeline::Objects;

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const AUTOUPDATE: &str = "apf.kubernetes.io/autoupdate-spec";
const MANDATORY: [&str; 2] = ["exempt", "catch-all"];

/// Levels with queues: name, shares, lendable percent, queues, hand size.
const LEVELS: [(&str, i64, i64, i64, i64); 6] = [
    ("system", 30, 33, 64, 6),
    ("node-high", 40, 25, 64, 6),
    ("leader-election", 10, 0, 16, 4),
    ("workload-high", 40, 50, 128, 6),
    ("workload-low", 100, 90, 128, 6),
    ("global-default", 20, 50, 128, 6),
];
const QUEUE_LENGTH: i64 = 50;

/// A schema: name, level, precedence, what tells flows apart, subjects, rules.
type Schema = (&'static str, &'static str, i64, &'static str, &'static [&'static str], Rules);
const SCHEMAS: [Schema; 11] = [
    ("exempt", "exempt", 1, "", &["g:system:masters"], Rules::Everything),
    (
        "catch-all",
        "catch-all",
        10_000,
        BY_USER,
        &["g:system:unauthenticated", "g:system:authenticated"],
        Rules::Everything,
    ),
    ("probes", "exempt", 2, "", &["g:system:unauthenticated", "g:system:authenticated"], Rules::Health),
    (
        "system-leader-election",
        "leader-election",
        100,
        BY_USER,
        &["u:system:kube-controller-manager", "u:system:kube-scheduler", "s:*"],
        Rules::Leases,
    ),
    ("system-node-high", "node-high", 400, BY_USER, &["g:system:nodes"], Rules::NodeStatus),
    ("system-nodes", "system", 500, BY_USER, &["g:system:nodes"], Rules::Everything),
    (
        "kube-controller-manager",
        "workload-high",
        800,
        BY_NAMESPACE,
        &["u:system:kube-controller-manager"],
        Rules::Everything,
    ),
    ("kube-scheduler", "workload-high", 800, BY_NAMESPACE, &["u:system:kube-scheduler"], Rules::Everything),
    ("kube-system-service-accounts", "workload-high", 900, BY_NAMESPACE, &["s:*"], Rules::Everything),
    ("service-accounts", "workload-low", 9000, BY_USER, &["g:system:serviceaccounts"], Rules::Everything),
    (
        "global-default",
        "global-default",
        9900,
        BY_USER,
        &["g:system:unauthenticated", "g:system:authenticated"],
        Rules::Everything,
    ),
];
const BY_USER: &str = "ByUser";
const BY_NAMESPACE: &str = "ByNamespace";

#[derive(Clone, Copy)]
enum Rules {
    Everything,
    Health,
    Leases,
    NodeStatus,
}

/// The duty.
pub struct FlowControl {
    objects: Arc<dyn Objects>,
    levels: Arc<Kind>,
    schemas: Arc<Kind>,
}

impl FlowControl {
    /// Keeps levels and schemas up.
    pub fn new(around: &Surroundings) -> Result<Self, Error> {
        Ok(Self {
            objects: around.objects.clone(),
            levels: around.kind(GROUP, "prioritylevelconfigurations")?,
            schemas: around.kind(GROUP, "flowschemas")?,
        })
    }
}

#[async_trait]
impl Duty for FlowControl {
    fn check(&self) -> &'static str {
        "poststarthook/priority-and-fairness-config-producer"
    }

    fn rhythm(&self) -> Duration {
        Duration::from_secs(60)
    }

    async fn run(&self) -> Result<(), Status> {
        let levels = levels().into_iter().map(|object| (self.levels.clone(), object));
        ensure_all(&self.objects, self.check(), levels.collect(), amend).await?;
        let schemas = SCHEMAS.iter().map(|row| (self.schemas.clone(), schema(*row)));
        ensure_all(&self.objects, self.check(), schemas.collect(), amend).await
    }
}

/// Brings back what the specification says; fields that were defaulted or added since stay.
fn amend(wanted: &Value, value: &mut Value) {
    let mandatory = MANDATORY.contains(&meta::name(wanted));
    if !mandatory && meta::annotation(value, AUTOUPDATE) != Some("true") {
        return;
    }
    overlay(&wanted["spec"], &mut value["spec"]);
}

fn overlay(wanted: &Value, value: &mut Value) {
    match (wanted, value) {
        (Value::Object(wanted), Value::Object(value)) => {
            for (key, wanted) in wanted {
                overlay(wanted, value.entry(key.clone()).or_insert(Value::Null));
            }
        }
        (Value::Array(wanted), Value::Array(value)) if wanted.len() == value.len() => {
            for (wanted, value) in wanted.iter().zip(value) {
                overlay(wanted, value);
            }
        }
        (wanted, value) => {
            if wanted != value {
                *value = wanted.clone();
            }
        }
    }
}

fn metadata(name: &str) -> Value {
    json!({"name": name, "annotations": {AUTOUPDATE: "true"}})
}

fn level(name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "PriorityLevelConfiguration", "metadata": metadata(name), "spec": spec})
}

fn levels() -> Vec<Value> {
    let exempt = json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}});
    let catch_all = json!({
        "type": "Limited",
        "limited": {"nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"}},
    });
    let mut all = vec![level("exempt", exempt), level("catch-all", catch_all)];
    all.extend(LEVELS.iter().map(|(name, shares, lendable, queues, hand)| {
        let queuing = json!({"queues": queues, "handSize": hand, "queueLengthLimit": QUEUE_LENGTH});
        let limited = json!({
            "nominalConcurrencyShares": shares,
            "lendablePercent": lendable,
            "limitResponse": {"type": "Queue", "queuing": queuing},
        });
        level(name, json!({"type": "Limited", "limited": limited}))
    }));
    all
}

fn schema((name, level, precedence, by, subjects, rules): (&str, &str, i64, &str, &[&str], Rules)) -> Value {
    let subjects: Vec<Value> = subjects.iter().filter_map(|subject| subject_object(subject)).collect();
    let mut rule = rule_object(rules);
    rule["subjects"] = json!(subjects);
    let mut spec = json!({
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "rules": [rule],
    });
    if !by.is_empty() {
        spec["distinguisherMethod"] = json!({"type": by});
    }
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "FlowSchema", "metadata": metadata(name), "spec": spec})
}

fn subject_object(subject: &str) -> Option<Value> {
    let (kind, name) = subject.split_once(':')?;
    Some(match kind {
        "u" => json!({"kind": "User", "user": {"name": name}}),
        "g" => json!({"kind": "Group", "group": {"name": name}}),
        _ => json!({"kind": "ServiceAccount", "serviceAccount": {"name": name, "namespace": "kube-system"}}),
    })
}

fn rule_object(rules: Rules) -> Value {
    let resource = |verbs: &[&str], group: &str, resources: &[&str], cluster: bool| {
        let mut rule = json!({"verbs": verbs, "apiGroups": [group], "resources": resources, "namespaces": ["*"]});
        if cluster {
            rule["clusterScope"] = json!(true);
        }
        rule
    };
    match rules {
        Rules::Everything => json!({
            "resourceRules": [resource(&["*"], "*", &["*"], true)],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }),
        Rules::Health => {
            json!({"nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]})
        }
        Rules::Leases => json!({
            "resourceRules": [resource(&["get", "create", "update"], "coordination.k8s.io", &["leases"], false)],
        }),
        Rules::NodeStatus => json!({
            "resourceRules": [
                resource(&["*"], "", &["nodes", "nodes/status"], true),
                resource(&["*"], "coordination.k8s.io", &["leases"], false),
            ],
        }),
    }
}
