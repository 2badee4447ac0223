//! Whether a node gave a sign of life lately. Pure: signs are what changes (its Lease, its heartbeat), and their time is
//! when this worker saw them, so that no clock of another machine is believed.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::time::Instant;

use crate::common::conditions;

/// Conditions that become unknown with the node.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// What was seen of a node.
#[derive(Debug, Clone)]
pub(super) struct Health {
    uid: String,
    heartbeat: Option<Timestamp>,
    renewed: Option<Timestamp>,
    last_sign: Instant,
}

/// The signs of a node as they are now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Signs {
    /// `lastHeartbeatTime` of its Ready condition.
    pub(super) heartbeat: Option<Timestamp>,
    /// `renewTime` of its Lease.
    pub(super) renewed: Option<Timestamp>,
}

impl Signs {
    pub(super) fn of(node: &Node, renewed: Option<Timestamp>) -> Self {
        let ready = conditions::of_node(node, "Ready");
        Self { heartbeat: ready.and_then(|c| c.last_heartbeat_time.as_ref()).map(|t| t.0), renewed }
    }
}

impl Health {
    pub(super) fn new(uid: &str, signs: Signs, now: Instant) -> Self {
        Self { uid: uid.to_owned(), heartbeat: signs.heartbeat, renewed: signs.renewed, last_sign: now }
    }

    /// It is about this node, not one of the same name before it.
    pub(super) fn is_of(&self, uid: &str) -> bool {
        self.uid == uid
    }

    /// Notes what is seen now; says how long ago the last sign came.
    pub(super) fn see(&mut self, signs: Signs, now: Instant) -> Duration {
        let renewed = signs.renewed > self.renewed;
        if signs.heartbeat != self.heartbeat || renewed {
            self.last_sign = now;
        }
        self.heartbeat = signs.heartbeat;
        self.renewed = signs.renewed.or(self.renewed);
        now.saturating_duration_since(self.last_sign)
    }

    /// Gives it more time: nothing could have been seen.
    pub(super) fn excuse(&mut self, now: Instant) {
        self.last_sign = now;
    }
}

/// How long a node may be silent: one that never reported has longer.
pub(super) fn grace(node: &Node, monitor: Duration, startup: Duration) -> Duration {
    if conditions::of_node(node, "Ready").is_some() { monitor } else { startup }
}

/// The conditions of a node that is silent; `None`: they say so already.
pub(super) fn unknown(node: &Node, now: Timestamp) -> Option<Vec<NodeCondition>> {
    let before = node.status.as_ref().and_then(|s| s.conditions.clone()).unwrap_or_default();
    let mut after = before.clone();
    for kind in REPORTED {
        match after.iter_mut().find(|c| c.type_ == kind) {
            None => after.push(NodeCondition {
                type_: kind.to_owned(),
                status: "Unknown".to_owned(),
                reason: Some("NodeStatusNeverUpdated".to_owned()),
                message: Some("Kubelet never posted node status.".to_owned()),
                last_heartbeat_time: node.metadata.creation_timestamp.clone(),
                last_transition_time: Some(Time(now)),
            }),
            Some(condition) if condition.status != "Unknown" => {
                condition.status = "Unknown".to_owned();
                condition.reason = Some("NodeStatusUnknown".to_owned());
                condition.message = Some("Kubelet stopped posting node status.".to_owned());
                condition.last_transition_time = Some(Time(now));
            }
            Some(_) => {}
        }
    }
    (after != before).then_some(after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(second: i64) -> Option<Timestamp> {
        Timestamp::from_second(second).ok()
    }

    #[test]
    fn signs_of_life_count_from_when_they_are_seen() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut health = Health::new("u", Signs { heartbeat: at(1), renewed: at(1) }, start);
        assert_eq!(health.see(Signs { heartbeat: at(1), renewed: at(1) }, after(30)), Duration::from_secs(30));
        assert_eq!(health.see(Signs { heartbeat: at(1), renewed: at(5) }, after(31)), Duration::ZERO);
        assert_eq!(health.see(Signs { heartbeat: at(1), renewed: at(5) }, after(41)), Duration::from_secs(10));
        // An older Lease (a restored backup) is no sign; another heartbeat is.
        assert_eq!(health.see(Signs { heartbeat: at(1), renewed: at(4) }, after(42)), Duration::from_secs(11));
        assert_eq!(health.see(Signs { heartbeat: at(0), renewed: at(4) }, after(43)), Duration::ZERO);
    }

    #[test]
    fn a_silent_node_is_unknown() {
        let node: Node = serde_json::from_value(json!({"metadata": {"name": "n"}, "status": {"conditions": [
            {"type": "Ready", "status": "True", "reason": "KubeletReady"},
            {"type": "NetworkUnavailable", "status": "False"},
        ]}}))
        .unwrap();
        let mut silent = node.clone();
        let conditions = unknown(&node, Timestamp::UNIX_EPOCH).unwrap();
        let ready = conditions.iter().find(|c| c.type_ == "Ready").unwrap();
        assert_eq!((ready.status.as_str(), ready.reason.as_deref()), ("Unknown", Some("NodeStatusUnknown")));
        let memory = conditions.iter().find(|c| c.type_ == "MemoryPressure").unwrap();
        assert_eq!(memory.reason.as_deref(), Some("NodeStatusNeverUpdated"));
        assert_eq!(conditions.iter().find(|c| c.type_ == "NetworkUnavailable").unwrap().status, "False");
        silent.status.as_mut().unwrap().conditions = Some(conditions);
        assert_eq!(unknown(&silent, Timestamp::UNIX_EPOCH), None);
    }
}
