//! Pods that wait for a node.
//!
//! A pod is *active* (next by priority, then by age), *backing off* after a failed attempt (1 s, doubled each time, at
//! most 10 s), *parked* because no node would do and nothing changed since that could help it, or *gated*. What happens
//! in the cluster wakes the parked pods that it may help; after five minutes one is tried anyway. A pod that was woken
//! while it still backs off is tried early when there is nothing else to do; after an error it is not.
//!
//! Pure: the time is an argument, and nothing waits here.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use trireme_client::{Wakes, wake::Reacted};

use crate::model::PodInfo;

/// Pods whose back-off ends within the same window come out by their priority.
const WINDOW: Duration = Duration::from_secs(1);
/// The first back-off.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// The longest back-off.
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);
/// A parked pod is tried again after this time, whatever happened.
const LONGEST_PARKED: Duration = Duration::from_secs(300);

/// A pod that waits.
#[derive(Debug, Clone)]
pub struct Waiting {
    /// The pod, as it was last seen.
    pub pod: Arc<PodInfo>,
    /// How often a node was looked for.
    pub attempts: u32,
    /// When it came.
    pub since: Instant,
    /// Why it is up: the causes of what woke it.
    pub wakes: Wakes,
    /// The intents that it was tried for already.
    pub reacted: Reacted,
    /// The plugins that kept it off every node at the last attempt.
    plugins: BTreeSet<&'static str>,
    /// Failed attempts in a row, which the back-off goes by.
    failures: u32,
    last_attempt: Option<Instant>,
    queued: Instant,
}

type ActiveKey = (Reverse<i32>, Instant, u64);
/// A time, and what decides among those of one time.
type TimeKey = (Instant, Reverse<i32>, u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Active(ActiveKey),
    Backoff(TimeKey),
    /// Backing off, and not tried earlier: after an error, or to look again.
    Errored(TimeKey),
    Parked(TimeKey),
    Gated,
}

/// What became of a pod since it was taken out.
#[derive(Debug)]
enum Meanwhile {
    Nothing,
    Changed(Arc<PodInfo>),
    /// It is gone, is about to be, or has a node: it does not come back.
    Gone,
}

#[derive(Debug)]
struct Entry {
    waiting: Waiting,
    place: Place,
}

/// Pods that wait for a node.
#[derive(Debug, Default)]
pub struct Queue {
    entries: HashMap<String, Entry>,
    active: BTreeMap<ActiveKey, String>,
    /// By the time when they are due.
    backoff: BTreeMap<TimeKey, String>,
    errored: BTreeMap<TimeKey, String>,
    /// By the time since when they are.
    parked: BTreeMap<TimeKey, String>,
    /// Pods that were taken out and neither came back nor are done.
    in_flight: HashMap<String, Meanwhile>,
    numbers: u64,
    /// Where windows of time begin.
    beginning: Option<Instant>,
}

// === impl Waiting ===

impl Waiting {
    /// A pod that waits from now on.
    pub fn new(pod: Arc<PodInfo>, wakes: Wakes, now: Instant) -> Self {
        Self {
            pod,
            attempts: 0,
            since: now,
            wakes,
            reacted: Reacted::default(),
            plugins: BTreeSet::new(),
            failures: 0,
            last_attempt: None,
            queued: now,
        }
    }

    /// When the back-off after its last attempt is over.
    fn backoff_over(&self) -> Option<Instant> {
        let exponent = self.failures.checked_sub(1)?;
        let wait = FIRST_BACKOFF.saturating_mul(1 << exponent.min(10)).min(LONGEST_BACKOFF);
        Some(self.last_attempt? + wait)
    }
}

// === impl Queue ===

impl Queue {
    /// A pod without a node came or changed. `helps` tells whether the change may help it, by the plugins that kept it
    /// off.
    pub fn set(
        &mut self,
        pod: Arc<PodInfo>,
        wakes: Wakes,
        now: Instant,
        helps: impl FnOnce(&BTreeSet<&'static str>, &Arc<PodInfo>, &Arc<PodInfo>) -> bool,
    ) {
        let uid = pod.uid().to_owned();
        if self.changed_in_flight(&pod) {
            return;
        }
        let Some(mut entry) = self.take(&uid) else {
            let waiting = Waiting::new(pod, wakes, now);
            self.put(waiting);
            return;
        };
        let old = std::mem::replace(&mut entry.waiting.pod, pod);
        let new = entry.waiting.pod.clone();
        match entry.place {
            Place::Gated => {
                entry.waiting.wakes = wakes;
                entry.waiting.queued = now;
                self.put(entry.waiting);
            }
            Place::Parked(_) if helps(&entry.waiting.plugins, &old, &new) => {
                entry.waiting.wakes.merge(wakes);
                self.wake(entry.waiting, now);
            }
            place => {
                if matches!(place, Place::Active(_)) {
                    entry.waiting.wakes.merge(wakes);
                }
                self.insert(entry.waiting, place);
            }
        }
    }

    /// A pod changed that may be taken out: it comes back as it is now. False: it was not taken out.
    pub fn changed_in_flight(&mut self, pod: &Arc<PodInfo>) -> bool {
        let Some(meanwhile) = self.in_flight.get_mut(pod.uid()) else { return false };
        *meanwhile = Meanwhile::Changed(pod.clone());
        true
    }

    /// A pod is gone, is about to be, or has a node. If it is taken out it does not come back.
    pub fn remove(&mut self, uid: &str) {
        self.take(uid);
        if let Some(meanwhile) = self.in_flight.get_mut(uid) {
            *meanwhile = Meanwhile::Gone;
        }
    }

    /// Takes the next pod out; it comes back by [`Queue::failed`] or [`Queue::errored`], or is [`Queue::done`].
    pub fn pop(&mut self, now: Instant) -> Option<Waiting> {
        self.release(now);
        let uid = self.active.values().next().or_else(|| self.backoff.values().next())?.clone();
        let mut waiting = self.take(&uid)?.waiting;
        waiting.attempts += 1;
        waiting.last_attempt = Some(now);
        self.in_flight.insert(uid, Meanwhile::Nothing);
        Some(waiting)
    }

    /// No node would do: parked until something helps one of the plugins that stood in the way.
    pub fn failed(&mut self, waiting: Waiting, plugins: BTreeSet<&'static str>, now: Instant) {
        let Some(mut waiting) = self.come_back(waiting) else { return };
        waiting.failures += 1;
        waiting.plugins = plugins;
        if waiting.pod.is_gated() {
            self.put(waiting);
        } else {
            let key = (now, Reverse(waiting.pod.priority()), self.number());
            self.insert(waiting, Place::Parked(key));
        }
    }

    /// Something went wrong: tried again after the back-off. Gives back the pod as it waits now; `None` where it is gone.
    pub fn errored(&mut self, waiting: Waiting, now: Instant) -> Option<Arc<PodInfo>> {
        let mut waiting = self.come_back(waiting)?;
        waiting.failures += 1;
        waiting.plugins.clear();
        let pod = waiting.pod.clone();
        let key = self.time_key(&waiting, now);
        self.insert(waiting, Place::Errored(key));
        Some(pod)
    }

    /// A pod that was taken out does not come back.
    pub fn done(&mut self, uid: &str) {
        self.in_flight.remove(uid);
    }

    /// Something happened: pods that found no node, and that it may help, are up again.
    pub fn happened(&mut self, wakes: &Wakes, now: Instant, helps: impl Fn(&BTreeSet<&'static str>, &PodInfo) -> bool) {
        let kept_off = |entry: &Entry| match entry.place {
            Place::Parked(_) => true,
            // What comes back after an error has no plugin to be helped against.
            Place::Errored(_) => !entry.waiting.plugins.is_empty(),
            _ => false,
        };
        let helped = self.chosen(|entry| kept_off(entry) && helps(&entry.waiting.plugins, &entry.waiting.pod));
        for uid in helped {
            if let Some(mut entry) = self.take(&uid) {
                entry.waiting.wakes.merge(wakes.clone());
                self.wake(entry.waiting, now);
            }
        }
    }

    /// Parked pods that this is true of have a look again once their back-off is over, and not earlier.
    pub fn look_again(&mut self, now: Instant, applies: impl Fn(&PodInfo) -> bool) {
        let chosen = self.chosen(|entry| matches!(entry.place, Place::Parked(_)) && applies(&entry.waiting.pod));
        for uid in chosen {
            if let Some(entry) = self.take(&uid) {
                let key = self.time_key(&entry.waiting, now);
                self.insert(entry.waiting, Place::Errored(key));
            }
        }
    }

    fn chosen(&self, choose: impl Fn(&Entry) -> bool) -> Vec<String> {
        self.entries.iter().filter(|(_, entry)| choose(entry)).map(|(uid, _)| uid.clone()).collect()
    }

    /// Whether [`Queue::pop`] has a pod now.
    pub fn has_next(&self, now: Instant) -> bool {
        !self.active.is_empty() || !self.backoff.is_empty() || self.next_due().is_some_and(|due| due <= now)
    }

    /// When a pod that waits for its time is due next.
    pub fn next_due(&self) -> Option<Instant> {
        let first = |places: &BTreeMap<TimeKey, String>| places.keys().next().map(|(time, ..)| *time);
        let flush = first(&self.parked).map(|since| since + LONGEST_PARKED);
        [first(&self.backoff), first(&self.errored), flush].into_iter().flatten().min()
    }

    /// How many pods wait: active, backing off, parked, gated.
    pub fn counts(&self) -> [usize; 4] {
        let [active, backoff, parked] = [self.active.len(), self.backoff.len() + self.errored.len(), self.parked.len()];
        [active, backoff, parked, self.entries.len() - active - backoff - parked]
    }

    /// Lets pods go on whose time has come.
    fn release(&mut self, now: Instant) {
        let until = |places: &BTreeMap<TimeKey, String>, time: Instant| -> Vec<String> {
            places.range(..=(time, Reverse(i32::MIN), u64::MAX)).map(|(_, uid)| uid.clone()).collect()
        };
        let mut ready = until(&self.backoff, now);
        ready.extend(until(&self.errored, now));
        if let Some(long_ago) = now.checked_sub(LONGEST_PARKED) {
            ready.extend(until(&self.parked, long_ago));
        }
        for uid in ready {
            if let Some(mut entry) = self.take(&uid) {
                entry.waiting.queued = now;
                self.activate(entry.waiting);
            }
        }
    }

    /// The start of the window in which the back-off ends.
    fn time_key(&mut self, waiting: &Waiting, now: Instant) -> TimeKey {
        let beginning = *self.beginning.get_or_insert(now);
        let due = waiting.backoff_over().unwrap_or(now);
        let windows = due.saturating_duration_since(beginning).as_secs() / WINDOW.as_secs();
        (
            beginning + WINDOW * u32::try_from(windows).unwrap_or(u32::MAX),
            Reverse(waiting.pod.priority()),
            self.number(),
        )
    }

    /// The pod as it is now, unless it is gone.
    fn come_back(&mut self, mut waiting: Waiting) -> Option<Waiting> {
        match self.in_flight.remove(waiting.pod.uid()) {
            Some(Meanwhile::Gone) => return None,
            Some(Meanwhile::Changed(newer)) => waiting.pod = newer,
            Some(Meanwhile::Nothing) | None => {}
        }
        waiting.reacted.note(&waiting.wakes);
        waiting.wakes = Wakes::default();
        Some(waiting)
    }

    /// Active at once, or once its back-off is over.
    fn wake(&mut self, mut waiting: Waiting, now: Instant) {
        waiting.queued = now;
        let key = self.time_key(&waiting, now);
        if key.0 > now { self.insert(waiting, Place::Backoff(key)) } else { self.put(waiting) }
    }

    fn put(&mut self, waiting: Waiting) {
        if waiting.pod.is_gated() { self.insert(waiting, Place::Gated) } else { self.activate(waiting) }
    }

    fn activate(&mut self, waiting: Waiting) {
        let key = (Reverse(waiting.pod.priority()), waiting.queued, self.number());
        self.insert(waiting, Place::Active(key));
    }

    fn insert(&mut self, waiting: Waiting, place: Place) {
        let uid = waiting.pod.uid().to_owned();
        if let Place::Active(key) = place {
            self.active.insert(key, uid.clone());
        } else if let Some((places, key)) = self.timed(place) {
            places.insert(key, uid.clone());
        }
        self.entries.insert(uid, Entry { waiting, place });
    }

    fn take(&mut self, uid: &str) -> Option<Entry> {
        let entry = self.entries.remove(uid)?;
        if let Place::Active(key) = entry.place {
            self.active.remove(&key);
        } else if let Some((places, key)) = self.timed(entry.place) {
            places.remove(&key);
        }
        Some(entry)
    }

    fn timed(&mut self, place: Place) -> Option<(&mut BTreeMap<TimeKey, String>, TimeKey)> {
        match place {
            Place::Backoff(key) => Some((&mut self.backoff, key)),
            Place::Errored(key) => Some((&mut self.errored, key)),
            Place::Parked(key) => Some((&mut self.parked, key)),
            Place::Active(_) | Place::Gated => None,
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }
}

#[cfg(test)]
mod tests;
