//! Arithmetic of rollouts: how many more or fewer pods than wanted there may be, and who gets which share.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use trireme_machinery::int_or_string::IntOrString as Share;

use super::sets::{self, size};

/// How many pods are wanted.
pub(super) fn wanted(deployment: &Deployment) -> i32 {
    deployment.spec.replicas.unwrap_or(1)
}

/// The strategy; RollingUpdate is the default.
pub(super) fn is_rolling(deployment: &Deployment) -> bool {
    let strategy = deployment.spec.strategy.as_ref().and_then(|s| s.type_.as_deref());
    strategy.is_none_or(|s| s == "RollingUpdate")
}

fn share(value: Option<&IntOrString>, total: i32, round_up: bool) -> i32 {
    let share = match value {
        Some(IntOrString::Int(number)) => Share::Int(*number),
        Some(IntOrString::String(text)) => Share::String(text.clone()),
        None => Share::Int(0),
    };
    share.scaled(total, round_up).unwrap_or(0)
}

/// (surge, unavailable): surge rounds up, unavailable down; both zero would stand still, so one may be unavailable.
fn fences(deployment: &Deployment) -> (i32, i32) {
    let rolling = deployment.spec.strategy.as_ref().and_then(|s| s.rolling_update.as_ref());
    let total = wanted(deployment);
    let surge = share(rolling.and_then(|r| r.max_surge.as_ref()), total, true);
    let unavailable = share(rolling.and_then(|r| r.max_unavailable.as_ref()), total, false);
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
}

/// How many pods more than wanted there may be.
pub(super) fn max_surge(deployment: &Deployment) -> i32 {
    if is_rolling(deployment) { fences(deployment).0 } else { 0 }
}

/// How many of the wanted pods may be unavailable.
pub(super) fn max_unavailable(deployment: &Deployment) -> i32 {
    let wanted = wanted(deployment);
    if !is_rolling(deployment) || wanted == 0 { 0 } else { fences(deployment).1.min(wanted) }
}

/// How big the new set may be now, when all sets together have `total` pods.
pub(super) fn new_size(deployment: &Deployment, current: i32, total: i32) -> i32 {
    if !is_rolling(deployment) {
        return wanted(deployment);
    }
    let room = wanted(deployment) + max_surge(deployment) - total;
    if room <= 0 { current } else { current + room.min(wanted(deployment) - current) }
}

/// The sizes of sets in the middle of a rollout after the Deployment was scaled: each in proportion to what it had.
/// `active` are the sets with pods; the answer is in their order.
pub(super) fn proportional(deployment: &Deployment, active: &[&ReplicaSet]) -> Vec<i32> {
    let most = if wanted(deployment) > 0 { wanted(deployment) + max_surge(deployment) } else { 0 };
    let to_add = most - active.iter().map(|s| size(s)).sum::<i32>();
    let mut order: Vec<usize> = (0..active.len()).collect();
    // The biggest first; of equals the newest when adding, the oldest when taking away.
    order.sort_by(|a, b| {
        let (a, b) = (active[*a], active[*b]);
        let age = sets::by_age(a, b);
        size(b).cmp(&size(a)).then(if to_add > 0 { age.reverse() } else { age })
    });
    let mut sizes: Vec<i32> = active.iter().map(|s| size(s)).collect();
    if to_add == 0 {
        return sizes;
    }
    let mut added = 0;
    for at in &order {
        let part = proportion(deployment, active[*at], to_add, added);
        sizes[*at] += part;
        added += part;
    }
    if let Some(first) = order.first() {
        sizes[*first] = (sizes[*first] + to_add - added).max(0);
    }
    sizes
}

fn proportion(deployment: &Deployment, set: &ReplicaSet, to_add: i32, added: i32) -> i32 {
    if size(set) == 0 || to_add == added {
        return 0;
    }
    let part = fraction(deployment, set);
    let allowed = to_add - added;
    if to_add > 0 { part.min(allowed) } else { part.max(allowed) }
}

fn fraction(deployment: &Deployment, set: &ReplicaSet) -> i32 {
    if wanted(deployment) == 0 {
        return -size(set);
    }
    let most = wanted(deployment) + max_surge(deployment);
    let before = sets::remembered(set, sets::MAX).filter(|n| *n > 0);
    let before = before.or_else(|| deployment.status.as_ref().and_then(|s| s.replicas)).unwrap_or(0);
    if before == 0 {
        return 0;
    }
    let exact = f64::from(size(set)) * f64::from(most) / f64::from(before);
    // Sizes are far below 2^31.
    #[allow(clippy::cast_possible_truncation, reason = "a size of pods")]
    let rounded = exact.round() as i32;
    rounded - size(set)
}
