//! Required terms: which places have the pods that matter, counted over the whole cluster once.

use std::collections::HashMap;

use crate::framework::{Ask, Check, Rejection};
use crate::model::affinity::PodTerm;
use crate::model::{NodeInfo, PodInfo};

/// A place: a label of nodes and its value.
type Place<'a> = (&'a str, &'a str);

pub(super) struct Neighbours<'a> {
    ask: Ask<'a>,
    /// Places with pods that all of the pod's affinity terms mean.
    wanted: HashMap<Place<'a>, i64>,
    /// Places with pods that one of the pod's anti-affinity terms means.
    unwanted: HashMap<Place<'a>, i64>,
    /// Places where a pod does not want this one.
    unwelcome: HashMap<Place<'a>, i64>,
}

impl<'a> Neighbours<'a> {
    /// `None` where no pod has anything to say about another.
    pub(super) fn new(ask: Ask<'a>) -> Option<Self> {
        let own = &ask.pod.pod_affinity;
        let mut neighbours = Self { ask, wanted: HashMap::new(), unwanted: HashMap::new(), unwelcome: HashMap::new() };
        let silent = own.required.is_empty() && own.required_anti.is_empty();
        for node in ask.snapshot.nodes() {
            for other in node.pods() {
                let against = &other.pod_affinity.required_anti;
                note(
                    &mut neighbours.unwelcome,
                    node,
                    against.iter().filter(|term| term.matches(ask.pod, ask.snapshot)),
                );
                if silent {
                    continue;
                }
                if neighbours.all_mean(other) {
                    note(&mut neighbours.wanted, node, own.required.iter());
                }
                let meant = own.required_anti.iter().filter(|term| term.matches(other, ask.snapshot));
                note(&mut neighbours.unwanted, node, meant);
            }
        }
        (!silent || !neighbours.unwelcome.is_empty()).then_some(neighbours)
    }

    fn all_mean(&self, other: &PodInfo) -> bool {
        let terms = &self.ask.pod.pod_affinity.required;
        !terms.is_empty() && terms.iter().all(|term| term.matches(other, self.ask.snapshot))
    }

    fn is_near(&self, node: &NodeInfo) -> bool {
        let terms = &self.ask.pod.pod_affinity.required;
        let mut near = true;
        for term in terms {
            match term.domain(node) {
                None => return false,
                Some(domain) => near &= self.wanted.contains_key(&(term.topology_key.as_str(), domain)),
            }
        }
        // The first of pods that want each other near finds none yet.
        near || (self.wanted.is_empty() && self.all_mean(self.ask.pod))
    }
}

fn note<'a>(places: &mut HashMap<Place<'a>, i64>, node: &'a NodeInfo, terms: impl Iterator<Item = &'a PodTerm>) {
    for term in terms {
        if let Some(domain) = term.domain(node) {
            *places.entry((term.topology_key.as_str(), domain)).or_default() += 1;
        }
    }
}

impl Check for Neighbours<'_> {
    fn check(&self, node: &NodeInfo) -> Result<(), Rejection> {
        let own = &self.ask.pod.pod_affinity;
        if !self.is_near(node) {
            return Err(Rejection::lasting("node(s) didn't match pod affinity rules"));
        }
        let unwanted = |term: &PodTerm| {
            term.domain(node).is_some_and(|domain| self.unwanted.contains_key(&(term.topology_key.as_str(), domain)))
        };
        if own.required_anti.iter().any(unwanted) {
            return Err(Rejection::preemptible("node(s) didn't match pod anti-affinity rules"));
        }
        if node.labels().iter().any(|(key, value)| self.unwelcome.contains_key(&(key.as_str(), value.as_str()))) {
            return Err(Rejection::preemptible("node(s) didn't satisfy existing pods anti-affinity rules"));
        }
        Ok(())
    }
}
