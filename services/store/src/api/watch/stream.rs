//! The task of one watch stream.
use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::broadcast::error::TryRecvError;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::MissedTickBehavior;
use tonic::{Status, Streaming};
use trireme_proto::etcdserverpb::watch_request::RequestUnion;
use trireme_proto::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};

use super::super::Api;
use super::watcher::{Watcher, fragments};
use crate::error::Error;
use crate::mvcc::Change;
use crate::raft::{Applied, View};

/// Revisions and bytes that go into one response.
const BATCH_REVISIONS: usize = 1000;
const BATCH_BYTES: usize = 1 << 20;
/// In a response: no watch.
const NO_WATCH: i64 = -1;

/// The client has gone.
struct Gone;

type Sent<T = ()> = Result<T, Gone>;
type Revision = (i64, Arc<[Change]>);

pub(super) struct WatchStream {
    api: Api,
    out: mpsc::Sender<Result<WatchResponse, Status>>,
    views: watch::Receiver<Arc<View>>,
    recent: broadcast::Receiver<Arc<Applied>>,
    /// All watches were shown everything up to this revision.
    position: i64,
    watchers: BTreeMap<i64, Watcher>,
    next_id: i64,
}

impl WatchStream {
    pub(super) fn new(api: Api, out: mpsc::Sender<Result<WatchResponse, Status>>) -> Self {
        let outlet = api.node.outlet();
        // Subscribed before the view is taken: no revision can fall between the two.
        let (recent, views) = (outlet.recent.subscribe(), outlet.views.clone());
        let position = views.borrow().state.revision;
        Self { api, out, views, recent, position, watchers: BTreeMap::new(), next_id: 0 }
    }

    /// Runs until the client goes or the store ends.
    pub(super) async fn run(mut self, mut requests: Streaming<WatchRequest>) {
        metrics::gauge!("etcd_debugging_mvcc_watch_stream_total").increment(1.0);
        let _ = self.serve(&mut requests).await;
        metrics::gauge!("etcd_debugging_mvcc_watch_stream_total").decrement(1.0);
        metrics::gauge!("etcd_debugging_mvcc_watcher_total").decrement(self.watchers.len() as f64);
    }

    async fn serve(&mut self, requests: &mut Streaming<WatchRequest>) -> Sent {
        let mut ticks = tokio::time::interval(self.api.settings.progress_interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        let out = self.out.clone();
        let mut open = true;
        loop {
            tokio::select! {
                request = requests.message(), if open => match request {
                    Ok(Some(request)) => self.take(request).await?,
                    // The client says no more, but may still listen.
                    Ok(None) => open = false,
                    Err(_) => return Ok(()),
                },
                changed = self.views.changed() => {
                    changed.map_err(|_| Gone)?;
                    self.advance().await?;
                }
                _ = ticks.tick() => self.tell_progress().await?,
                () = out.closed() => return Ok(()),
            }
        }
    }

    async fn take(&mut self, request: WatchRequest) -> Sent {
        match request.request_union {
            Some(RequestUnion::CreateRequest(create)) => self.create(create).await,
            Some(RequestUnion::CancelRequest(cancel)) => self.cancel(cancel.watch_id).await,
            Some(RequestUnion::ProgressRequest(_)) => {
                self.advance().await?;
                if self.watchers.is_empty() {
                    return Ok(());
                }
                self.send(WatchResponse { watch_id: NO_WATCH, ..self.response(self.position) }).await
            }
            None => Ok(()),
        }
    }

    async fn create(&mut self, request: WatchCreateRequest) -> Sent {
        let view = self.advance().await?;
        let current = view.state.revision;
        let created = WatchResponse { created: true, ..self.response(current) };
        let refused = |reason: String| WatchResponse {
            watch_id: NO_WATCH,
            canceled: true,
            cancel_reason: reason,
            ..created.clone()
        };
        if request.start_revision < 0 {
            return self.send(refused(Error::Compacted.to_string())).await;
        }
        let from = if request.start_revision == 0 { current + 1 } else { request.start_revision };
        let Some(watcher) = Watcher::new(&request, from) else {
            return self.send(refused("mvcc: watcher range is empty".into())).await;
        };
        if request.watch_id != 0 && self.watchers.contains_key(&request.watch_id) {
            return self.send(refused("mvcc: duplicate watch ID provided on the WatchStream".into())).await;
        }
        let id = if request.watch_id == 0 { self.free_id() } else { request.watch_id };
        self.send(WatchResponse { watch_id: id, ..created }).await?;
        if from < view.state.compacted {
            return self.send(compacted(id, self.response(0), view.state.compacted)).await;
        }
        self.watchers.insert(id, watcher);
        metrics::gauge!("etcd_debugging_mvcc_watcher_total").increment(1.0);
        let mut past = Batch::default();
        for (revision, changes) in view.state.changes_from(from) {
            if past.add(revision, changes) {
                self.show(id, &past.take(), view.state.compacted).await?;
            }
        }
        self.show(id, &past.take(), view.state.compacted).await
    }

    fn free_id(&mut self) -> i64 {
        while self.watchers.contains_key(&self.next_id) {
            self.next_id += 1;
        }
        self.next_id += 1;
        self.next_id - 1
    }

    async fn cancel(&mut self, id: i64) -> Sent {
        let view = self.advance().await?;
        if self.watchers.remove(&id).is_none() {
            return Ok(());
        }
        metrics::gauge!("etcd_debugging_mvcc_watcher_total").decrement(1.0);
        self.send(WatchResponse { watch_id: id, canceled: true, ..self.response(view.state.revision) }).await
    }

    /// Shows all watches what is new up to the newest view; answers that view.
    async fn advance(&mut self) -> Sent<Arc<View>> {
        let view = self.views.borrow_and_update().clone();
        let mut batch = Batch::default();
        while self.position < view.state.revision {
            match self.recent.try_recv() {
                Ok(applied) if applied.revision <= self.position => continue,
                Ok(applied) if applied.revision == self.position + 1 => {
                    self.position = applied.revision;
                    if batch.add(applied.revision, &applied.changes) {
                        self.show_all(&batch.take()).await?;
                    }
                }
                Err(TryRecvError::Closed) => return Err(Gone),
                // Missed some: they are in the view.
                Ok(_) | Err(TryRecvError::Lagged(_) | TryRecvError::Empty) => {
                    self.show_all(&batch.take()).await?;
                    self.catch_up(&view).await?;
                }
            }
        }
        self.show_all(&batch.take()).await?;
        Ok(view)
    }

    async fn catch_up(&mut self, view: &View) -> Sent {
        if self.position + 1 < view.state.first_logged() {
            self.give_up(view).await?;
        }
        let mut batch = Batch::default();
        for (revision, changes) in view.state.changes_from(self.position + 1) {
            self.position = revision;
            if batch.add(revision, changes) {
                self.show_all(&batch.take()).await?;
            }
        }
        self.position = view.state.revision;
        self.show_all(&batch.take()).await
    }

    /// What some watches wait for is compacted: they end. The others go on where the changes begin.
    async fn give_up(&mut self, view: &View) -> Sent {
        let first = view.state.first_logged();
        self.position = first - 1;
        let ended: Vec<i64> = self.watchers.iter().filter(|(_, w)| w.from < first).map(|(id, _)| *id).collect();
        for id in ended {
            self.watchers.remove(&id);
            metrics::gauge!("etcd_debugging_mvcc_watcher_total").decrement(1.0);
            self.send(compacted(id, self.response(0), view.state.compacted)).await?;
        }
        Ok(())
    }

    async fn show_all(&mut self, revisions: &[Revision]) -> Sent {
        if revisions.is_empty() {
            return Ok(());
        }
        for id in self.watchers.keys().copied().collect::<Vec<_>>() {
            self.show(id, revisions, i64::MIN).await?;
        }
        Ok(())
    }

    async fn show(&mut self, id: i64, revisions: &[Revision], stripped: i64) -> Sent {
        let (Some(watcher), Some((last, _))) = (self.watchers.get_mut(&id), revisions.last()) else { return Ok(()) };
        let events = watcher.events(revisions, stripped);
        if events.is_empty() {
            return Ok(());
        }
        watcher.idle = false;
        let fragment = watcher.fragment;
        metrics::counter!("etcd_debugging_mvcc_events_total").increment(events.len() as u64);
        let response = WatchResponse { watch_id: id, events, ..self.response(*last) };
        for part in if fragment { fragments(response) } else { vec![response] } {
            self.send(part).await?;
        }
        Ok(())
    }

    async fn tell_progress(&mut self) -> Sent {
        self.advance().await?;
        let mut quiet = Vec::new();
        for (id, watcher) in &mut self.watchers {
            if watcher.progress && watcher.idle {
                quiet.push(*id);
            }
            watcher.idle = true;
        }
        for id in quiet {
            self.send(WatchResponse { watch_id: id, ..self.response(self.position) }).await?;
        }
        Ok(())
    }

    fn response(&self, revision: i64) -> WatchResponse {
        WatchResponse { header: self.api.header(revision), ..Default::default() }
    }

    async fn send(&self, response: WatchResponse) -> Sent {
        self.out.send(Ok(response)).await.map_err(|_| Gone)
    }
}

fn compacted(id: i64, response: WatchResponse, revision: i64) -> WatchResponse {
    WatchResponse { watch_id: id, canceled: true, compact_revision: revision, ..response }
}

/// Whole revisions, gathered until they are worth a response.
#[derive(Default)]
struct Batch {
    revisions: Vec<Revision>,
    bytes: usize,
}

impl Batch {
    /// Adds one; answers whether it is enough.
    fn add(&mut self, revision: i64, changes: &Arc<[Change]>) -> bool {
        self.bytes += changes.iter().map(|c| c.version.size()).sum::<usize>();
        self.revisions.push((revision, changes.clone()));
        self.bytes >= BATCH_BYTES || self.revisions.len() >= BATCH_REVISIONS
    }

    fn take(&mut self) -> Vec<Revision> {
        self.bytes = 0;
        std::mem::take(&mut self.revisions)
    }
}
