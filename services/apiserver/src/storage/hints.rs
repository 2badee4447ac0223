//! The feed of the watch cache out of the bus: what the store's leader publishes, with every gap read from the store.
//!
//! The bus is a hint: what is lost, late, doubled or of another time is found by [`Sequence`]. While the leader's heads
//! stay away, the store's own Watch is followed.

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tonic::Code;
use trireme_bus::{Bus, Hint, Missing, Position, Sequence, Subscriber, Verdict};
use trireme_proto::store::v1::{ReadIndexRequest, ReadIndexResponse};

use super::Client;
use super::client::Member;
use super::follow::{self, Feed, PATIENCE, Pause, stopped};
use crate::error::Error;

/// What the follower needs.
pub struct Follower {
    /// The store.
    pub client: Client,
    /// The bus.
    pub bus: Bus,
    /// What all keys begin with.
    pub root: String,
    /// The cache.
    pub feed: mpsc::Sender<Feed>,
    /// The newest revision that a reader has to see.
    pub expected: watch::Receiver<i64>,
}

/// Why a following ended.
enum End {
    /// The store has compacted what was not seen, or was restored: everything is listed anew.
    Anew,
    /// The store is a stock etcd, which publishes nothing.
    Foreign,
}

// === impl Follower ===

impl Follower {
    /// Feeds for ever. Ends when nobody takes the feed any more.
    pub async fn run(mut self) {
        let mut pause = Pause::default();
        loop {
            match self.follow().await {
                Ok(End::Anew) => pause = Pause::default(),
                Ok(End::Foreign) => return follow::run(self.client, self.root, self.feed).await,
                Err(Error::Stopped(_)) => return,
                Err(Error::Compacted) => {
                    tracing::warn!("the store has compacted what was not yet seen; listing again");
                }
                Err(error) => {
                    tracing::warn!(%error, "following the store failed; trying again");
                    self.client.give_up();
                    pause.wait().await;
                }
            }
        }
    }

    async fn follow(&mut self) -> Result<End, Error> {
        let Some(store) = self.ask().await? else { return Ok(End::Foreign) };
        let mut hints = self.bus.subscribe(store.cluster_id).await?;
        let listed = follow::list(&self.client, &self.root, &self.feed).await?;
        let mut sequence = Sequence::new(store.cluster_id, store.incarnation, listed.revision, Instant::now());
        self.catch_up(&mut sequence, listed.target).await?;
        loop {
            let due = sequence.deadline();
            let hint = tokio::select! {
                hint = hints.next() => hint,
                () = sleep_until(due.unwrap_or_else(|| Instant::now() + PATIENCE)) => {
                    match sequence.due(Instant::now()) {
                        Some(Missing::Gap { to, .. }) => self.catch_up(&mut sequence, to).await?,
                        Some(Missing::Silent) => if let Some(end) = self.silence(&mut sequence, &mut hints).await? {
                            return Ok(end);
                        },
                        None => {}
                    }
                    continue;
                }
                changed = self.expected.changed() => {
                    changed.map_err(|_| stopped())?;
                    let expected = *self.expected.borrow_and_update();
                    sequence.expect(expected, Instant::now());
                    continue;
                }
                () = self.feed.closed() => return Err(stopped()),
            };
            if self.hear(&mut sequence, hint).await? {
                return Ok(End::Anew);
            }
        }
    }

    /// Takes a hint. Answers whether the store was restored.
    async fn hear(&self, sequence: &mut Sequence, hint: Hint) -> Result<bool, Error> {
        let message = match hint {
            Hint::Interrupted => return Ok(false),
            Hint::Head(head) => {
                return match sequence.head(&head, Instant::now()) {
                    Verdict::OtherIncarnation => self.restored(sequence).await,
                    _ => Ok(false),
                };
            }
            Hint::Revision { message, .. } => message,
        };
        loop {
            match sequence.message(&Position::from(&message), Instant::now()) {
                Verdict::Deliver => {
                    let step = Feed::Revision { revision: message.revision, events: message.events };
                    self.feed.send(step).await.map_err(|_| stopped())?;
                    return Ok(false);
                }
                Verdict::Gap { to, .. } => {
                    metrics::counter!("apiserver_bus_gaps_total").increment(1);
                    self.catch_up(sequence, to).await?;
                }
                Verdict::OtherIncarnation => return self.restored(sequence).await,
                Verdict::Known | Verdict::StaleTerm | Verdict::OtherCluster => return Ok(false),
            }
        }
    }

    /// Reads what is missing up to `to` from the store.
    async fn catch_up(&self, sequence: &mut Sequence, to: i64) -> Result<(), Error> {
        let mut last = sequence.revision();
        let mut pause = Pause::default();
        while last < to {
            match follow::watch(&self.client, &mut last, to, &self.feed).await {
                Ok(()) => {}
                Err(error @ (Error::Compacted | Error::Stopped(_))) => return Err(error),
                Err(error) => {
                    tracing::debug!(%error, "a gap can't be read yet");
                    self.client.give_up();
                    pause.wait().await;
                }
            }
            sequence.advance(last);
        }
        Ok(())
    }

    /// Follows the store's Watch until the leader's heads come again.
    async fn silence(&self, sequence: &mut Sequence, hints: &mut Subscriber) -> Result<Option<End>, Error> {
        tracing::debug!("no head on the bus: following the store's watch");
        let mut last = sequence.revision();
        let mut pause = Pause::default();
        loop {
            // A watch that is dropped has counted only what it handed on.
            let broken = {
                let watching = follow::watch(&self.client, &mut last, i64::MAX, &self.feed);
                tokio::pin!(watching);
                loop {
                    tokio::select! {
                        ended = &mut watching => break ended.err(),
                        hint = hints.next() => match hint {
                            Hint::Head(head) => {
                                let other = sequence.head(&head, Instant::now()) == Verdict::OtherIncarnation;
                                if other && self.restored(sequence).await? {
                                    return Ok(Some(End::Anew));
                                }
                            }
                            Hint::Revision { .. } | Hint::Interrupted => {}
                        },
                    }
                    if !sequence.silent(Instant::now()) {
                        break None;
                    }
                }
            };
            sequence.advance(last);
            match broken {
                None => return Ok(None),
                Some(error @ (Error::Compacted | Error::Stopped(_))) => return Err(error),
                Some(error) => {
                    tracing::debug!(%error, "the store's watch broke");
                    self.client.give_up();
                    pause.wait().await;
                }
            }
        }
    }

    async fn restored(&self, sequence: &Sequence) -> Result<bool, Error> {
        Ok(self.ask().await?.is_none_or(|store| store.incarnation != sequence.incarnation()))
    }

    /// Which cluster this is; None for a stock etcd.
    async fn ask(&self) -> Result<Option<ReadIndexResponse>, Error> {
        let asked = |mut member: Member| async move {
            match member.store.read_index(ReadIndexRequest {}).await {
                Ok(answer) => Ok(answer.map(Some)),
                Err(status) if status.code() == Code::Unimplemented => Ok(tonic::Response::new(None)),
                Err(status) => Err(status),
            }
        };
        Ok(self.client.call(Instant::now() + PATIENCE, asked).await?.answer)
    }
}
