//! A round of a Deployment. Pure: from what was observed to what is written.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};
use trireme_client::Object;

use super::scale::{is_rolling, max_surge, new_size, proportional, wanted};
use super::sets::{self, size};
use super::{conditions, rollout};

/// What a round looks at.
#[derive(Debug)]
pub(super) struct Observed<'a> {
    pub(super) deployment: &'a Deployment,
    /// Its ReplicaSets.
    pub(super) sets: &'a [Arc<ReplicaSet>],
    /// Uids of the sets of which pods have not ended.
    pub(super) running: BTreeSet<String>,
    /// In whole seconds.
    pub(super) now: Timestamp,
}

/// One write to a ReplicaSet, and what people are told when it succeeded.
#[derive(Debug, Clone)]
pub(super) enum Write {
    Create { set: Box<ReplicaSet>, event: Option<String> },
    Update { set: Box<ReplicaSet>, event: Option<String> },
    Delete(Box<ReplicaSet>),
}

/// What is to be done.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) writes: Vec<Write>,
    /// The Deployment with its new status (and revision annotation), if that changes.
    pub(super) status: Option<Box<Deployment>>,
    /// When to look again although nothing happens.
    pub(super) again: Option<Duration>,
}

/// The sets in the course of a round.
pub(super) struct Round<'a> {
    pub(super) observed: &'a Observed<'a>,
    pub(super) deployment: Deployment,
    pub(super) sets: Vec<Working>,
    /// Index of the set of the present template.
    pub(super) new: Option<usize>,
}

/// A set with the change that is planned.
pub(super) struct Working {
    before: Option<Arc<ReplicaSet>>,
    pub(super) now: ReplicaSet,
    event: Option<String>,
    delete: bool,
}

/// Plans a round.
pub(super) fn plan(observed: &Observed<'_>) -> Plan {
    let mut round = Round::new(observed);
    if round.deployment.is_deleting() {
        round.find_new(false);
        let status = round.counted();
        return round.finish(status);
    }
    conditions::note_pause(&mut round.deployment, observed.now);
    let paused = round.deployment.spec.paused.unwrap_or(false);
    round.find_new(false);
    let status = if paused || round.was_scaled() {
        round.scale();
        if paused {
            round.clean_up();
        }
        round.counted()
    } else if is_rolling(&round.deployment) {
        rollout::rolling(&mut round)
    } else {
        rollout::recreate(&mut round)
    };
    round.finish(status)
}

impl<'a> Round<'a> {
    fn new(observed: &'a Observed<'a>) -> Self {
        let mut sets: Vec<Working> = observed
            .sets
            .iter()
            .map(|set| Working { before: Some(set.clone()), now: (**set).clone(), event: None, delete: false })
            .collect();
        sets.sort_by(|a, b| sets::by_age(&a.now, &b.now));
        Self { observed, deployment: observed.deployment.clone(), sets, new: None }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.observed.now
    }

    /// Finds the set of the present template and keeps its annotations; makes it if it is not there and may be made.
    pub(super) fn find_new(&mut self, create: bool) {
        let new = self.sets.iter().position(|s| sets::same_template(&s.now, &self.deployment));
        let oldest = self.sets.iter().enumerate().filter(|(at, _)| Some(*at) != new).map(|(_, s)| &s.now);
        let revision = oldest.filter_map(sets::revision).max().unwrap_or(0) + 1;
        let (now, min_ready) = (self.now(), self.deployment.spec.min_ready_seconds);
        match new {
            Some(at) => {
                let set = &mut self.sets[at].now;
                sets::annotate(set, &self.deployment, revision);
                if set.spec.min_ready_seconds.unwrap_or(0) != min_ready.unwrap_or(0) {
                    set.spec.min_ready_seconds = min_ready;
                }
                let name = set.metadata.name.clone().unwrap_or_default();
                let revision = set.metadata.annotations.as_ref().and_then(|a| a.get(sets::REVISION).cloned());
                self.set_revision(revision);
                conditions::note_found(&mut self.deployment, &name, now);
                self.new = Some(at);
            }
            None if create => {
                let mut set = sets::make(&self.deployment, revision);
                let replicas = new_size(&self.deployment, 0, self.total());
                set.spec.replicas = Some(replicas);
                sets::remember_size(
                    &mut set,
                    wanted(&self.deployment),
                    wanted(&self.deployment) + max_surge(&self.deployment),
                );
                let name = set.metadata.name.clone().unwrap_or_default();
                let event = (replicas > 0).then(|| format!("Scaled up replica set {name} from 0 to {replicas}"));
                self.set_revision(Some(revision.to_string()));
                conditions::note_created(&mut self.deployment, &name, now);
                self.sets.push(Working { before: None, now: set, event, delete: false });
                self.new = Some(self.sets.len() - 1);
            }
            None => self.new = None,
        }
    }

    fn set_revision(&mut self, revision: Option<String>) {
        if let Some(revision) = revision {
            self.deployment.metadata.annotations.get_or_insert_default().insert(sets::REVISION.to_owned(), revision);
        }
    }

    pub(super) fn new_set(&self) -> Option<&ReplicaSet> {
        self.new.map(|at| &self.sets[at].now)
    }

    /// Indexes of the other sets, oldest first.
    pub(super) fn old(&self) -> Vec<usize> {
        (0..self.sets.len()).filter(|at| Some(*at) != self.new).collect()
    }

    /// Indexes of the other sets that are to have pods, oldest first.
    pub(super) fn active_old(&self) -> Vec<usize> {
        self.old().into_iter().filter(|at| size(&self.sets[*at].now) > 0).collect()
    }

    /// How many pods all sets are to have.
    pub(super) fn total(&self) -> i32 {
        self.sets.iter().map(|s| size(&s.now)).sum()
    }

    pub(super) fn all(&self) -> Vec<&ReplicaSet> {
        self.sets.iter().map(|s| &s.now).collect()
    }

    /// Gives a set a size; true: it had another.
    pub(super) fn resize(&mut self, at: usize, replicas: i32, always_annotate: bool) -> bool {
        let before = size(&self.sets[at].now);
        if before == replicas && !always_annotate {
            return false;
        }
        let (desired, most) = (wanted(&self.deployment), wanted(&self.deployment) + max_surge(&self.deployment));
        let working = &mut self.sets[at];
        sets::remember_size(&mut working.now, desired, most);
        if before == replicas {
            return false;
        }
        working.now.spec.replicas = Some(replicas);
        // Two steps in one round are told as one.
        let from = working.before.as_ref().map_or(0, |b| size(b));
        let name = working.now.metadata.name.as_deref().unwrap_or_default();
        let direction = if from < replicas { "up" } else { "down" };
        working.event =
            (from != replicas).then(|| format!("Scaled {direction} replica set {name} from {from} to {replicas}"));
        true
    }

    /// The Deployment was scaled since its sets were: they remember another size.
    fn was_scaled(&self) -> bool {
        let wanted = wanted(&self.deployment);
        let active = self.sets.iter().map(|s| &s.now).filter(|s| size(s) > 0);
        active.filter_map(|s| sets::remembered(s, sets::DESIRED)).any(|desired| desired != wanted)
    }

    /// Scales without rolling: the only set with pods, or all in proportion.
    fn scale(&mut self) {
        let wanted = wanted(&self.deployment);
        let active: Vec<usize> = (0..self.sets.len()).filter(|at| size(&self.sets[*at].now) > 0).collect();
        let only = match active.as_slice() {
            [] => self.new.or_else(|| self.old().last().copied()),
            [only] => Some(*only),
            _ => None,
        };
        if let Some(at) = only {
            self.resize(at, wanted, false);
        } else if self.is_saturated() {
            for at in self.active_old() {
                self.resize(at, 0, false);
            }
        } else if is_rolling(&self.deployment) {
            let sets: Vec<&ReplicaSet> = active.iter().map(|at| &self.sets[*at].now).collect();
            for (at, replicas) in active.iter().zip(proportional(&self.deployment, &sets)) {
                self.resize(*at, replicas, true);
            }
        }
    }

    fn is_saturated(&self) -> bool {
        let wanted = wanted(&self.deployment);
        self.new_set().is_some_and(|set| {
            size(set) == wanted
                && sets::remembered(set, sets::DESIRED) == Some(wanted)
                && conditions::available(set) == wanted
        })
    }

    /// Deletes the oldest of the sets without pods beyond the limit of history.
    pub(super) fn clean_up(&mut self) {
        let Some(limit) = self.deployment.spec.revision_history_limit.filter(|l| *l != i32::MAX) else { return };
        let mut old: Vec<usize> = self.old().into_iter().filter(|at| !self.sets[*at].now.is_deleting()).collect();
        let surplus = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        let revision = |at: &usize| sets::revision(&self.sets[*at].now).unwrap_or(0);
        old.sort_by_key(revision);
        for at in old.into_iter().take(surplus) {
            let set = &self.sets[at].now;
            let status = set.status.clone().unwrap_or_default();
            let busy = status.replicas != 0
                || size(set) != 0
                || set.metadata.generation.unwrap_or(0) > status.observed_generation.unwrap_or(0);
            self.sets[at].delete = !busy;
        }
    }

    fn counted(&self) -> DeploymentStatus {
        conditions::counted(&self.deployment, &self.all(), self.new_set(), self.now())
    }

    fn finish(mut self, status: DeploymentStatus) -> Plan {
        let original = self.observed.deployment;
        let revision = |d: &Deployment| d.metadata.annotations.as_ref().and_then(|a| a.get(sets::REVISION).cloned());
        let changed = original.status.as_ref().is_none_or(|old| comparable(old) != comparable(&status))
            || revision(original) != revision(&self.deployment);
        let again = conditions::next_look(&self.deployment, &status, self.now());
        let mut writes = Vec::new();
        for working in self.sets {
            let set = Box::new(working.now);
            // What grows comes first: if that is refused (a quota), nothing was given up for it.
            match working.before {
                Some(_) if working.delete => writes.push((3, Write::Delete(set))),
                None => writes.push((0, Write::Create { set, event: working.event })),
                Some(before) if *before != *set => {
                    let rank = if size(&before) < size(&set) { 1 } else { 2 };
                    writes.push((rank, Write::Update { set, event: working.event }));
                }
                Some(_) => {}
            }
        }
        writes.sort_by_key(|(rank, _)| *rank);
        let writes = writes.into_iter().map(|(_, write)| write).collect();
        self.deployment.status = Some(status);
        Plan { writes, status: changed.then(|| Box::new(self.deployment)), again: again.filter(|_| !paused(original)) }
    }
}

fn paused(deployment: &Deployment) -> bool {
    deployment.spec.paused.unwrap_or(false)
}

/// A status without the difference between zero and absent.
fn comparable(status: &DeploymentStatus) -> DeploymentStatus {
    let zero = |count: Option<i32>| Some(count.unwrap_or(0));
    DeploymentStatus {
        replicas: zero(status.replicas),
        updated_replicas: zero(status.updated_replicas),
        ready_replicas: zero(status.ready_replicas),
        available_replicas: zero(status.available_replicas),
        unavailable_replicas: zero(status.unavailable_replicas),
        terminating_replicas: status.terminating_replicas,
        collision_count: status.collision_count,
        observed_generation: status.observed_generation,
        conditions: Some(status.conditions.clone().unwrap_or_default()),
    }
}
