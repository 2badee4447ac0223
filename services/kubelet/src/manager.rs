//! The actor that knows which Pods are to be on this node, and gives each to a worker.
//!
//! It alone decides what a Pod's worker is to want ([`Desired`]); workers alone touch the runtime. Once all sources have
//! been read, what the runtime has and no source knows is given to a worker too, which stops it.

use crate::admission;
use crate::cri::names;
use crate::host::Host;
use crate::mirror::{self, Mirrors, key};
use crate::pod::sync::Desired;
use crate::pod::view;
use crate::pod::worker::{self, Wake, Worker};
use actix::{Actor, ActorFutureExt as _, AsyncContext as _, Context, Handler, Message, MessageResult, WrapFuture as _};
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use trireme_service::actor::{self, Address, Limits};
use trireme_telemetry::Cause;

/// Every so often the manager looks for what nobody knows.
const HOUSEKEEPING: Duration = Duration::from_secs(2);
/// A Pod that is done here but still in the API after this time is tried again.
const LINGER: Duration = Duration::from_secs(30);

/// From the API server.
#[derive(Debug)]
pub enum FromApi {
    /// A Pod is new or changed.
    Pod {
        /// As it is now.
        pod: Arc<Pod>,
        /// Why.
        cause: Cause,
    },
    /// A Pod is gone.
    Gone {
        /// As it was.
        pod: Arc<Pod>,
        /// Why.
        cause: Cause,
    },
    /// All Pods of the first list have been told, or will be in a moment.
    Synced(Vec<Arc<Pod>>),
}

/// All static Pods.
#[derive(Debug)]
pub struct FromFiles(pub Vec<Arc<Pod>>);

/// Something changed in the runtime.
#[derive(Debug)]
pub struct FromRuntime(pub crate::pleg::Changed);

/// What the kubelet's port asks.
#[derive(Debug, Clone)]
pub enum Query {
    /// A Pod by name, and by uid if that is given.
    Find {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its uid.
        uid: Option<String>,
    },
    /// All Pods.
    All,
}

struct Farewell(String);
struct Orphans(HashMap<String, Pod>);

macro_rules! message {
    ($($type:ty => $result:ty),* $(,)?) => { $(impl Message for $type { type Result = $result; })* };
}
message!(FromApi => (), FromFiles => (), FromRuntime => (), Query => Vec<Arc<Pod>>, Farewell => (), Orphans => ());

struct Entry {
    desired: watch::Sender<Desired>,
    worker: Address<Worker>,
    finished: Option<Instant>,
    /// Wanted again while it is being stopped.
    again: Option<Arc<Pod>>,
}

/// The actor.
pub struct Manager {
    host: Arc<Host>,
    own: watch::Receiver<Option<Address<Manager>>>,
    births: watch::Sender<u64>,
    entries: HashMap<String, Entry>,
    mirrors: Mirrors,
    mirroring: mirror::Keeper,
    api_ready: bool,
    files_ready: bool,
    /// The runtime is being searched for what nobody knows.
    searching: bool,
    /// Pods of which what is left is being removed.
    swept: HashSet<String>,
    /// Wanted, but only once the sweep is over.
    held: Vec<(Arc<Pod>, Cause)>,
}

/// Counts how often the manager was made: a new one knows no Pods, and its sources tell it all of them again.
pub type Births = watch::Receiver<u64>;

/// Starts the manager. `waits_for` says which sources there are: (the API server, manifests).
pub fn start(host: Arc<Host>, waits_for: (bool, bool)) -> (Address<Manager>, Births) {
    let (publish, own) = watch::channel(None);
    let (births, born) = watch::channel(0);
    let make = move || Manager {
        host: host.clone(),
        own: own.clone(),
        births: births.clone(),
        entries: HashMap::new(),
        mirrors: Mirrors::new(),
        mirroring: mirror::Keeper::new(&host.api, &host.config.node_name),
        api_ready: !waits_for.0,
        files_ready: !waits_for.1,
        searching: false,
        swept: HashSet::new(),
        held: Vec::new(),
    };
    let address = actor::spawn("pods", make, Limits { mailbox: 1024, ..Limits::default() });
    publish.send_replace(Some(address.clone()));
    (address, born)
}

impl Actor for Manager {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.births.send_modify(|count| *count += 1);
        ctx.run_interval(HOUSEKEEPING, |manager, ctx| manager.housekeeping(ctx));
    }
}

impl Handler<FromApi> for Manager {
    type Result = ();

    fn handle(&mut self, message: FromApi, ctx: &mut Self::Context) {
        match message {
            FromApi::Pod { pod, .. } if view::is_mirror(&pod) => self.mirrored(pod, true, ctx),
            FromApi::Gone { pod, .. } if view::is_mirror(&pod) => self.mirrored(pod, false, ctx),
            FromApi::Pod { pod, cause } => self.want(pod, cause),
            FromApi::Gone { pod, cause } => self.forget(view::uid(&pod), cause),
            FromApi::Synced(pods) => {
                for pod in pods {
                    if view::is_mirror(&pod) {
                        self.mirrored(pod, true, ctx);
                    } else if !self.entries.contains_key(view::uid(&pod)) {
                        self.want(pod, Cause::default());
                    }
                }
                self.api_ready = true;
            }
        }
    }
}

impl Handler<FromFiles> for Manager {
    type Result = ();

    fn handle(&mut self, FromFiles(pods): FromFiles, ctx: &mut Self::Context) {
        let wanted: HashSet<String> = pods.iter().map(|pod| view::uid(pod).to_owned()).collect();
        let is_static = |entry: &Entry| view::is_static(&entry.desired.borrow().pod);
        let gone: Vec<String> = self
            .entries
            .iter()
            .filter(|(uid, entry)| is_static(entry) && !wanted.contains(*uid))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in gone {
            self.forget(&uid, Cause::default());
        }
        for pod in pods {
            self.want(pod, Cause::default());
        }
        self.files_ready = true;
        self.mirror(ctx);
    }
}

impl Handler<FromRuntime> for Manager {
    type Result = ();

    fn handle(&mut self, FromRuntime(changed): FromRuntime, _: &mut Self::Context) {
        for uid in changed {
            if let Some(entry) = self.entries.get(&uid) {
                entry.wake();
            }
        }
    }
}

impl Handler<Query> for Manager {
    type Result = MessageResult<Query>;

    fn handle(&mut self, query: Query, _: &mut Self::Context) -> Self::Result {
        let all = self.entries.values().map(|entry| entry.desired.borrow().pod.clone());
        MessageResult(match query {
            Query::All => all.collect(),
            Query::Find { namespace, name, uid } => all
                .filter(|pod| view::namespace(pod) == namespace && view::name(pod) == name)
                .filter(|pod| uid.as_deref().is_none_or(|uid| view::uid(pod) == uid || self.mirrors(pod, uid)))
                .collect(),
        })
    }
}

impl Handler<Farewell> for Manager {
    type Result = ();

    fn handle(&mut self, Farewell(uid): Farewell, ctx: &mut Self::Context) {
        let Some(entry) = self.entries.get_mut(&uid) else { return };
        if entry.desired.borrow().gone {
            let again = entry.again.take();
            self.entries.remove(&uid);
            if let Some(pod) = again {
                self.want(pod, Cause::default());
            }
            self.mirror(ctx);
        } else {
            entry.finished = Some(Instant::now());
        }
    }
}

impl Handler<Orphans> for Manager {
    type Result = ();

    fn handle(&mut self, Orphans(pods): Orphans, ctx: &mut Self::Context) {
        self.searching = false;
        for (uid, pod) in pods {
            if !self.entries.contains_key(&uid) {
                tracing::info!(pod = view::formatted(&pod), "a Pod that nobody wants any more is stopped");
                self.employ(Desired {
                    pod: Arc::new(pod),
                    cause: Cause::default(),
                    gone: true,
                    rejected: None,
                    mirror: None,
                });
            }
        }
        self.sweep(ctx);
    }
}

impl Entry {
    fn wake(&self) {
        // A full mailbox holds a wake already, and a worker that is made again looks first thing.
        let _ = self.worker.try_send(Wake);
    }
}

impl Manager {
    fn mirrors(&self, pod: &Pod, uid: &str) -> bool {
        self.mirrors.get(&key(pod)).is_some_and(|mirror| view::uid(mirror) == uid)
    }

    fn static_pods(&self) -> Vec<Arc<Pod>> {
        let all = self.entries.values().map(|entry| entry.desired.borrow().clone());
        all.filter(|desired| view::is_static(&desired.pod) && !desired.gone).map(|desired| desired.pod).collect()
    }

    /// Removes what is left of Pods that nobody knows. What there is, is looked up here, so that nothing of a Pod that
    /// comes later is among it; removing it may take long, and is done on a thread of its own.
    fn sweep(&mut self, ctx: &mut Context<Self>) {
        if !self.swept.is_empty() {
            return;
        }
        let is_known = |uid: &str| self.entries.contains_key(uid);
        let folders: Vec<String> = self.host.volumes.pods().into_iter().filter(|uid| !is_known(uid)).collect();
        let orphans = self.host.cgroups.orphans(is_known);
        self.swept = folders.iter().cloned().chain(orphans.keys().cloned()).collect();
        if self.swept.is_empty() {
            return;
        }
        let host = self.host.clone();
        let removed = tokio::task::spawn_blocking(move || {
            for uid in folders {
                if let Err(error) = host.volumes.tear_down(&uid) {
                    tracing::info!(%error, uid, "the folder of a Pod that is gone was not removed");
                }
            }
            for path in orphans.into_values().flatten() {
                if let Err(error) = host.cgroups.remove_at(&path) {
                    tracing::debug!(%error, "a cgroup was not removed");
                }
            }
        });
        ctx.spawn(removed.into_actor(self).map(|outcome, manager, _| {
            if let Err(error) = outcome {
                tracing::error!(%error, "what is left of Pods that are gone was not removed");
            }
            manager.swept.clear();
            for (pod, cause) in std::mem::take(&mut manager.held) {
                manager.want(pod, cause);
            }
        }));
    }

    /// Has static Pods shown in the API as they are.
    fn mirror(&mut self, ctx: &mut Context<Self>) {
        if !(self.api_ready && self.files_ready) {
            return;
        }
        for work in self.mirroring.look(&self.static_pods(), &self.mirrors) {
            ctx.spawn(work.into_actor(self).map(|key, manager, ctx| {
                if manager.mirroring.done(&key) {
                    manager.mirror(ctx);
                }
            }));
        }
    }

    fn want(&mut self, pod: Arc<Pod>, cause: Cause) {
        let uid = view::uid(&pod).to_owned();
        if self.swept.contains(&uid) {
            // A static Pod has the uid that it had before.
            self.held.retain(|(held, _)| view::uid(held) != uid);
            self.held.push((pod, cause));
            return;
        }
        if let Some(entry) = self.entries.get_mut(&uid) {
            if entry.finished.is_some() {
                return;
            }
            if entry.desired.borrow().gone {
                entry.again = Some(pod);
                return;
            }
            entry.desired.send_modify(|desired| {
                desired.pod = pod;
                desired.cause = cause;
            });
            entry.wake();
            return;
        }
        let others: Vec<Arc<Pod>> = self
            .entries
            .values()
            .filter(|entry| entry.finished.is_none())
            .map(|entry| entry.desired.borrow().clone())
            .filter(|desired| desired.rejected.is_none())
            .map(|desired| desired.pod)
            .collect();
        let mirror = view::is_static(&pod).then(|| self.mirrors.get(&key(&pod)).cloned()).flatten();
        let rejected = admission::verdict(&pod, &others, self.host.place());
        self.employ(Desired { pod, cause, gone: false, rejected, mirror });
    }

    fn employ(&mut self, desired: Desired) {
        let uid = view::uid(&desired.pod).to_owned();
        let name = format!("{}/{}", view::namespace(&desired.pod), view::name(&desired.pod));
        let (sender, receiver) = watch::channel(desired);
        let (own, id) = (self.own.clone(), uid.clone());
        let farewell = Arc::new(move || {
            let manager = own.borrow().clone();
            let id = id.clone();
            actix::spawn(async move {
                if let Some(manager) = manager
                    && let Err(error) = manager.send(Farewell(id)).await
                {
                    tracing::warn!(%error, "a worker's farewell was lost");
                }
            });
        });
        let worker = worker::spawn(&name, self.host.clone(), receiver, farewell);
        self.entries.insert(uid, Entry { desired: sender, worker, finished: None, again: None });
    }

    fn forget(&mut self, uid: &str, cause: Cause) {
        self.held.retain(|(held, _)| view::uid(held) != uid);
        let Some(entry) = self.entries.get_mut(uid) else { return };
        entry.again = None;
        if entry.finished.is_some() {
            self.entries.remove(uid);
            return;
        }
        entry.desired.send_modify(|desired| {
            desired.gone = true;
            desired.cause = cause;
        });
        entry.wake();
    }

    /// A mirror Pod came, changed or went.
    fn mirrored(&mut self, mirror: Arc<Pod>, present: bool, ctx: &mut Context<Self>) {
        let name = key(&mirror);
        let known = match present {
            true => self.mirrors.insert(name.clone(), mirror),
            false => self.mirrors.remove(&name),
        };
        let now = self.mirrors.get(&name).cloned();
        if known.as_deref() == now.as_deref() {
            return;
        }
        for entry in self.entries.values() {
            let matches = {
                let desired = entry.desired.borrow();
                view::is_static(&desired.pod) && key(&desired.pod) == name
            };
            if matches {
                entry.desired.send_modify(|desired| desired.mirror = now.clone());
                entry.wake();
            }
        }
        self.mirror(ctx);
    }

    fn housekeeping(&mut self, ctx: &mut Context<Self>) {
        let lingering: Vec<String> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.finished.is_some_and(|since| since.elapsed() > LINGER))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in lingering {
            if let Some(entry) = self.entries.remove(&uid) {
                let desired = entry.desired.borrow().clone();
                self.employ(desired);
            }
        }
        let burstable: i64 = self
            .entries
            .values()
            .map(|entry| entry.desired.borrow().pod.clone())
            .filter(|pod| crate::pod::qos::class(pod) == crate::pod::qos::Class::Burstable)
            .map(|pod| crate::pod::resources::pod_request(&pod, true))
            .sum();
        if let Err(error) = self.host.cgroups.weigh_burstable(burstable) {
            tracing::debug!(%error, "the cgroup of burstable Pods has not the weight of their requests");
        }
        if !(self.api_ready && self.files_ready) || self.searching {
            return;
        }
        self.mirror(ctx);
        self.searching = true;
        let cri = self.host.cri.clone();
        let look = async move { unknown(&cri).await };
        ctx.spawn(look.into_actor(self).map(|found, manager, ctx| match found {
            Ok(pods) => ctx.notify(Orphans(pods)),
            Err(error) => {
                manager.searching = false;
                tracing::debug!(%error, "the runtime can't be searched for orphans");
            }
        }));
    }
}

/// All Pods that the runtime has something of, as far as labels tell of them.
async fn unknown(cri: &crate::cri::Cri) -> crate::error::Result<HashMap<String, Pod>> {
    let (sandboxes, containers) = tokio::try_join!(cri.list_pod_sandboxes(None), cri.list_containers(None))?;
    let labels = sandboxes.into_iter().map(|one| one.labels).chain(containers.into_iter().map(|one| one.labels));
    Ok(labels
        .filter_map(|labels| {
            let uid = labels.get(names::POD_UID)?.clone();
            let metadata = ObjectMeta {
                name: labels.get(names::POD_NAME).cloned(),
                namespace: labels.get(names::POD_NAMESPACE).cloned(),
                uid: Some(uid.clone()),
                ..ObjectMeta::default()
            };
            Some((uid, Pod { metadata, spec: Some(PodSpec::default()), status: None }))
        })
        .collect())
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manager").field("pods", &self.entries.len()).finish_non_exhaustive()
    }
}
