//! Why a pod found no node, and the sentence that says it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::framework::Rejection;

/// Why a pod found no node.
#[derive(Debug, Clone, Default)]
pub struct Unschedulable {
    /// How many nodes there are.
    pub nodes: usize,
    /// Why none of them would do, where that does not depend on the node.
    pub refusal: Option<String>,
    /// Why each node that was looked at would not do, by name.
    pub rejections: BTreeMap<String, Rejection>,
    /// Why the others would not.
    pub absent: Option<String>,
    /// The plugins that stood in the way; what helps one of them is worth a new try.
    pub plugins: BTreeSet<&'static str>,
    /// What came of looking for pods that could go.
    pub preemption: String,
}

// === impl Unschedulable ===

impl Unschedulable {
    pub(crate) fn refused(nodes: usize, why: String, plugin: &'static str) -> Self {
        Self { nodes, refusal: Some(why), plugins: BTreeSet::from([plugin]), ..Self::default() }
    }

    pub(crate) fn nowhere(
        nodes: usize,
        rejected: BTreeMap<String, (&'static str, Rejection)>,
        narrowing: &[&'static str],
    ) -> Self {
        let mut plugins: BTreeSet<&'static str> = rejected.values().map(|(plugin, _)| *plugin).collect();
        plugins.extend(narrowing);
        let absent =
            (!narrowing.is_empty()).then(|| format!("node(s) didn't satisfy plugin(s) [{}]", narrowing.join(" ")));
        let rejections = rejected.into_iter().map(|(node, (_, rejection))| (node, rejection)).collect();
        Self { nodes, rejections, absent, plugins, ..Self::default() }
    }

    /// Whether there is no node at all.
    pub fn no_nodes(&self) -> bool {
        self.nodes == 0
    }

    /// How often each reason was given, as the sentence has it.
    fn histogram(&self) -> Vec<String> {
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for reason in self.rejections.values().flat_map(|rejection| &rejection.reasons) {
            *reasons.entry(reason).or_default() += 1;
        }
        if let Some(absent) = self.absent.as_deref().filter(|_| self.rejections.len() < self.nodes) {
            *reasons.entry(absent).or_default() += self.nodes - self.rejections.len();
        }
        let mut counted: Vec<String> = reasons.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        counted.sort_unstable();
        counted
    }
}

impl fmt::Display for Unschedulable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.no_nodes() {
            return f.write_str("no nodes available to schedule pods");
        }
        write!(f, "0/{} nodes are available:", self.nodes)?;
        match &self.refusal {
            Some(why) => write!(f, " {why}.")?,
            None => {
                let reasons = self.histogram();
                if !reasons.is_empty() {
                    write!(f, " {}.", reasons.join(", "))?;
                }
            }
        }
        if !self.preemption.is_empty() {
            write!(f, " {}", self.preemption)?;
        }
        Ok(())
    }
}
