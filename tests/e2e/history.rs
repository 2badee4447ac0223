//! A recorded history: what clients were told, and what one who watches saw; and the judge of both.
//!
//! Writers create, update and delete ConfigMaps of their own without pause and record every acknowledgement with its
//! resourceVersion; a request that failed has an unknown outcome. A watcher resumes at its last resourceVersion
//! whenever its stream ends. The judge: what was acknowledged was seen, exactly once and in order; nothing else was
//! seen but what a request of unknown outcome may have done; and the final state is that of the last write.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, bail};
use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use trireme_testkit::poll;

use crate::support::LONG;

const NAMESPACE: &str = "default";
const LABEL: &str = "history=yes";
/// For no longer than this the API server may be away, whatever is done to it.
const OUTAGE: Duration = Duration::from_secs(300);

/// What a writer was told.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Told {
    /// Done, at this resourceVersion, with this counter.
    Done { version: u64, counter: u64 },
    /// Deleted. A deletion is answered without the revision it happened at.
    Deleted,
    /// Nobody knows.
    Unknown,
}

/// What the watcher saw.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    version: u64,
    name: String,
    counter: Option<u64>,
}

/// Writers and a watcher at work.
pub(crate) struct History {
    stop: Arc<AtomicBool>,
    told: Arc<Mutex<BTreeMap<String, Vec<Told>>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
    runtime: tokio::runtime::Runtime,
    client: Client,
    tasks: Vec<tokio::task::JoinHandle<anyhow::Result<()>>>,
}

impl History {
    /// Starts `writers` writers and a watcher.
    pub(crate) fn start(kubeconfig: &std::path::Path, writers: usize) -> anyhow::Result<Self> {
        // A second install is refused and harmless.
        let _installed_before = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let client = runtime.block_on(client(kubeconfig))?;
        let mut history = Self {
            stop: Arc::default(),
            told: Arc::default(),
            seen: Arc::default(),
            runtime,
            client,
            tasks: Vec::new(),
        };
        let api: Api<ConfigMap> = Api::namespaced(history.client.clone(), NAMESPACE);
        let list = history.runtime.block_on(api.list(&ListParams::default().labels(LABEL)))?;
        let start = list.metadata.resource_version.context("resourceVersion of the list")?;
        let (stop, seen) = (history.stop.clone(), history.seen.clone());
        history.tasks.push(history.runtime.spawn(watch(api.clone(), start, stop, seen)));
        for writer in 0..writers {
            let (api, stop) = (api.clone(), history.stop.clone());
            let told = history.told.clone();
            history.tasks.push(history.runtime.spawn(write(api, format!("history-{writer}"), stop, told)));
        }
        Ok(history)
    }

    /// How many writes were acknowledged so far.
    pub(crate) fn acknowledged(&self) -> usize {
        self.told.lock().unwrap().values().flatten().filter(|t| **t != Told::Unknown).count()
    }

    /// Waits until the watcher has seen everything that is acknowledged by now.
    pub(crate) fn watched(&self) -> anyhow::Result<()> {
        let version = |told: &Told| if let Told::Done { version, .. } = told { Some(*version) } else { None };
        let newest = self.told.lock().unwrap().values().flatten().filter_map(version).max().unwrap_or_default();
        poll::until("the watcher sees what was acknowledged", LONG, || {
            let seen = self.seen.lock().unwrap().last().map_or(0, |s| s.version);
            if seen < newest { bail!("it stands at {seen}, {newest} was acknowledged") } else { Ok(()) }
        })
    }

    /// Stops everything and judges.
    pub(crate) fn judge(mut self) -> anyhow::Result<usize> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), NAMESPACE);
        self.stop.store(true, Ordering::Relaxed);
        let tasks = std::mem::take(&mut self.tasks);
        let mut tasks = tasks.into_iter();
        let watcher = tasks.next().context("watcher")?;
        for task in tasks {
            self.runtime.block_on(task)??;
        }
        // One last write whose event closes the history.
        let fence = ConfigMap { metadata: named("history-end"), ..ConfigMap::default() };
        let fence = self.runtime.block_on(api.create(&PostParams::default(), &fence))?;
        let end = version(&fence)?;
        poll::until("the watcher sees the end", LONG, || {
            if self.seen.lock().unwrap().iter().all(|s| s.version < end) {
                bail!("not yet");
            }
            Ok(())
        })?;
        watcher.abort();
        let present: BTreeMap<String, u64> = self
            .runtime
            .block_on(api.list(&ListParams::default().labels(LABEL)))?
            .items
            .iter()
            .map(|c| (c.name_any(), counter(c)))
            .collect();
        let told = self.told.lock().unwrap().clone();
        let seen = self.seen.lock().unwrap().clone();
        judge(&told, &seen, &present)?;
        Ok(told.values().flatten().filter(|t| **t != Told::Unknown).count())
    }
}

fn judge(told: &BTreeMap<String, Vec<Told>>, seen: &[Seen], present: &BTreeMap<String, u64>) -> anyhow::Result<()> {
    if let Some([a, b]) = seen.array_windows::<2>().find(|[a, b]| a.version >= b.version) {
        bail!("seen twice or out of order: {a:?}, then {b:?}");
    }
    for (name, told) in told {
        let seen = seen.iter().filter(|s| &s.name == name).map(|s| (s.version, s.counter)).collect();
        judge_one(told, &seen, present.get(name).copied()).context(name.clone())?;
    }
    Ok(())
}

/// The history of one object: what its writer was told, what was seen of it, and what it is in the end.
fn judge_one(told: &[Told], seen: &BTreeMap<u64, Option<u64>>, present: Option<u64>) -> anyhow::Result<()> {
    let version = |told: &Told| if let Told::Done { version, .. } = told { Some(*version) } else { None };
    let mut accounted = BTreeSet::new();
    for (at, what) in told.iter().enumerate() {
        match what {
            Told::Done { version, counter } => {
                let Some(seen) = seen.get(version) else {
                    bail!("acknowledged at {version} and never seen by the watcher")
                };
                if *seen != Some(*counter) {
                    bail!("{counter} was acknowledged at {version}, the watcher saw {seen:?} there");
                }
                accounted.insert(*version);
            }
            Told::Deleted => {
                // It happened between the writes around it that are known.
                let before = told[..at].iter().rev().find_map(version).unwrap_or_default();
                let behind = told[at..].iter().find_map(version).unwrap_or(u64::MAX);
                let between = seen.range(before + 1..behind);
                let Some((version, _)) = between.clone().find(|(v, c)| c.is_none() && !accounted.contains(*v)) else {
                    bail!("a deletion was acknowledged after {before} and before {behind}, and never seen");
                };
                accounted.insert(*version);
            }
            Told::Unknown => {}
        }
    }
    let unknown = told.iter().filter(|what| **what == Told::Unknown).count();
    let extra = seen.len() - accounted.len();
    if extra > unknown {
        bail!("the watcher saw {extra} writes that nobody was told of, {unknown} could have been");
    }
    match told.last() {
        Some(Told::Done { counter, version }) if present != Some(*counter) => {
            bail!("told {counter} at {version}, now {present:?}")
        }
        Some(Told::Deleted) if present.is_some() => bail!("told that it is deleted, now {present:?}"),
        _ => Ok(()),
    }
}

async fn client(kubeconfig: &std::path::Path) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.connect_timeout = Some(Duration::from_secs(2));
    config.write_timeout = Some(Duration::from_secs(5));
    Ok(Client::try_from(config)?)
}

async fn write(
    api: Api<ConfigMap>,
    name: String,
    stop: Arc<AtomicBool>,
    told: Arc<Mutex<BTreeMap<String, Vec<Told>>>>,
) -> anyhow::Result<()> {
    let mut number = 0_u64;
    let tell = |what: Told| told.lock().unwrap().entry(name.clone()).or_default().push(what);
    loop {
        number += 1;
        // `Some(None)`: it is over.
        let current = poll::found("an answer to a read", OUTAGE, async || {
            if stop.load(Ordering::Relaxed) {
                return Some(None);
            }
            let read = tokio::time::timeout(Duration::from_secs(5), api.get_opt(&name)).await;
            read.ok()?.ok().map(Some)
        });
        let Some(current) = current.await? else { return Ok(()) };
        let outcome = tokio::time::timeout(Duration::from_secs(8), one(&api, &name, current, number)).await;
        match outcome {
            Ok(Ok(done)) => tell(done),
            // Refused: nothing was written.
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {}
            _ => tell(Told::Unknown),
        }
    }
}

async fn one(api: &Api<ConfigMap>, name: &str, current: Option<ConfigMap>, number: u64) -> Result<Told, kube::Error> {
    let data = BTreeMap::from([("counter".to_owned(), number.to_string())]);
    let done = |object: &ConfigMap| Told::Done { version: version(object).unwrap_or_default(), counter: number };
    match current {
        None => {
            let object = ConfigMap { metadata: named(name), data: Some(data), ..ConfigMap::default() };
            api.create(&PostParams::default(), &object).await.map(|o| done(&o))
        }
        Some(mut object) if !number.is_multiple_of(7) => {
            object.data = Some(data);
            api.replace(name, &PostParams::default(), &object).await.map(|o| done(&o))
        }
        Some(_) => api.delete(name, &DeleteParams::default()).await.map(|_| Told::Deleted),
    }
}

async fn watch(
    api: Api<ConfigMap>,
    mut version_seen: String,
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Vec<Seen>>>,
) -> anyhow::Result<()> {
    let params = WatchParams::default().labels(LABEL);
    // It ends with the history's end, which the judge waits for.
    loop {
        let stream = poll::found("a watch", OUTAGE, async || api.watch(&params, &version_seen).await.ok()).await?;
        pin_mut!(stream);
        while let Some(Ok(event)) = stream.next().await {
            let (object, counter) = match event {
                WatchEvent::Added(o) | WatchEvent::Modified(o) => {
                    let counter = counter(&o);
                    (o, Some(counter))
                }
                WatchEvent::Deleted(o) => (o, None),
                WatchEvent::Bookmark(b) => {
                    version_seen = b.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(e) => bail!("the watch was refused: {e:?}"),
            };
            version_seen = object.resource_version().context("resourceVersion")?;
            let end = object.name_any() == "history-end";
            seen.lock().unwrap().push(Seen { version: version(&object)?, name: object.name_any(), counter });
            if end && stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }
}

fn named(name: &str) -> kube::core::ObjectMeta {
    kube::core::ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(BTreeMap::from([("history".to_owned(), "yes".to_owned())])),
        ..kube::core::ObjectMeta::default()
    }
}

fn version(object: &ConfigMap) -> anyhow::Result<u64> {
    Ok(object.resource_version().context("resourceVersion")?.parse()?)
}

fn counter(object: &ConfigMap) -> u64 {
    object.data.as_ref().and_then(|d| d.get("counter")?.parse().ok()).unwrap_or_default()
}

/// A judge that finds nothing is no judge.
#[cfg(test)]
mod tests {
    use super::*;

    fn seen(version: u64, counter: u64) -> Seen {
        Seen { version, name: "a".into(), counter: Some(counter) }
    }

    fn told(versions: &[u64]) -> BTreeMap<String, Vec<Told>> {
        let told = versions.iter().map(|v| Told::Done { version: *v, counter: *v }).collect();
        BTreeMap::from([("a".to_owned(), told)])
    }

    #[test]
    fn a_clean_history_passes() {
        let present = BTreeMap::from([("a".to_owned(), 3)]);
        judge(&told(&[2, 3]), &[seen(2, 2), seen(3, 3)], &present).unwrap();
    }

    #[test]
    fn a_gap_a_double_a_ghost_a_lie_and_a_loss_are_found() {
        let present = BTreeMap::from([("a".to_owned(), 3)]);
        assert!(judge(&told(&[2, 3]), &[seen(3, 3)], &present).is_err(), "gap");
        assert!(judge(&told(&[2, 3]), &[seen(2, 2), seen(2, 2), seen(3, 3)], &present).is_err(), "double");
        assert!(judge(&told(&[3]), &[seen(2, 2), seen(3, 3)], &present).is_err(), "ghost");
        assert!(judge(&told(&[2, 3]), &[seen(2, 2), seen(3, 2)], &present).is_err(), "lie");
        assert!(judge(&told(&[2, 3]), &[seen(2, 2), seen(3, 3)], &BTreeMap::new()).is_err(), "loss");
    }

    #[test]
    fn a_deletion_that_is_lost_is_found() {
        let gone = |version| Seen { counter: None, ..seen(version, 0) };
        let told = |what: &[Told]| BTreeMap::from([("a".to_owned(), what.to_vec())]);
        let done = |version| Told::Done { version, counter: version };
        let last = told(&[done(2), Told::Deleted]);
        judge(&last, &[seen(2, 2), gone(3)], &BTreeMap::new()).unwrap();
        assert!(judge(&last, &[seen(2, 2)], &BTreeMap::new()).is_err(), "never seen");
        assert!(judge(&last, &[seen(2, 2), gone(3)], &BTreeMap::from([("a".to_owned(), 2)])).is_err(), "still there");
        let between = told(&[done(2), Told::Deleted, done(5)]);
        let present = BTreeMap::from([("a".to_owned(), 5)]);
        judge(&between, &[seen(2, 2), gone(3), seen(5, 5)], &present).unwrap();
        assert!(judge(&between, &[seen(2, 2), seen(5, 5), gone(6)], &present).is_err(), "too late");
        let twice = told(&[done(2), Told::Deleted, Told::Unknown, Told::Deleted]);
        assert!(judge(&twice, &[seen(2, 2), gone(3)], &BTreeMap::new()).is_err(), "one of two");
    }
}
