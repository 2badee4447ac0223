//! How bad it is: whether few, many or all nodes of a zone are not ready, and how fast pods are evicted then. Pure.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use tokio::time::Instant;

use super::taints::Eviction;
use crate::common::conditions;

const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";

/// The state of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Few nodes are not ready.
    Normal,
    /// Many are not.
    Partial,
    /// None is ready.
    Full,
}

#[derive(Debug, Default, Clone, Copy)]
struct Count {
    ready: usize,
    not_ready: usize,
}

/// Rates and thresholds, as the flags have them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rates {
    pub(super) normal: f64,
    pub(super) secondary: f64,
    pub(super) large: usize,
    pub(super) threshold: f64,
}

/// The zone of a node.
pub(super) fn of(node: &Node) -> String {
    let label = |name: &str| node.metadata.labels.as_ref().and_then(|l| l.get(name)).cloned().unwrap_or_default();
    format!("{}:\0:{}", label("topology.kubernetes.io/region"), label("topology.kubernetes.io/zone"))
}

/// The zones of a cluster.
#[derive(Debug)]
pub(super) struct Zones {
    counts: HashMap<String, Count>,
    rates: Rates,
}

impl Zones {
    pub(super) fn new(nodes: &[Arc<Node>], rates: Rates) -> Self {
        let mut counts: HashMap<String, Count> = HashMap::new();
        let counted = nodes.iter().filter(|n| n.metadata.labels.as_ref().is_none_or(|l| !l.contains_key(EXCLUDED)));
        for node in counted {
            let count = counts.entry(of(node)).or_default();
            let ready = conditions::of_node(node, "Ready").is_some_and(|c| c.status == "True");
            if ready { count.ready += 1 } else { count.not_ready += 1 }
        }
        Self { counts, rates }
    }

    fn state_of(&self, count: Count) -> State {
        let total = count.ready + count.not_ready;
        // Counts of nodes are far below 2^52.
        #[allow(clippy::cast_precision_loss, reason = "a count of nodes")]
        let part = count.not_ready as f64 / total.max(1) as f64;
        match count {
            Count { ready: 0, not_ready: 1.. } => State::Full,
            Count { not_ready: 3.., .. } if part >= self.rates.threshold => State::Partial,
            _ => State::Normal,
        }
    }

    /// The state of a zone.
    pub(super) fn state(&self, zone: &str) -> State {
        self.counts.get(zone).map_or(State::Normal, |count| self.state_of(*count))
    }

    /// No node of any zone is ready: then it is rather this worker that is cut off.
    pub(super) fn all_dark(&self) -> bool {
        !self.counts.is_empty() && self.counts.values().all(|count| self.state_of(*count) == State::Full)
    }

    /// Nodes a second that may be tainted in a zone.
    pub(super) fn rate(&self, zone: &str) -> f64 {
        let size = self.counts.get(zone).map_or(0, |c| c.ready + c.not_ready);
        match self.state(zone) {
            State::Normal | State::Full => self.rates.normal,
            State::Partial if size > self.rates.large => self.rates.secondary,
            State::Partial => 0.0,
        }
    }
}

/// Whether any node is ready has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// None is any more.
    Dark,
    /// One is again.
    Light,
}

/// What has changed since the last look. That no node is ready when they are first looked at is how clusters begin.
pub(super) fn turn(before: Option<bool>, dark: bool) -> Option<Turn> {
    match (before, dark) {
        (Some(false), true) => Some(Turn::Dark),
        (Some(true), false) => Some(Turn::Light),
        _ => None,
    }
}

/// When each zone's next node may be tainted.
#[derive(Debug, Default)]
pub(super) struct Limits {
    next: HashMap<String, Instant>,
}

impl Limits {
    /// Whether a node of the zone may be tainted now; if not, when to ask again.
    pub(super) fn ask(&mut self, zones: &Zones, zone: &str, now: Instant) -> (Eviction, Option<Duration>) {
        if zones.all_dark() {
            return (Eviction::Suspended, None);
        }
        let rate = zones.rate(zone);
        if rate <= 0.0 {
            return (Eviction::Held, None);
        }
        match self.next.get(zone) {
            Some(at) if *at > now => (Eviction::Held, Some(at.saturating_duration_since(now))),
            _ => {
                self.next.insert(zone.to_owned(), now + Duration::from_secs_f64(1.0 / rate));
                (Eviction::Allowed, None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const RATES: Rates = Rates { normal: 0.1, secondary: 0.01, large: 50, threshold: 0.55 };

    fn nodes(ready: usize, not_ready: usize) -> Vec<Arc<Node>> {
        let make = |status: &str| {
            Arc::new(
                serde_json::from_value(
                    json!({"metadata": {}, "status": {"conditions": [{"type": "Ready", "status": status}]}}),
                )
                .unwrap(),
            )
        };
        (0..ready).map(|_| make("True")).chain((0..not_ready).map(|_| make("Unknown"))).collect()
    }

    fn state(ready: usize, not_ready: usize) -> State {
        Zones::new(&nodes(ready, not_ready), RATES).state(":\0:")
    }

    #[test]
    fn states_of_a_zone() {
        assert_eq!(state(1, 1), State::Normal);
        assert_eq!(state(1, 2), State::Normal);
        assert_eq!(state(2, 3), State::Partial);
        assert_eq!(state(3, 3), State::Normal);
        assert_eq!(state(0, 1), State::Full);
        assert!(Zones::new(&nodes(0, 2), RATES).all_dark());
        assert!(!Zones::new(&[], RATES).all_dark());
    }

    #[test]
    fn the_first_look_is_no_turn() {
        assert_eq!((turn(None, true), turn(None, false)), (None, None));
        assert_eq!((turn(Some(true), true), turn(Some(false), false)), (None, None));
        assert_eq!((turn(Some(false), true), turn(Some(true), false)), (Some(Turn::Dark), Some(Turn::Light)));
    }

    #[test]
    fn nodes_are_tainted_one_after_another() {
        let zones = Zones::new(&nodes(5, 2), RATES);
        let (mut limits, now) = (Limits::default(), Instant::now());
        assert_eq!(limits.ask(&zones, ":\0:", now), (Eviction::Allowed, None));
        assert_eq!(limits.ask(&zones, ":\0:", now), (Eviction::Held, Some(Duration::from_secs(10))));
        assert_eq!(limits.ask(&zones, ":\0:", now + Duration::from_secs(10)).0, Eviction::Allowed);
        let small = Zones::new(&nodes(2, 3), RATES);
        assert_eq!(limits.ask(&small, ":\0:", now), (Eviction::Held, None));
        assert_eq!(limits.ask(&Zones::new(&nodes(0, 3), RATES), ":\0:", now).0, Eviction::Suspended);
    }
}
