//! Claims: a worker's fenced hold on a shard of keys.
//!
//! Each worker has a Lease of its own that says it lives, renewed all the time; its identity is new at each start. A
//! shard has one claim record, a Lease in kube-system, written only when the claim moves: its revision is the epoch that
//! every write under the claim carries. A worker takes a claim over when the holder's Lease did not change for the
//! claim's duration, counted on its own monotonic clock and only over reads that are at most a quarter of it apart, so a
//! process that was frozen starts counting anew. The write that takes it over compares the claim and the other's Lease.
//!
//! Losing a claim pauses its holder, it ends nothing: the worker goes on trying to get it back. Whether a holder noticed
//! does not matter for safety, because the store refuses its writes.
//!
//! Against a foreign API server, which knows no fences, the same actor is a plain leader election by one Lease that its
//! holder renews.

mod actor;
mod observe;
mod record;

use std::time::Duration;

use tokio::sync::{mpsc, watch};
use trireme_machinery::shard::Range;
use uuid::Uuid;

use crate::client::Client;
use crate::clock::Clock;
use crate::context::Fence;
use crate::tasks::Tasks;

/// What is claimed and how.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Name of the claim record, a Lease in kube-system ("trireme-controllers-0").
    pub name: String,
    /// The shard.
    pub shard: u32,
    /// Which keys the record is about; written into the record, where the API server reads it to check writes.
    pub keys: Range,
    /// First part of the worker's identity, usually the host name.
    pub host: String,
    /// A holder that gave no sign for this long has lost it.
    pub duration: Duration,
    /// Time.
    pub clock: Clock,
}

impl Settings {
    /// A claim over one shard that is everything.
    #[must_use]
    pub fn single(name: impl Into<String>, host: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            shard: 0,
            keys: Range::EVERYTHING,
            host: host.into(),
            duration: Duration::from_secs(10),
            clock: Clock::system(),
        }
    }

    /// Over these keys only, the shard of this number.
    #[must_use]
    pub fn shard(mut self, shard: u32, keys: Range) -> Self {
        (self.shard, self.keys) = (shard, keys);
        self
    }

    /// With this duration.
    #[must_use]
    pub fn duration(mut self, duration: Duration) -> Self {
        self.duration = duration.max(Duration::from_millis(400));
        self
    }
}

/// A claim that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Revision of the claim record.
    pub epoch: i64,
}

/// Handle of a claim's actor.
#[derive(Debug, Clone)]
pub struct Claim {
    name: String,
    shard: u32,
    identity: String,
    state: watch::Receiver<Option<Held>>,
    doubts: mpsc::Sender<()>,
}

impl Claim {
    /// Starts to want the claim. It is given back when the tasks shut down.
    #[must_use]
    pub fn start(client: &Client, settings: Settings, tasks: &Tasks) -> Self {
        let identity = format!("{}_{}", settings.host, Uuid::new_v4());
        let (publish, state) = watch::channel(None);
        let (doubts, receiver) = mpsc::channel(1);
        let claim =
            Self { name: settings.name.clone(), shard: settings.shard, identity: identity.clone(), state, doubts };
        actor::start(client.clone(), settings, identity, publish, receiver, tasks);
        claim
    }

    /// Who this worker is.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The claim as it is held now.
    #[must_use]
    pub fn current(&self) -> Option<Held> {
        *self.state.borrow()
    }

    /// Waits until it is held.
    pub async fn held(&self) -> Held {
        let mut state = self.state.clone();
        let held = state.wait_for(Option::is_some).await.ok().and_then(|held| *held);
        match held {
            Some(held) => held,
            None => std::future::pending().await,
        }
    }

    /// Waits until it is not held in this epoch any more.
    pub async fn lost(&self, epoch: i64) {
        let mut state = self.state.clone();
        let _ = state.wait_for(|held| held.is_none_or(|h| h.epoch != epoch)).await;
    }

    /// The state as it changes.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Option<Held>> {
        self.state.clone()
    }

    /// The fence of a controller's writes for a key; `None`: not held.
    #[must_use]
    pub fn fence(&self, controller: &str, key: &str) -> Option<Fence> {
        self.current().map(|held| Fence {
            controller: controller.to_owned(),
            key: key.to_owned(),
            shard: self.shard,
            epoch: held.epoch,
            claim: self.name.clone(),
        })
    }

    /// A write was refused because the claim is lost: look at once.
    pub fn doubt(&self) {
        let _ = self.doubts.try_send(());
    }
}
