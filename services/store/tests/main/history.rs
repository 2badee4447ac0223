//! Load that writes down what it did and what it was told, and a judge of that record.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use trireme_testkit::poll::{self, PATIENCE};

use crate::support::{Client, shared};

/// One acknowledged swap of the register: from which revision to which.
#[derive(Debug, Clone, Copy)]
struct Swap {
    from: i64,
    to: i64,
}

/// What the clients saw.
#[derive(Debug, Default)]
pub(crate) struct Record {
    swaps: Vec<Swap>,
    /// The keys that were acknowledged, and their revisions.
    pub(crate) puts: Vec<(String, i64)>,
    /// When acknowledged writes began and ended.
    pub(crate) acknowledged: Vec<(Instant, Instant)>,
    /// The longest that a client waited for an answer, whatever it was.
    pub(crate) longest: Duration,
    pub(crate) refused: usize,
    faults: Vec<String>,
}

/// Load by some clients, until it is stopped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    tasks: JoinSet<()>,
    record: Arc<tokio::sync::Mutex<Record>>,
}

const REGISTER: &str = "register";

impl Load {
    /// Each client swaps one shared register and puts keys of its own.
    pub(crate) fn start(clients: Vec<Client>) -> Self {
        let (stop, record) = (Arc::new(AtomicBool::new(false)), shared(Record::default()));
        let newest = Arc::new(AtomicI64::new(0));
        let mut tasks = JoinSet::new();
        for (i, client) in clients.into_iter().enumerate() {
            let (stop, record, newest) = (stop.clone(), record.clone(), newest.clone());
            tasks.spawn(async move {
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    step(&client, i, n, &record, &newest, &stop).await;
                }
            });
        }
        Self { stop, tasks, record }
    }

    async fn acknowledged(&self) -> usize {
        self.record.lock().await.acknowledged.len()
    }

    /// Waits until more than so many further writes are acknowledged.
    pub(crate) async fn goes_on(&self, more: usize) {
        let before = self.acknowledged().await;
        poll::found("writes to go on", PATIENCE, async || (self.acknowledged().await > before + more).then_some(()))
            .await
            .unwrap();
    }

    pub(crate) async fn stop(mut self) -> Record {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(client) = self.tasks.join_next().await {
            client.unwrap();
        }
        std::mem::take(&mut *self.record.lock().await)
    }
}

async fn step(
    client: &Client,
    i: usize,
    n: u64,
    record: &tokio::sync::Mutex<Record>,
    newest: &AtomicI64,
    stop: &AtomicBool,
) {
    let limit = Duration::from_secs(10);
    let read = poll::found("an answer to a read", PATIENCE, async || {
        if stop.load(Ordering::Relaxed) {
            return Some(None);
        }
        // A read has to show at least what was acknowledged to anyone before it began.
        let floor = newest.load(Ordering::SeqCst);
        let asked = Instant::now();
        let answer = tokio::time::timeout(limit, client.get(REGISTER)).await;
        record.lock().await.waited(asked);
        match answer {
            Ok(Ok(kv)) => Some(Some((floor, kv.map_or(0, |kv| kv.mod_revision)))),
            _ => {
                record.lock().await.refused += 1;
                None
            }
        }
    });
    let Some((floor, seen)) = read.await.unwrap() else { return };
    if seen < floor {
        record.lock().await.faults.push(format!("a read saw {seen} after {floor} was acknowledged"));
    }
    let began = Instant::now();
    let answer = tokio::time::timeout(limit, client.swap(REGISTER, seen, format!("{i}-{n}"))).await;
    record.lock().await.waited(began);
    match answer {
        Ok(Ok(Ok(to))) => {
            newest.fetch_max(to, Ordering::SeqCst);
            let mut record = record.lock().await;
            record.swaps.push(Swap { from: seen, to });
            record.acknowledged.push((began, Instant::now()));
        }
        Ok(Ok(Err(_))) => {}
        _ => {
            record.lock().await.refused += 1;
            return;
        }
    }
    let key = format!("load/{i}/{n}");
    let began = Instant::now();
    let answer = tokio::time::timeout(limit, client.put(&key, vec![b'v'; 200])).await;
    record.lock().await.waited(began);
    match answer {
        Ok(Ok(revision)) => {
            let mut record = record.lock().await;
            record.puts.push((key, revision));
            record.acknowledged.push((began, Instant::now()));
        }
        _ => record.lock().await.refused += 1,
    }
}

impl Record {
    fn waited(&mut self, since: Instant) {
        self.longest = self.longest.max(since.elapsed());
    }

    /// Judges the record against what is in the store at the end.
    pub(crate) async fn judge(&self, client: &Client) {
        assert!(self.faults.is_empty(), "{:?}", self.faults);
        let kvs = client.list("load/", false).await.unwrap().kvs;
        let there: std::collections::HashMap<_, _> = kvs.iter().map(|kv| (kv.key.to_vec(), kv.mod_revision)).collect();
        for (key, revision) in &self.puts {
            assert_eq!(there.get(key.as_bytes()), Some(revision), "{key} was acknowledged");
        }
        // Nobody swapped away what another swap had already replaced, and revisions are given once.
        let mut froms: Vec<_> = self.swaps.iter().map(|s| s.from).collect();
        let mut tos: Vec<_> = self.swaps.iter().map(|s| s.to).chain(self.puts.iter().map(|(_, r)| *r)).collect();
        for list in [&mut froms, &mut tos] {
            let count = list.len();
            list.sort_unstable();
            list.dedup();
            assert_eq!(list.len(), count);
        }
        assert!(self.swaps.iter().all(|s| s.from < s.to));
        let last = client.get(REGISTER).await.unwrap().unwrap();
        assert!(self.swaps.iter().all(|s| s.to <= last.mod_revision));
    }

    /// The time from a moment to the first acknowledgement of a write that began after it.
    pub(crate) fn resumed_after(&self, moment: Instant) -> Duration {
        let later = self.acknowledged.iter().filter(|(began, _)| *began >= moment);
        later.map(|(_, ended)| *ended - moment).min().expect("a write after the moment")
    }
}
