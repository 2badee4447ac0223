//! The judge of what arrives over the bus: pure, without clock or network.
//!
//! A reader joins at the revision it listed the store at, and from then on hands every message and head here, tells what
//! it read from the store itself ([`Sequence::advance`]) and what a read index answered ([`Sequence::expect`]). It is told
//! what to deliver, what to drop and what to read from the store, so that every revision is delivered once and in order
//! whatever the bus does.

use std::time::Duration;

use tokio::time::Instant;
use trireme_proto::store::v1::BusMessage;

use crate::Head;

/// How long one may be behind a head or a read index before the rest is read from the store.
pub const BEHIND: Duration = Duration::from_millis(100);
/// How long heads may stay away before the store's watch is followed instead.
pub const SILENCE: Duration = Duration::from_secs(1);

/// Where in the store's history a message belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position<'a> {
    /// The cluster.
    pub cluster_id: u64,
    /// New after a restore; revisions of two incarnations do not compare.
    pub incarnation: &'a str,
    /// The publishing leader's term.
    pub term: u64,
    /// The revision.
    pub revision: i64,
    /// The revision before it.
    pub previous: i64,
    /// The message is without its events.
    pub headers_only: bool,
}

/// What to do with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Deliver it: it is the next one.
    Deliver,
    /// Drop it: its revision was delivered.
    Known,
    /// Read the revisions `from` to `to`, both included, from the store, deliver them, [`Sequence::advance`] to `to`, and
    /// then judge the message again.
    Gap {
        /// The first one missing.
        from: i64,
        /// The last one missing.
        to: i64,
    },
    /// Drop it: it is of a leader that was replaced.
    StaleTerm,
    /// Drop it, and ask the store whether it was restored; if so, list anew and make a new [`Sequence`].
    OtherIncarnation,
    /// Drop it: it is of another cluster.
    OtherCluster,
}

/// What has become due with time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Behind for too long: as [`Verdict::Gap`].
    Gap {
        /// The first one missing.
        from: i64,
        /// The last one missing.
        to: i64,
    },
    /// No head for too long: follow the store's watch until [`Sequence::silent`] is over.
    Silent,
}

/// The state of one reader.
#[derive(Clone, Debug)]
pub struct Sequence {
    cluster_id: u64,
    incarnation: String,
    term: u64,
    delivered: i64,
    /// The oldest target that is not reached, and since when.
    behind: Option<(i64, Instant)>,
    /// The highest target, and since when.
    target: (i64, Instant),
    last_head: Instant,
    /// [`Missing::Silent`] was told for the present silence.
    silence_told: bool,
}

impl Sequence {
    /// A reader that has everything up to `revision` of this cluster and incarnation.
    #[must_use]
    pub fn new(cluster_id: u64, incarnation: impl Into<String>, revision: i64, now: Instant) -> Self {
        Self {
            cluster_id,
            incarnation: incarnation.into(),
            term: 0,
            delivered: revision,
            behind: None,
            target: (revision, now),
            last_head: now,
            silence_told: false,
        }
    }

    /// The newest revision delivered.
    #[must_use]
    pub fn revision(&self) -> i64 {
        self.delivered
    }

    /// The incarnation followed.
    #[must_use]
    pub fn incarnation(&self) -> &str {
        &self.incarnation
    }

    /// Judges a message. [`Verdict::Deliver`] counts it as delivered.
    pub fn message(&mut self, position: &Position<'_>, now: Instant) -> Verdict {
        if let Some(refusal) = self.refuse(position.cluster_id, position.incarnation, position.term) {
            return refusal;
        }
        if position.revision <= self.delivered {
            return Verdict::Known;
        }
        self.aim(position.revision, now);
        if position.headers_only {
            return Verdict::Gap { from: self.delivered + 1, to: position.revision };
        }
        if position.previous > self.delivered {
            return Verdict::Gap { from: self.delivered + 1, to: position.previous };
        }
        self.advance(position.revision);
        Verdict::Deliver
    }

    /// Judges a head: [`Verdict::Known`] when it counted, else why it did not. What it says is missing becomes due
    /// later, since the messages may still be on their way.
    pub fn head(&mut self, head: &Head, now: Instant) -> Verdict {
        if let Some(refusal) = self.refuse(head.cluster_id, &head.incarnation, head.term) {
            return refusal;
        }
        self.last_head = now;
        self.silence_told = false;
        self.aim(head.revision, now);
        Verdict::Known
    }

    /// The store has this revision, by a read index.
    pub fn expect(&mut self, revision: i64, now: Instant) {
        self.aim(revision, now);
    }

    /// Everything up to `revision` is delivered, from the store.
    pub fn advance(&mut self, revision: i64) {
        self.delivered = self.delivered.max(revision);
        if self.behind.is_some_and(|(target, _)| target <= self.delivered) {
            self.behind = (self.target.0 > self.delivered).then_some(self.target);
        }
    }

    /// What is due at `now`. A gap is told again when it is still there [`BEHIND`] later, a silence once.
    pub fn due(&mut self, now: Instant) -> Option<Missing> {
        if let Some((_, since)) = self.behind
            && now.duration_since(since) >= BEHIND
        {
            let to = self.target.0;
            self.behind = Some((to, now));
            return Some(Missing::Gap { from: self.delivered + 1, to });
        }
        if self.silent(now) && !self.silence_told {
            self.silence_told = true;
            return Some(Missing::Silent);
        }
        None
    }

    /// When [`Sequence::due`] has something to say at the latest, if nothing arrives; none while only a head can help.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let behind = self.behind.map(|(_, since)| since + BEHIND);
        let silence = (!self.silence_told).then(|| self.last_head + SILENCE);
        behind.into_iter().chain(silence).min()
    }

    /// No head for [`SILENCE`].
    #[must_use]
    pub fn silent(&self, now: Instant) -> bool {
        now.duration_since(self.last_head) >= SILENCE
    }

    fn refuse(&mut self, cluster_id: u64, incarnation: &str, term: u64) -> Option<Verdict> {
        if cluster_id != self.cluster_id {
            return Some(Verdict::OtherCluster);
        }
        if incarnation != self.incarnation {
            return Some(Verdict::OtherIncarnation);
        }
        if term < self.term {
            return Some(Verdict::StaleTerm);
        }
        self.term = term;
        None
    }

    fn aim(&mut self, revision: i64, now: Instant) {
        if revision > self.target.0 {
            self.target = (revision, now);
        }
        if self.behind.is_none() && revision > self.delivered {
            self.behind = Some((revision, now));
        }
    }
}

impl<'a> From<&'a BusMessage> for Position<'a> {
    fn from(message: &'a BusMessage) -> Self {
        Self {
            cluster_id: message.cluster_id,
            incarnation: &message.incarnation,
            term: message.term,
            revision: message.revision,
            previous: message.previous_revision,
            headers_only: message.headers_only,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(term: u64, previous: i64, revision: i64) -> Position<'static> {
        Position { cluster_id: 1, incarnation: "a", term, revision, previous, headers_only: false }
    }

    fn head(term: u64, revision: i64) -> Head {
        Head { cluster_id: 1, incarnation: "a".to_owned(), term, revision }
    }

    fn joined(revision: i64) -> (Sequence, Instant) {
        let now = Instant::now();
        (Sequence::new(1, "a", revision, now), now)
    }

    #[test]
    fn the_next_one_is_delivered_and_an_old_one_dropped() {
        let (mut seq, now) = joined(10);
        assert_eq!(seq.message(&at(1, 8, 9), now), Verdict::Known);
        assert_eq!(seq.message(&at(1, 10, 11), now), Verdict::Deliver);
        assert_eq!(seq.message(&at(1, 10, 11), now), Verdict::Known);
        // Revisions need not be consecutive; only the one before counts.
        assert_eq!(seq.message(&at(1, 11, 15), now), Verdict::Deliver);
        assert_eq!(seq.revision(), 15);
    }

    #[test]
    fn a_jump_is_read_from_the_store() {
        let (mut seq, now) = joined(10);
        assert_eq!(seq.message(&at(1, 12, 13), now), Verdict::Gap { from: 11, to: 12 });
        seq.advance(12);
        assert_eq!(seq.message(&at(1, 12, 13), now), Verdict::Deliver);
        // The one that was overtaken comes too late.
        assert_eq!(seq.message(&at(1, 11, 12), now), Verdict::Known);
    }

    #[test]
    fn a_message_without_events_is_a_gap() {
        let (mut seq, now) = joined(10);
        let large = Position { headers_only: true, ..at(1, 10, 11) };
        assert_eq!(seq.message(&large, now), Verdict::Gap { from: 11, to: 11 });
        seq.advance(11);
        assert_eq!(seq.message(&large, now), Verdict::Known);
    }

    #[test]
    fn lower_terms_other_incarnations_and_other_clusters_are_dropped() {
        let (mut seq, now) = joined(10);
        assert_eq!(seq.head(&head(3, 10), now), Verdict::Known);
        assert_eq!(seq.message(&at(2, 10, 11), now), Verdict::StaleTerm);
        assert_eq!(seq.head(&head(2, 99), now), Verdict::StaleTerm);
        assert_eq!(seq.message(&Position { incarnation: "b", ..at(9, 10, 11) }, now), Verdict::OtherIncarnation);
        assert_eq!(seq.message(&Position { cluster_id: 2, ..at(9, 10, 11) }, now), Verdict::OtherCluster);
        // None of them moved the term or the target.
        assert_eq!(seq.message(&at(3, 10, 11), now), Verdict::Deliver);
        assert_eq!(seq.due(now + BEHIND), None);
    }

    #[test]
    fn being_behind_a_head_becomes_due() {
        let (mut seq, now) = joined(10);
        seq.head(&head(1, 12), now);
        assert_eq!(seq.due(now + BEHIND / 2), None);
        assert_eq!(seq.deadline(), Some(now + BEHIND));
        // A newer head does not postpone it.
        seq.head(&head(1, 14), now + BEHIND / 2);
        assert_eq!(seq.due(now + BEHIND), Some(Missing::Gap { from: 11, to: 14 }));
        assert_eq!(seq.due(now + BEHIND), None);
        seq.advance(14);
        assert_eq!(seq.due(now + 3 * BEHIND), None);
    }

    #[test]
    fn catching_up_in_time_is_no_gap() {
        let (mut seq, now) = joined(10);
        seq.head(&head(1, 11), now);
        seq.head(&head(1, 12), now + BEHIND / 2);
        assert_eq!(seq.message(&at(1, 10, 11), now + BEHIND / 2), Verdict::Deliver);
        // Behind 12 only since its own head.
        assert_eq!(seq.due(now + BEHIND), None);
        assert_eq!(seq.deadline(), Some(now + BEHIND / 2 + BEHIND));
        assert_eq!(seq.message(&at(1, 11, 12), now + BEHIND), Verdict::Deliver);
        assert_eq!(seq.deadline(), Some(now + BEHIND / 2 + SILENCE));
    }

    #[test]
    fn a_read_index_counts_like_a_head_but_does_not_end_silence() {
        let (mut seq, now) = joined(10);
        seq.expect(11, now);
        assert_eq!(seq.due(now + BEHIND), Some(Missing::Gap { from: 11, to: 11 }));
        seq.advance(11);
        assert_eq!(seq.due(now + SILENCE), Some(Missing::Silent));
        assert_eq!(seq.due(now + 2 * SILENCE), None);
        assert_eq!(seq.deadline(), None);
        seq.head(&head(1, 11), now + 3 * SILENCE);
        assert!(!seq.silent(now + 3 * SILENCE));
        assert_eq!(seq.due(now + 4 * SILENCE), Some(Missing::Silent));
    }

    /// What the network does with one message.
    #[derive(Clone, Debug)]
    enum Fate {
        Arrives,
        Lost,
        Doubled,
        Late(usize),
    }

    fn fate() -> impl Strategy<Value = Fate> {
        prop_oneof![
            4 => Just(Fate::Arrives),
            1 => Just(Fate::Lost),
            1 => Just(Fate::Doubled),
            1 => (1usize..6).prop_map(Fate::Late),
        ]
    }

    proptest! {
        /// Whatever is lost, doubled or late, each revision is delivered once and in order, and all of them after a head.
        #[test]
        fn each_revision_once_and_in_order(
            steps in prop::collection::vec((1i64..4, fate(), any::<bool>(), 0u64..2), 1..60),
        ) {
            // The store's history: revisions with gaps, in rising terms.
            let mut history = Vec::new();
            let (mut revision, mut term) = (10, 1);
            let mut arrivals: Vec<(usize, Position<'static>)> = Vec::new();
            for (index, (jump, fate, headers_only, later_term)) in steps.iter().enumerate() {
                let previous = revision;
                revision += jump;
                term += later_term;
                history.push(revision);
                let position = Position { headers_only: *headers_only, ..at(term, previous, revision) };
                match fate {
                    Fate::Arrives => arrivals.push((index, position)),
                    Fate::Lost => {}
                    Fate::Doubled => arrivals.extend([(index, position), (index + 3, position)]),
                    Fate::Late(by) => arrivals.push((index + by, position)),
                }
            }
            arrivals.sort_by_key(|(when, _)| *when);

            let (mut seq, now) = joined(10);
            let mut delivered = Vec::new();
            let read = |seq: &mut Sequence, delivered: &mut Vec<i64>, from: i64, to: i64| {
                delivered.extend(history.iter().copied().filter(|r| (from..=to).contains(r)));
                seq.advance(to);
            };
            for (_, position) in arrivals {
                loop {
                    match seq.message(&position, now) {
                        Verdict::Deliver => { delivered.push(position.revision); break }
                        Verdict::Gap { from, to } => read(&mut seq, &mut delivered, from, to),
                        Verdict::Known | Verdict::StaleTerm => break,
                        other => panic!("{other:?}"),
                    }
                }
            }
            seq.head(&head(term, revision), now);
            if let Some(Missing::Gap { from, to }) = seq.due(now + BEHIND) {
                read(&mut seq, &mut delivered, from, to);
            }
            prop_assert_eq!(delivered, history);
        }
    }
}
