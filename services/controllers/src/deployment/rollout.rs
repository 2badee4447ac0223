//! The two strategies.

use k8s_openapi::api::apps::v1::DeploymentStatus;
use trireme_client::Object;

use super::conditions::{self, available, complete};
use super::plan::Round;
use super::scale::{max_unavailable, new_size, wanted};
use super::sets::size;

/// RollingUpdate: the new set grows as far as the surge allows, the old ones shrink as far as availability allows.
pub(super) fn rolling(round: &mut Round<'_>) -> DeploymentStatus {
    round.find_new(true);
    if !grow(round) && !shrink(round) {
        clean_up_if_complete(round);
    }
    status(round)
}

/// Recreate: the old pods end before the new ones are made.
pub(super) fn recreate(round: &mut Round<'_>) -> DeploymentStatus {
    let mut scaled = false;
    for at in round.active_old() {
        scaled |= round.resize(at, 0, false);
    }
    if scaled || old_pods_run(round) {
        return status(round);
    }
    round.find_new(true);
    if let Some(at) = round.new {
        let wanted = wanted(&round.deployment);
        round.resize(at, wanted, false);
    }
    clean_up_if_complete(round);
    status(round)
}

fn status(round: &Round<'_>) -> DeploymentStatus {
    conditions::of_rollout(&round.deployment, &round.all(), round.new_set(), round.now())
}

fn clean_up_if_complete(round: &mut Round<'_>) {
    let before = round.observed.deployment.status.clone().unwrap_or_default();
    if complete(&round.deployment, &before) {
        round.clean_up();
    }
}

fn grow(round: &mut Round<'_>) -> bool {
    let Some(at) = round.new else { return false };
    let (current, wanted) = (size(&round.sets[at].now), wanted(&round.deployment));
    if current == wanted {
        return false;
    }
    let target = if current > wanted { wanted } else { new_size(&round.deployment, current, round.total()) };
    round.resize(at, target, false)
}

fn shrink(round: &mut Round<'_>) -> bool {
    let old = round.active_old();
    let Some(new) = round.new_set() else { return false };
    if old.is_empty() {
        return false;
    }
    let min_available = wanted(&round.deployment) - max_unavailable(&round.deployment);
    // The pods of the new set that are not yet available may not be counted on.
    let new_unavailable = size(new) - available(new);
    let most = round.total() - min_available - new_unavailable;
    if most <= 0 {
        return false;
    }
    let unhealthy = drop_unhealthy(round, &old, most);
    let healthy = drop_healthy(round, &old, min_available);
    unhealthy + healthy > 0
}

/// Old pods that do not serve go first: that costs nothing.
fn drop_unhealthy(round: &mut Round<'_>, old: &[usize], most: i32) -> i32 {
    let mut dropped = 0;
    for at in old {
        let set = &round.sets[*at].now;
        let (current, serving) = (size(set), available(set));
        if dropped >= most || current == 0 || current == serving {
            continue;
        }
        let down = (most - dropped).min(current - serving);
        round.resize(*at, current - down, false);
        dropped += down;
    }
    dropped
}

/// Then as many that serve as there are above the minimum.
fn drop_healthy(round: &mut Round<'_>, old: &[usize], min_available: i32) -> i32 {
    let serving: i32 = old.iter().chain(round.new.iter()).map(|at| available(&round.sets[*at].now)).sum();
    let most = serving - min_available;
    let mut dropped = 0;
    for at in old {
        let current = size(&round.sets[*at].now);
        if dropped >= most || current == 0 {
            continue;
        }
        let down = current.min(most - dropped);
        round.resize(*at, current - down, false);
        dropped += down;
    }
    dropped
}

fn old_pods_run(round: &Round<'_>) -> bool {
    round.old().into_iter().any(|at| {
        let set = &round.sets[at].now;
        set.status.as_ref().is_some_and(|s| s.replicas > 0) || round.observed.running.contains(set.uid())
    })
}
