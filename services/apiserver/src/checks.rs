//! The health pages: upstream's checks, in its order and under its names, for what this server has.
//!
//! The duties add theirs between the ones here and `shutdown`, which stays last.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use trireme_service::health::{Health, Scope};
use trireme_service::tasks::Tasks;

use crate::cache::Cache;
use crate::pipeline::Engine;
use crate::storage::{Client, compactor};

/// How long the store may take to answer a check.
const STORE_PATIENCE: Duration = Duration::from_secs(2);
/// How often it is tried whether the log can be written, and how old the last success may be.
const LOG_RHYTHM: Duration = Duration::from_secs(60);
const LOG_PATIENCE: Duration = Duration::from_secs(120);

/// Adds the checks of the server itself.
pub fn install(health: &Health, tasks: &Tasks, client: &Client, engine: &Engine) {
    log(health, tasks);
    store(health, "etcd", Scope::Live, client);
    store(health, "etcd-readiness", Scope::Ready, client);
    filled(health, "informer-sync", Scope::Ready, &engine.cache);
    let equipped = engine.clone();
    health.add("poststarthook/start-apiserver-admission-initializer", Scope::Live, move || {
        let equipped = equipped.parts().map(|_| ()).map_err(|status| status.message);
        async move { equipped }
    });
    filled(health, "poststarthook/generic-apiserver-start-informers", Scope::Live, &engine.cache);
}

/// Whether what reads the log keeps up: a line that can't be written holds up whoever writes it.
fn log(health: &Health, tasks: &Tasks) {
    let begun = Instant::now();
    let written = Arc::new(AtomicU64::new(0));
    let last = written.clone();
    tasks.supervise("log check", move || {
        let last = last.clone();
        async move {
            loop {
                // The log's lock is taken: whoever is stuck in a line holds it.
                let flushed = tokio::task::spawn_blocking(|| std::io::stderr().lock().flush()).await;
                if matches!(flushed, Ok(Ok(()))) {
                    last.store(begun.elapsed().as_secs(), Ordering::Relaxed);
                }
                tokio::time::sleep(LOG_RHYTHM).await;
            }
        }
    });
    health.add("log", Scope::Live, move || {
        let age = begun.elapsed().saturating_sub(Duration::from_secs(written.load(Ordering::Relaxed)));
        async move { if age < LOG_PATIENCE { Ok(()) } else { Err("logging blocked".to_owned()) } }
    });
}

/// Whether the store answers.
fn store(health: &Health, name: &str, scope: Scope, client: &Client) {
    let client = client.clone();
    health.add(name, scope, move || {
        let client = client.clone();
        async move {
            let asked = client.get(compactor::KEY, Instant::now() + STORE_PATIENCE).await;
            asked.map(|_| ()).map_err(|error| error.to_string())
        }
    });
}

/// Whether the watch cache has caught up with the store once.
pub(crate) fn filled(health: &Health, name: &str, scope: Scope, cache: &Cache) {
    let cache = cache.clone();
    health.add(name, scope, move || {
        let synced = cache.head().synced;
        async move { if synced { Ok(()) } else { Err("the watch cache is not filled yet".to_owned()) } }
    });
}
