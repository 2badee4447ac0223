//! Informers: a copy of the objects of a selection that follows the API server.
//!
//! One task writes (list, then watch, then list again when the server has forgotten where the watch stood); any number
//! of readers look at immutable snapshots, and subscribers get each change once and in order, with the cause of the
//! version and its revision. Whoever subscribes later first gets what is there as additions; whoever is far behind gets
//! the difference ([`Subscription`]).

mod follow;
mod snapshot;
mod store;
mod subscription;

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use trireme_telemetry::Cause;

use crate::client::Client;
use crate::key::ObjectKey;
use crate::object::{ApiResource, Known, Object};
use crate::params::ListParams;
use crate::tasks::Tasks;

pub use snapshot::{Entry, IndexFn};
pub use store::Store;
pub use subscription::Subscription;

/// What happened to an object.
#[derive(Debug, Clone)]
pub enum Change<K> {
    /// It is new in the selection.
    Added(Arc<K>),
    /// It changed.
    Updated {
        /// As it was.
        old: Arc<K>,
        /// As it is.
        new: Arc<K>,
    },
    /// It is gone, or out of the selection; its last state.
    Deleted(Arc<K>),
}

impl<K> Change<K> {
    /// The newest state of the object.
    #[must_use]
    pub fn object(&self) -> &Arc<K> {
        match self {
            Change::Added(object) | Change::Deleted(object) | Change::Updated { new: object, .. } => object,
        }
    }
}

/// A change with what caused it.
#[derive(Debug, Clone)]
pub struct Event<K> {
    /// What happened.
    pub change: Change<K>,
    /// The trace of the write; empty where nobody knows (a deletion that was found by listing).
    pub cause: Cause,
    /// The revision of the write.
    pub revision: i64,
    /// It was there when the subscription began or the informer listed first.
    pub initial: bool,
}

/// Questions that wait for the informer's task; whoever asks more waits until there is room.
const QUESTIONS: usize = 256;

/// Those who want to subscribe, until the task takes them up.
type Newcomers<K> = Arc<Mutex<Vec<subscription::Feed<K>>>>;

enum Command {
    /// There are newcomers.
    Welcome,
    /// Answers once every event up to the server's revision at the time of asking was handled.
    Refresh(oneshot::Sender<i64>),
    /// Answers once this revision was handled.
    Reach(i64, oneshot::Sender<()>),
}

/// Handle of an informer; the informer ends when the last one is dropped.
#[derive(Debug)]
pub struct Informer<K> {
    commands: mpsc::Sender<Command>,
    newcomers: Newcomers<K>,
    store: Store<K>,
    revision: watch::Receiver<i64>,
    resource: Arc<ApiResource>,
}

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self {
            commands: self.commands.clone(),
            newcomers: self.newcomers.clone(),
            store: self.store.clone(),
            revision: self.revision.clone(),
            resource: self.resource.clone(),
        }
    }
}

type Transform<K> = Arc<dyn Fn(&mut K) + Send + Sync>;

/// What an informer follows.
pub struct Builder<K> {
    client: Client,
    resource: ApiResource,
    namespace: String,
    selection: ListParams,
    metadata_only: bool,
    fleeting: bool,
    indexes: Vec<(&'static str, IndexFn<K>)>,
    transform: Option<Transform<K>>,
}

impl<K: Known> Informer<K> {
    /// Follows objects of a typed kind.
    #[must_use]
    pub fn builder(client: &Client) -> Builder<K> {
        Builder::new(client, K::resource())
    }
}

impl<K: Object> Builder<K> {
    fn new(client: &Client, resource: ApiResource) -> Self {
        Self {
            client: client.clone(),
            resource,
            namespace: String::new(),
            selection: ListParams::default(),
            metadata_only: false,
            fleeting: false,
            indexes: Vec::new(),
            transform: None,
        }
    }

    /// Only in this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Only with these labels.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.selection = self.selection.labels(selector);
        self
    }

    /// Only with these fields.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.selection = self.selection.fields(selector);
        self
    }

    /// Keeps objects findable by what `values` says about them.
    #[must_use]
    pub fn index(mut self, name: &'static str, values: impl Fn(&K) -> Vec<String> + Send + Sync + 'static) -> Self {
        self.indexes.push((name, Arc::new(values)));
        self
    }

    /// Changes each object before it is kept: to drop what is not looked at.
    #[must_use]
    pub fn transform(mut self, transform: impl Fn(&mut K) + Send + Sync + 'static) -> Self {
        self.transform = Some(Arc::new(transform));
        self
    }

    /// Asks the server for metadata only, where it can.
    #[must_use]
    pub fn metadata_only(mut self) -> Self {
        self.metadata_only = true;
        self
    }

    /// What is followed may go out of reach, as a Secret does for a node that has no Pod with it any more: a refusal after
    /// the first list is no news.
    #[must_use]
    pub fn fleeting(mut self) -> Self {
        self.fleeting = true;
        self
    }

    /// Starts to follow.
    #[must_use]
    pub fn start(self, tasks: &Tasks) -> Informer<K> {
        let (commands, receiver) = mpsc::channel(QUESTIONS);
        let newcomers = Newcomers::default();
        let (advance, revision) = watch::channel(follow::UNSYNCED);
        let store = Store::new(self.indexes.clone());
        let resource = Arc::new(self.resource.clone());
        tasks.spawn("informer", follow::run(self, store.clone(), receiver, newcomers.clone(), advance));
        Informer { commands, newcomers, store, revision, resource }
    }
}

impl<K: Object> Informer<K> {
    /// Follows objects of a resource known at run time (`DynObject` or `MetaObject`).
    #[must_use]
    pub fn dynamic(client: &Client, resource: &ApiResource) -> Builder<K> {
        Builder::new(client, resource.clone())
    }

    /// What it follows.
    #[must_use]
    pub fn resource(&self) -> &ApiResource {
        &self.resource
    }

    /// The objects.
    #[must_use]
    pub fn store(&self) -> Store<K> {
        self.store.clone()
    }

    /// Changes from now on, after an addition of everything that is there.
    #[must_use]
    pub fn subscribe(&self) -> Subscription<K> {
        let (feed, subscription) = subscription::pair();
        if self.commands.is_closed() {
            // The informer ended, and so has the subscription.
            return subscription;
        }
        self.newcomers.lock().push(feed);
        // Where there is no room for this, something else is on the way that makes the task look.
        let _ = self.commands.try_send(Command::Welcome);
        subscription
    }

    /// The first list is in the store.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        *self.revision.borrow() > follow::UNSYNCED
    }

    /// The revision up to which everything is in the store.
    #[must_use]
    pub fn revision(&self) -> i64 {
        *self.revision.borrow()
    }

    /// Waits until the first list is in the store.
    pub async fn synced(&self) {
        self.past(follow::UNSYNCED + 1).await;
    }

    /// Waits until everything up to this revision is in the store.
    pub async fn reached(&self, revision: i64) {
        if *self.revision.borrow() >= revision {
            return;
        }
        let (reply, answer) = oneshot::channel();
        let _ = self.commands.send(Command::Reach(revision, reply)).await;
        if answer.await.is_err() {
            // The informer ended: so does the component.
            std::future::pending::<()>().await;
        }
    }

    /// Waits until everything that was written before this call is in the store.
    pub async fn refresh(&self) -> i64 {
        let (reply, answer) = oneshot::channel();
        let _ = self.commands.send(Command::Refresh(reply)).await;
        match answer.await {
            Ok(revision) => revision,
            Err(_) => std::future::pending().await,
        }
    }

    /// Waits until the object at `key` is as `seen` wants it (it gets `None` when there is none).
    pub async fn until(&self, key: &ObjectKey, mut seen: impl FnMut(Option<&K>) -> bool) {
        let mut revision = self.revision.clone();
        loop {
            revision.mark_unchanged();
            if seen(self.store.get(key).as_deref()) {
                return;
            }
            if revision.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    async fn past(&self, revision: i64) {
        let mut receiver = self.revision.clone();
        if receiver.wait_for(|at| *at >= revision).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
