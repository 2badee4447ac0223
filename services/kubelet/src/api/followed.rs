//! Single objects that Pods refer to, followed one by one: a node may not list all Secrets.
//!
//! One task owns the informers. An object is followed from the first time it is asked for until nobody has asked for a
//! few minutes; a Pod's worker asks at least once a minute.

use crate::error::{Error, Result};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use trireme_client::{Client, Informer, Known, ObjectKey, Tasks};

const IDLE: Duration = Duration::from_secs(300);
const PATIENCE: Duration = Duration::from_secs(10);

struct Ask<K> {
    key: ObjectKey,
    answer: oneshot::Sender<Informer<K>>,
}

/// Objects of one kind, by name.
#[derive(Clone)]
pub(super) struct Followed<K> {
    asks: mpsc::Sender<Ask<K>>,
    what: &'static str,
}

impl<K: Known> Followed<K> {
    pub(super) fn start(client: &Client, tasks: &Tasks, what: &'static str) -> Self {
        let (asks, receiver) = mpsc::channel(64);
        let owner = Owner { client: client.clone(), tasks: tasks.clone(), informers: HashMap::new() };
        tasks.spawn("followed objects", owner.run(receiver));
        Self { asks, what }
    }

    pub(super) async fn get(&self, namespace: &str, name: &str) -> Result<Arc<K>> {
        let (answer, informer) = oneshot::channel();
        let ask = Ask { key: ObjectKey::new(namespace, name), answer };
        let ended = || Error::Api(format!("{} cache: the kubelet is ending", self.what));
        self.asks.send(ask).await.map_err(|_| ended())?;
        let informer = informer.await.map_err(|_| ended())?;
        tokio::time::timeout(PATIENCE, informer.synced()).await.map_err(|_| {
            Error::Api(format!("failed to sync {} cache: timed out waiting for the condition", self.what))
        })?;
        let found = informer.store().find(namespace, name);
        found.ok_or_else(|| Error::NotFound(format!("{} \"{name}\" not found", self.what)))
    }
}

struct Owner<K> {
    client: Client,
    tasks: Tasks,
    informers: HashMap<ObjectKey, (Informer<K>, Instant)>,
}

impl<K: Known> Owner<K> {
    async fn run(mut self, mut asks: mpsc::Receiver<Ask<K>>) {
        let mut sweep = tokio::time::interval(IDLE / 5);
        loop {
            tokio::select! {
                ask = asks.recv() => {
                    let Some(Ask { key, answer }) = ask else { return };
                    // Whoever asked may have given up.
                    let _ = answer.send(self.follow(key));
                }
                _ = sweep.tick() => self.informers.retain(|_, (_, used)| used.elapsed() < IDLE),
            }
        }
    }

    fn follow(&mut self, key: ObjectKey) -> Informer<K> {
        let entry = self.informers.entry(key).or_insert_with_key(|key| {
            let informer = Informer::<K>::builder(&self.client)
                .namespace(key.namespace.clone())
                .fields(format!("metadata.name={}", key.name))
                .fleeting()
                .start(&self.tasks);
            (informer, Instant::now())
        });
        entry.1 = Instant::now();
        entry.0.clone()
    }
}
