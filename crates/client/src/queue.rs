//! The queue between what happens and who reacts. It is a mailbox: whoever has a handle may put keys in.
//!
//! Invariants: a key waits at most once however often it was added, its causes are merged; a key that is being worked on
//! is not given out again before [`WorkQueue::done`]; a key that failed comes back after 5 ms, doubled each time up to
//! 1000 s, until [`WorkQueue::forget`].

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backoff::exponential;
use crate::wake::Wakes;

const FIRST_RETRY: Duration = Duration::from_millis(5);
const LONGEST_RETRY: Duration = Duration::from_secs(1000);

/// A key to work on and what woke it.
#[derive(Debug, Clone)]
pub struct Work<K> {
    /// The key.
    pub key: K,
    /// The causes of what happened to it since it was last worked on.
    pub wakes: Wakes,
}

/// See the module. Clones are handles of the same queue.
#[derive(Debug)]
pub struct WorkQueue<K> {
    shared: Arc<Shared<K>>,
}

impl<K> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

#[derive(Debug)]
struct Shared<K> {
    state: Mutex<State<K>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<K> {
    ready: VecDeque<K>,
    /// Keys that want work, with their causes; those that are being worked on are not in `ready`.
    wanted: HashMap<K, Wakes>,
    active: HashSet<K>,
    delayed: BTreeMap<(Instant, u64), (K, Wakes)>,
    due: HashMap<K, (Instant, u64)>,
    sequence: u64,
    failures: HashMap<K, u32>,
    closed: bool,
}

impl<K: Clone + Eq + Hash> Default for WorkQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Clone + Eq + Hash> WorkQueue<K> {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        let state = State {
            ready: VecDeque::new(),
            wanted: HashMap::new(),
            active: HashSet::new(),
            delayed: BTreeMap::new(),
            due: HashMap::new(),
            sequence: 0,
            failures: HashMap::new(),
            closed: false,
        };
        Self { shared: Arc::new(Shared { state: Mutex::new(state), changed: Notify::new() }) }
    }

    /// Wants work on a key.
    pub fn add(&self, key: K, wakes: impl Into<Wakes>) {
        self.shared.state.lock().want(key, wakes.into());
        self.shared.changed.notify_one();
    }

    /// Wants work on a key after a while; of two waits for a key the shorter holds.
    pub fn add_after(&self, key: K, delay: Duration, wakes: impl Into<Wakes>) {
        if delay.is_zero() {
            return self.add(key, wakes);
        }
        self.shared.state.lock().delay(key, Instant::now() + delay, wakes.into());
        self.shared.changed.notify_one();
    }

    /// Wants work on a key that failed, after its back-off.
    pub fn add_rate_limited(&self, key: K, wakes: impl Into<Wakes>) {
        let delay = {
            let mut state = self.shared.state.lock();
            let failures = state.failures.entry(key.clone()).or_default();
            *failures += 1;
            exponential(FIRST_RETRY, LONGEST_RETRY, *failures - 1)
        };
        self.add_after(key, delay, wakes);
    }

    /// A key succeeded: its next failure starts from the shortest back-off.
    pub fn forget(&self, key: &K) {
        self.shared.state.lock().failures.remove(key);
    }

    /// How often a key failed in a row.
    #[must_use]
    pub fn failures(&self, key: &K) -> u32 {
        self.shared.state.lock().failures.get(key).copied().unwrap_or(0)
    }

    /// The next key to work on; `None` when the queue is closed. [`WorkQueue::done`] must follow.
    pub async fn next(&self) -> Option<Work<K>> {
        loop {
            let changed = self.shared.changed.notified();
            let due = {
                let mut state = self.shared.state.lock();
                if state.closed {
                    return None;
                }
                state.ripen(Instant::now());
                if let Some(key) = state.ready.pop_front() {
                    let wakes = state.wanted.remove(&key).unwrap_or_default();
                    state.active.insert(key.clone());
                    if !state.ready.is_empty() {
                        self.shared.changed.notify_one();
                    }
                    return Some(Work { key, wakes });
                }
                state.delayed.first_key_value().map(|((at, _), _)| *at)
            };
            match due {
                Some(at) => {
                    tokio::select! {
                        () = changed => {}
                        () = tokio::time::sleep_until(at) => {}
                    }
                }
                None => changed.await,
            }
        }
    }

    /// The work on a key ended; if it was wanted meanwhile it is given out again.
    pub fn done(&self, key: &K) {
        let mut state = self.shared.state.lock();
        state.active.remove(key);
        if state.wanted.contains_key(key) {
            state.ready.push_back(key.clone());
            drop(state);
            self.shared.changed.notify_one();
        }
    }

    /// Forgets everything: what waits, and what is being worked on. Whoever worked must have ended, because its
    /// [`WorkQueue::done`] would be taken for that of the next who gets the key.
    pub fn clear(&self) {
        let mut state = self.shared.state.lock();
        state.ready.clear();
        state.wanted.clear();
        state.active.clear();
        state.delayed.clear();
        state.due.clear();
        state.failures.clear();
    }

    /// Nothing is given out any more.
    pub fn close(&self) {
        self.shared.state.lock().closed = true;
        self.shared.changed.notify_waiters();
    }

    /// How many keys wait for work now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.state.lock().ready.len()
    }

    /// No key waits for work now.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    fn want(&mut self, key: K, wakes: Wakes) {
        match self.wanted.get_mut(&key) {
            Some(known) => known.merge(wakes),
            None => {
                if !self.active.contains(&key) {
                    self.ready.push_back(key.clone());
                }
                self.wanted.insert(key, wakes);
            }
        }
    }

    fn delay(&mut self, key: K, at: Instant, mut wakes: Wakes) {
        let mut at = at;
        if let Some(slot) = self.due.remove(&key)
            && let Some((_, earlier)) = self.delayed.remove(&slot)
        {
            at = at.min(slot.0);
            wakes.merge(earlier);
        }
        self.sequence += 1;
        self.due.insert(key.clone(), (at, self.sequence));
        self.delayed.insert((at, self.sequence), (key, wakes));
    }

    fn ripen(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let (key, wakes) = entry.remove();
            self.due.remove(&key);
            self.want(key, wakes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_once_and_is_not_worked_on_twice_at_once() {
        let queue = WorkQueue::new();
        queue.add("a", Wakes::default());
        queue.add("a", Wakes::default());
        queue.add("b", Wakes::default());
        assert_eq!(queue.next().await.unwrap().key, "a");
        queue.add("a", Wakes::default());
        assert_eq!(queue.next().await.unwrap().key, "b");
        assert!(tokio::time::timeout(Duration::from_secs(1), queue.next()).await.is_err());
        queue.done(&"a");
        assert_eq!(queue.next().await.unwrap().key, "a");
    }

    #[tokio::test(start_paused = true)]
    async fn failures_wait_longer_until_forgotten() {
        let queue = WorkQueue::new();
        let start = Instant::now();
        for expected in [5, 10, 20, 40] {
            let before = start.elapsed();
            queue.add_rate_limited("a", Wakes::default());
            queue.next().await.unwrap();
            queue.done(&"a");
            let waited = start.elapsed() - before;
            assert!(waited.as_millis() >= expected && waited.as_millis() <= expected + 2, "{waited:?}");
        }
        assert_eq!(queue.failures(&"a"), 4);
        queue.forget(&"a");
        assert_eq!(queue.failures(&"a"), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_shorter_of_two_waits_holds() {
        let queue = WorkQueue::new();
        let start = Instant::now();
        queue.add_after("a", Duration::from_secs(60), Wakes::default());
        queue.add_after("a", Duration::from_secs(10), Wakes::default());
        queue.add_after("a", Duration::from_secs(30), Wakes::default());
        queue.next().await.unwrap();
        queue.done(&"a");
        assert_eq!(start.elapsed().as_secs(), 10);
        assert!(tokio::time::timeout(Duration::from_secs(100), queue.next()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn every_worker_gets_work() {
        let queue = WorkQueue::new();
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move { queue.next().await.map(|w| w.key) })
            })
            .collect();
        tokio::task::yield_now().await;
        for key in 0..3 {
            queue.add(key, Wakes::default());
        }
        let mut got = Vec::new();
        for worker in workers {
            got.push(worker.await.unwrap().unwrap());
        }
        got.sort_unstable();
        assert_eq!(got, [0, 1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_worked_on_when_all_was_forgotten_is_given_out_again() {
        let queue = WorkQueue::new();
        queue.add("a", Wakes::default());
        assert_eq!(queue.next().await.unwrap().key, "a");
        queue.clear();
        queue.add("a", Wakes::default());
        let again = tokio::time::timeout(Duration::from_secs(1), queue.next()).await;
        assert_eq!(again.unwrap().unwrap().key, "a");
    }

    #[tokio::test]
    async fn a_closed_queue_gives_nothing() {
        let queue = WorkQueue::<u8>::new();
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.next().await.is_none() }
        });
        tokio::task::yield_now().await;
        queue.close();
        assert!(waiting.await.unwrap());
    }
}
