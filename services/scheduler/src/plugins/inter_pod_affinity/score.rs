//! Preferred terms: what each place is worth, by the pods there.

use std::collections::HashMap;

use crate::framework::{Ask, MAX_SCORE, Rate};
use crate::model::affinity::PodTerm;
use crate::model::{NodeInfo, PodInfo};

/// What a required affinity term of a pod that runs counts for towards pods that it means.
const REQUIRED_WEIGHT: i64 = 1;

pub(super) struct Attraction<'a> {
    places: HashMap<&'a str, HashMap<&'a str, i64>>,
}

impl<'a> Attraction<'a> {
    /// `None` where no pod attracts or repels another.
    pub(super) fn new(ask: Ask<'a>) -> Option<Self> {
        let own = &ask.pod.pod_affinity;
        let mut attraction = Self { places: HashMap::new() };
        for node in ask.snapshot.nodes().iter().filter(|node| !node.labels().is_empty()) {
            for other in node.pods() {
                let theirs = &other.pod_affinity;
                let mut count = |terms: &'a [(i64, PodTerm)], meant: &PodInfo, sign: i64| {
                    for (weight, term) in terms.iter().filter(|(_, term)| term.matches(meant, ask.snapshot)) {
                        attraction.note(node, term, sign * weight);
                    }
                };
                count(&own.preferred, other, 1);
                count(&own.preferred_anti, other, -1);
                count(&theirs.preferred, ask.pod, 1);
                count(&theirs.preferred_anti, ask.pod, -1);
                for term in theirs.required.iter().filter(|term| term.matches(ask.pod, ask.snapshot)) {
                    attraction.note(node, term, REQUIRED_WEIGHT);
                }
            }
        }
        (!attraction.places.is_empty()).then_some(attraction)
    }

    fn note(&mut self, node: &'a NodeInfo, term: &'a PodTerm, weight: i64) {
        if let Some(domain) = term.domain(node) {
            *self.places.entry(&term.topology_key).or_default().entry(domain).or_default() += weight;
        }
    }
}

impl Rate for Attraction<'_> {
    fn rate(&self, node: &NodeInfo) -> i64 {
        let worth = |(key, domains): (&&str, &HashMap<&str, i64>)| Some(*domains.get(node.label(key)?.as_str())?);
        self.places.iter().filter_map(worth).sum()
    }

    fn normalize(&self, _: &[&NodeInfo], scores: &mut [i64]) {
        let (min, max) =
            (scores.iter().copied().min().unwrap_or_default(), scores.iter().copied().max().unwrap_or_default());
        for score in scores {
            *score =
                if max > min { (MAX_SCORE as f64 * ((*score - min) as f64 / (max - min) as f64)) as i64 } else { 0 };
        }
    }
}
