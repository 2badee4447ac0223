//! Affinity of a pod, parsed once: to nodes by their labels, to other pods by where they run.

use k8s_openapi::api::core::v1::{
    Affinity, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm, WeightedPodAffinityTerm,
};
use std::collections::BTreeSet;

use trireme_machinery::labels::Selector;
use trireme_machinery::placement::{Expression, NodeTerm};

use super::{LabelMap, NodeInfo, PodInfo};
use crate::snapshot::Snapshot;

/// Which nodes a pod may or would rather run on.
#[derive(Debug, Clone, Default)]
pub struct NodeAffinity {
    /// `nodeSelector`: labels that the node must have.
    pub labels: LabelMap,
    /// One of these terms must match; `None` where nothing is required.
    pub required: Option<Vec<NodeTerm>>,
    /// Terms that count for a node, each with its weight.
    pub preferred: Vec<(i64, NodeTerm)>,
}

/// Which pods a pod wants near itself or far away.
#[derive(Debug, Clone, Default)]
pub struct PodAffinity {
    /// All of these must hold.
    pub required: Vec<PodTerm>,
    /// None of these may hold.
    pub required_anti: Vec<PodTerm>,
    /// Each counts for a node with its weight.
    pub preferred: Vec<(i64, PodTerm)>,
    /// Each counts against a node with its weight.
    pub preferred_anti: Vec<(i64, PodTerm)>,
}

/// Some pods, and what being near them means.
#[derive(Debug, Clone)]
pub struct PodTerm {
    /// Nodes with the same value of this label are near each other.
    pub topology_key: String,
    selector: Selector,
    namespaces: BTreeSet<String>,
    namespace_selector: Selector,
}

// === impl NodeAffinity ===

impl NodeAffinity {
    pub(super) fn of(labels: Option<&LabelMap>, affinity: Option<&Affinity>) -> Self {
        let node = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
        let required = node
            .and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref())
            .map(|required| required.node_selector_terms.iter().map(term).collect());
        let preferred = node
            .and_then(|node| node.preferred_during_scheduling_ignored_during_execution.as_ref())
            .into_iter()
            .flatten()
            .filter(|preferred| preferred.weight != 0)
            .map(|preferred| (i64::from(preferred.weight), term(&preferred.preference)))
            .filter(|(_, term)| !term.matches_nothing())
            .collect();
        Self { labels: labels.cloned().unwrap_or_default(), required, preferred }
    }

    /// Whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.required.is_none()
    }

    /// Whether the node has what is required.
    pub fn allows(&self, node: &NodeInfo) -> bool {
        self.labels.iter().all(|(key, value)| node.label(key) == Some(value))
            && self
                .required
                .as_ref()
                .is_none_or(|terms| terms.iter().any(|term| term.matches(node.name(), node.labels())))
    }

    /// The only nodes that can match, where every term names some.
    pub fn named_nodes(&self) -> Option<BTreeSet<String>> {
        let terms = self.required.as_ref().filter(|terms| !terms.is_empty())?;
        let mut all = BTreeSet::new();
        for term in terms {
            all.extend(term.named()?);
        }
        Some(all)
    }
}

fn term(term: &NodeSelectorTerm) -> NodeTerm {
    fn expressions(all: Option<&Vec<NodeSelectorRequirement>>) -> impl Iterator<Item = Expression<'_>> {
        all.into_iter().flatten().map(|one| Expression {
            key: &one.key,
            operator: &one.operator,
            values: one.values.as_deref().unwrap_or_default(),
        })
    }
    NodeTerm::new(expressions(term.match_expressions.as_ref()), expressions(term.match_fields.as_ref()))
}

// === impl PodAffinity ===

impl PodAffinity {
    pub(super) fn of(affinity: Option<&Affinity>, namespace: &str) -> Self {
        let near = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
        let far = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
        let terms = |list: Option<&Vec<PodAffinityTerm>>| {
            list.into_iter().flatten().map(|term| PodTerm::of(term, namespace)).collect()
        };
        let weighted = |list: Option<&Vec<WeightedPodAffinityTerm>>| {
            list.into_iter()
                .flatten()
                .map(|term| (i64::from(term.weight), PodTerm::of(&term.pod_affinity_term, namespace)))
                .collect()
        };
        Self {
            required: terms(near.and_then(|near| near.required_during_scheduling_ignored_during_execution.as_ref())),
            required_anti: terms(far.and_then(|far| far.required_during_scheduling_ignored_during_execution.as_ref())),
            preferred: weighted(
                near.and_then(|near| near.preferred_during_scheduling_ignored_during_execution.as_ref()),
            ),
            preferred_anti: weighted(
                far.and_then(|far| far.preferred_during_scheduling_ignored_during_execution.as_ref()),
            ),
        }
    }

    /// Whether other pods matter at all.
    pub fn is_empty(&self) -> bool {
        self.required.is_empty() && self.required_anti.is_empty() && !self.has_preferences()
    }

    /// Whether there are terms that only count.
    pub fn has_preferences(&self) -> bool {
        !self.preferred.is_empty() || !self.preferred_anti.is_empty()
    }
}

// === impl PodTerm ===

impl PodTerm {
    fn of(term: &PodAffinityTerm, own_namespace: &str) -> Self {
        let mut namespaces: BTreeSet<String> = term.namespaces.iter().flatten().cloned().collect();
        if namespaces.is_empty() && term.namespace_selector.is_none() {
            namespaces.insert(own_namespace.to_owned());
        }
        Self {
            topology_key: term.topology_key.clone(),
            selector: super::selector(term.label_selector.as_ref()),
            namespaces,
            namespace_selector: super::selector(term.namespace_selector.as_ref()),
        }
    }

    /// Whether the pod is one that the term means.
    pub fn matches(&self, pod: &PodInfo, snapshot: &Snapshot) -> bool {
        let namespace = pod.namespace();
        (self.namespaces.contains(namespace) || self.namespace_selector.matches(snapshot.namespace_labels(namespace)))
            && self.selector.matches(pod.labels())
    }

    /// Where a node is, as the term sees it.
    pub fn domain<'n>(&self, node: &'n NodeInfo) -> Option<&'n str> {
        node.label(&self.topology_key).map(String::as_str)
    }
}
