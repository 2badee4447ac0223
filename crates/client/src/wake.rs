//! Why a key woke, and whose child the reaction is.

use std::collections::VecDeque;
use std::time::Duration;

use trireme_telemetry::{Cause, Parent, TraceParent};

/// So many causes are remembered of one wake; a key that is woken more often keeps the newest.
const KEPT: usize = 16;

/// The causes that woke a key, merged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wakes {
    causes: Vec<Cause>,
}

impl From<Cause> for Wakes {
    fn from(cause: Cause) -> Self {
        Self { causes: if cause.is_empty() { Vec::new() } else { vec![cause] } }
    }
}

impl Wakes {
    /// The causes, oldest first.
    #[must_use]
    pub fn causes(&self) -> &[Cause] {
        &self.causes
    }

    /// Adds the causes of another wake.
    pub fn merge(&mut self, other: Wakes) {
        for cause in other.causes {
            if !self.causes.contains(&cause) {
                self.causes.push(cause);
            }
        }
        if self.causes.len() > KEPT {
            self.causes.sort_by_key(newest_of);
            self.causes.drain(..self.causes.len() - KEPT);
        }
    }

    /// The newest cause alone and not as an intent: what a delayed second look belongs to.
    #[must_use]
    pub fn aftermath(&self) -> Wakes {
        let newest = self.causes.iter().filter(|c| c.cause.is_some()).max_by_key(|c| c.cause_time);
        match newest {
            Some(cause) => Wakes { causes: vec![Cause { intent: None, intent_time: 0, ..*cause }] },
            None => Wakes::default(),
        }
    }
}

fn newest_of(cause: &Cause) -> i64 {
    cause.cause_time.max(cause.intent_time)
}

/// The intents a key has reacted to, newest last.
#[derive(Debug, Clone, Default)]
pub struct Reacted {
    intents: VecDeque<TraceParent>,
}

impl Reacted {
    /// The key has reacted to these.
    pub fn note(&mut self, wakes: &Wakes) {
        for intent in wakes.causes.iter().filter_map(|c| c.intent) {
            if !self.intents.contains(&intent) {
                self.intents.push_back(intent);
            }
        }
        while self.intents.len() > KEPT {
            self.intents.pop_front();
        }
    }
}

/// The parent and the links of a reaction: a child of the newest intent among what woke the key that it has not yet
/// reacted to, else of the newest cause; the others are links. What is older than `window` (at `now`, nanoseconds since
/// the epoch) is a link of a root.
#[must_use]
pub fn parent(wakes: &Wakes, reacted: &Reacted, now: i64, window: Duration) -> (Parent, Vec<TraceParent>) {
    let oldest = now.saturating_sub(i64::try_from(window.as_nanos()).unwrap_or(i64::MAX));
    let intent = wakes
        .causes
        .iter()
        .filter_map(|c| Some((c.intent_time, c.intent?)))
        .filter(|(time, intent)| *time >= oldest && !reacted.intents.contains(intent))
        .max_by_key(|(time, _)| *time);
    let cause = || {
        let dated = wakes.causes.iter().filter_map(|c| Some((c.cause_time, c.cause?)));
        dated.filter(|(time, _)| *time >= oldest).max_by_key(|(time, _)| *time)
    };
    let chosen = intent.or_else(cause).map(|(_, parent)| parent);
    let mut links: Vec<TraceParent> = Vec::new();
    for link in wakes.causes.iter().filter_map(|c| c.cause.or(c.intent)) {
        if Some(link) != chosen && !links.contains(&link) {
            links.push(link);
        }
    }
    (chosen.into(), links)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;
    const WINDOW: Duration = Duration::from_secs(600);

    fn span(id: u8) -> TraceParent {
        TraceParent::new([id; 16], [id; 8], true).unwrap()
    }

    fn write(id: u8, time: i64) -> Cause {
        Cause::intent(span(id), time * SECOND)
    }

    fn status(id: u8, time: i64, of: Cause) -> Cause {
        Cause { cause: Some(span(id)), cause_time: time * SECOND, ..of }
    }

    fn wakes(causes: &[Cause]) -> Wakes {
        let mut wakes = Wakes::default();
        causes.iter().for_each(|c| wakes.merge((*c).into()));
        wakes
    }

    #[test]
    fn the_newest_intent_that_was_not_reacted_to() {
        let woken = wakes(&[write(1, 1000), write(2, 1002), status(3, 1005, write(1, 1000))]);
        let (parent, links) = super::parent(&woken, &Reacted::default(), 1010 * SECOND, WINDOW);
        assert_eq!(parent, Parent::Remote(span(2)));
        assert_eq!(links, [span(1), span(3)]);
    }

    #[test]
    fn else_the_newest_cause() {
        let mut reacted = Reacted::default();
        reacted.note(&wakes(&[write(1, 1000)]));
        let woken = wakes(&[status(3, 1005, write(1, 1000)), status(4, 1006, write(1, 1000))]);
        let (parent, links) = super::parent(&woken, &reacted, 1010 * SECOND, WINDOW);
        assert_eq!(parent, Parent::Remote(span(4)));
        assert_eq!(links, [span(3)]);
    }

    #[test]
    fn an_old_cause_is_a_link_of_a_root() {
        let woken = wakes(&[write(1, 1000)]);
        let (parent, links) = super::parent(&woken, &Reacted::default(), 2000 * SECOND, WINDOW);
        assert_eq!(parent, Parent::Root);
        assert_eq!(links, [span(1)]);
    }

    #[test]
    fn what_nothing_caused_is_a_root() {
        let (parent, links) = super::parent(&Wakes::default(), &Reacted::default(), 0, WINDOW);
        assert_eq!((parent, links.len()), (Parent::Root, 0));
    }

    #[test]
    fn many_wakes_keep_the_newest() {
        let all: Vec<Cause> = (1..=40).map(|i| write(i, i64::from(i))).collect();
        let kept = wakes(&all);
        assert_eq!(kept.causes().len(), KEPT);
        assert_eq!(kept.causes().last(), Some(&write(40, 40)));
    }
}
