//! The actor of a claim: one task that renews, watches, takes over and gives back.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::observe::Silence;
use super::record::{self, NAMESPACE};
use super::{Held, Settings};
use crate::api::Api;
use crate::client::Client;
use crate::context::{self, Fence};
use crate::error::Error;
use crate::object::Object;
use crate::params::{DeleteParams, PostParams};
use crate::tasks::Tasks;

struct Actor {
    client: Client,
    leases: Api<Lease>,
    settings: Settings,
    identity: String,
    state: watch::Sender<Option<Held>>,
    /// The worker's own Lease as last written.
    own: Option<Lease>,
    /// The claim record as last read or written while held.
    record: Option<Lease>,
    /// When the last sign of life that arrived was sent.
    renewed: Instant,
    silence: Silence,
}

pub(super) fn start(
    client: Client,
    settings: Settings,
    identity: String,
    state: watch::Sender<Option<Held>>,
    doubts: mpsc::Receiver<()>,
    tasks: &Tasks,
) {
    let actor = Actor {
        leases: client.namespaced(NAMESPACE),
        client,
        settings,
        identity,
        state,
        own: None,
        record: None,
        renewed: Instant::now(),
        silence: Silence::default(),
    };
    let token = tasks.token().clone();
    // Not under `run_until_cancelled`: at shutdown the claim is given back, so that the next worker need not wait.
    tasks.spawn_to_end("claim", context::untraced(actor.run(token, doubts)));
}

impl Actor {
    fn interval(&self) -> Duration {
        self.settings.duration / 5
    }

    /// A holder that gave no sign of life for this long stops by itself, well before another may take over.
    fn patience(&self) -> Duration {
        self.settings.duration * 2 / 3
    }

    async fn run(mut self, shutdown: tokio_util::sync::CancellationToken, mut doubts: mpsc::Receiver<()>) {
        let mut ticks = tokio::time::interval(self.interval());
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                _ = ticks.tick() => {}
                Some(()) = doubts.recv() => {}
            }
            let limit = self.interval().max(Duration::from_millis(500));
            let name = self.settings.name.clone();
            match tokio::time::timeout(limit, self.round()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(claim = name, %error, "no round of the claim"),
                Err(_) => tracing::debug!(claim = name, "a round of the claim took too long"),
            }
            if self.state.borrow().is_some() && self.renewed.elapsed() > self.patience() {
                self.lose("no sign of life could be given");
            }
        }
        let limit = Duration::from_secs(2);
        if tokio::time::timeout(limit, self.give_back()).await.is_err() {
            tracing::debug!(claim = self.settings.name, "the claim could not be given back in time");
        }
    }

    async fn round(&mut self) -> Result<(), Error> {
        if self.client.fences() {
            self.live().await?;
            self.look().await
        } else {
            self.elect().await
        }
    }

    // --- with fences: a Lease that says the worker lives, a record that moves

    /// Gives a sign of life.
    async fn live(&mut self) -> Result<(), Error> {
        let sent = Instant::now();
        let mut lease = record::worker_lease(&self.identity, self.settings.duration, self.settings.clock.now());
        let written = match &self.own {
            Some(own) => {
                lease.metadata.resource_version = own.metadata.resource_version.clone();
                lease.metadata.uid = own.metadata.uid.clone();
                self.leases.update(&PostParams::default(), &lease).await
            }
            None => self.leases.create(&PostParams::default(), &lease).await,
        };
        match written {
            Ok(lease) => {
                self.own = Some(lease);
                self.renewed = sent;
                Ok(())
            }
            Err(error) if error.is_conflict() || error.is_already_exists() || error.is_not_found() => {
                // An answer was lost, or somebody took this worker for gone and tidied its Lease away.
                self.own = self.leases.get_opt(&record::worker_lease_name(&self.identity)).await?;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Looks at the claim record, and takes it if it is free.
    async fn look(&mut self) -> Result<(), Error> {
        let asked = Instant::now();
        let record = self.leases.get_opt(&self.settings.name).await?;
        let Some(holder) = record::holder(record.as_ref()).map(str::to_owned) else {
            self.lose("nobody holds it");
            return self.take(record, None).await;
        };
        if holder == self.identity {
            let epoch = record.as_ref().map_or(0, Object::revision);
            self.hold(record, epoch);
            return Ok(());
        }
        self.lose("another worker holds it");
        let lease = self.leases.get_opt(&record::worker_lease_name(&holder)).await?;
        let revision = lease.as_ref().map_or(0, Object::revision);
        let silent = self.silence.read(&holder, revision, asked, Instant::now(), self.settings.duration);
        if silent < self.settings.duration {
            return Ok(());
        }
        tracing::info!(claim = self.settings.name, holder, silent = ?silent, "the holder is silent, taking its claim over");
        self.silence.reset();
        let others = record::worker_lease_name(&holder);
        self.take(
            record,
            Some(Fence {
                controller: "claims".into(),
                key: format!("{NAMESPACE}/{}", self.settings.name),
                shard: self.settings.shard,
                // 0: it has no Lease, and must not get one meanwhile.
                epoch: revision,
                claim: others.clone(),
            }),
        )
        .await?;
        if let Some(lease) = lease {
            // Tidy: nobody reads it any more.
            let _ = self.leases.delete(&others, &DeleteParams::uid(lease.uid())).await;
        }
        Ok(())
    }

    /// Writes this worker into the record, if the record (and the other's Lease) are still what was read.
    async fn take(&mut self, before: Option<Lease>, compare: Option<Fence>) -> Result<(), Error> {
        let now = self.settings.clock.now();
        let Settings { name, keys, duration, .. } = &self.settings;
        let record = record::claim_record(before.as_ref(), name, *keys, &self.identity, *duration, now);
        let params = PostParams::default();
        let write = async {
            match &before {
                Some(_) => self.leases.update(&params, &record).await,
                None => self.leases.create(&params, &record).await,
            }
        };
        let written = match compare {
            Some(fence) => context::fenced(fence, context::untraced(write)).await,
            None => write.await,
        };
        let written = written?;
        let epoch = written.revision();
        tracing::info!(claim = self.settings.name, identity = self.identity, epoch, "the claim is held");
        self.hold(Some(written), epoch);
        Ok(())
    }

    // --- without fences: one Lease that its holder renews

    async fn elect(&mut self) -> Result<(), Error> {
        let asked = Instant::now();
        let record = self.leases.get_opt(&self.settings.name).await?;
        match record::holder(record.as_ref()).map(str::to_owned) {
            Some(holder) if holder != self.identity => {
                self.lose("another worker holds it");
                let revision = record.as_ref().map_or(0, Object::revision);
                let silent = self.silence.read(&holder, revision, asked, Instant::now(), self.settings.duration);
                if silent < self.settings.duration {
                    return Ok(());
                }
                self.silence.reset();
            }
            _ => {}
        }
        let now = self.settings.clock.now();
        let Settings { name, keys, duration, .. } = &self.settings;
        let next = record::claim_record(record.as_ref(), name, *keys, &self.identity, *duration, now);
        let written = match record {
            Some(_) => self.leases.update(&PostParams::default(), &next).await?,
            None => self.leases.create(&PostParams::default(), &next).await?,
        };
        self.renewed = asked;
        // The record changes with each renewal: the epoch is that of the first.
        let epoch = self.state.borrow().map_or_else(|| written.revision(), |held| held.epoch);
        if self.state.borrow().is_none() {
            tracing::info!(claim = self.settings.name, identity = self.identity, "leading");
        }
        self.hold(Some(written), epoch);
        Ok(())
    }

    // --- both

    fn hold(&mut self, record: Option<Lease>, epoch: i64) {
        self.record = record;
        self.state.send_if_modified(|state| {
            let held = Some(Held { epoch });
            let changed = *state != held;
            *state = held;
            changed
        });
    }

    fn lose(&mut self, why: &str) {
        self.record = None;
        if self.state.send_replace(None).is_some() {
            tracing::warn!(claim = self.settings.name, why, "the claim is lost, pausing");
        }
    }

    async fn give_back(&mut self) {
        let record = self.record.take();
        self.state.send_replace(None);
        if let Some(record) = record {
            let released = record::released(&record, self.settings.clock.now());
            let _ = self.leases.update(&PostParams::default(), &released).await;
        }
        if let Some(own) = self.own.take() {
            let name = own.metadata.name.clone().unwrap_or_default();
            let _ = self.leases.delete(&name, &DeleteParams::uid(own.uid())).await;
        }
    }
}
