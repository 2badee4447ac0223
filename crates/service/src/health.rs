//! Named health checks, answered the way Kubernetes' components print them.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use tokio_util::sync::CancellationToken;

use crate::pages::Page;

/// A check that has not answered by then has failed.
const LIMIT: Duration = Duration::from_secs(5);

type Answer = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;
type Check = Arc<dyn Fn() -> Answer + Send + Sync>;

/// Which pages a check counts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `/livez`, `/readyz` and `/healthz`: when it fails, a restart may help.
    Live,
    /// `/readyz` only: when it fails, no requests should come.
    Ready,
}

/// The checks of a process. Clones share them.
#[derive(Clone)]
pub struct Health {
    checks: Arc<RwLock<Vec<Entry>>>,
}

#[derive(Clone)]
struct Entry {
    name: String,
    scope: Scope,
    check: Check,
}

/// A check that its owner sets.
#[derive(Clone, Debug)]
pub struct Flag {
    state: Arc<RwLock<Result<(), String>>>,
}

impl Health {
    /// The checks `ping`, which always passes, and `shutdown`, which fails (for `/readyz`) once the token is cancelled.
    #[must_use]
    pub fn new(shutdown: CancellationToken) -> Self {
        let health = Self { checks: Arc::default() };
        health.add("ping", Scope::Live, || async { Ok(()) });
        let down = Arc::new(AtomicBool::new(false));
        health.add("shutdown", Scope::Ready, move || {
            down.fetch_or(shutdown.is_cancelled(), Ordering::Relaxed);
            let down = down.load(Ordering::Relaxed);
            async move { if down { Err("process is shutting down".to_owned()) } else { Ok(()) } }
        });
        health
    }

    /// Adds a check, or puts it in the place of the one with its name.
    pub fn add<C, F>(&self, name: impl Into<String>, scope: Scope, check: C)
    where
        C: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let entry = Entry { name: name.into(), scope, check: Arc::new(move || Box::pin(check())) };
        let mut checks = self.checks.write();
        match checks.iter_mut().find(|other| other.name == entry.name) {
            Some(other) => *other = entry,
            // `shutdown` stays last, as upstream prints it.
            None => {
                let at = checks.iter().position(|other| other.name == "shutdown").unwrap_or(checks.len());
                checks.insert(at, entry);
            }
        }
    }

    /// Adds a check that fails until its [`Flag`] is set.
    pub fn flag(&self, name: impl Into<String>, scope: Scope) -> Flag {
        let flag = Flag { state: Arc::new(RwLock::new(Err("not yet".to_owned()))) };
        let state = Arc::clone(&flag.state);
        self.add(name, scope, move || {
            let answer = state.read().clone();
            async move { answer }
        });
        flag
    }

    /// Whether all checks of `/readyz` pass.
    pub async fn ready(&self) -> bool {
        self.page("readyz", None, "").await.is_some_and(|page| page.status == 200)
    }

    /// The answer to `/livez`, `/readyz` or `/healthz` (`/livez/<check>` too), or none if `path` is no such page.
    pub async fn answer(&self, path: &str, query: &str) -> Option<Page> {
        let path = path.strip_prefix('/')?;
        let (page, check) = match path.split_once('/') {
            Some((page, "")) => (page, None),
            Some((page, check)) => (page, Some(check)),
            None => (path, None),
        };
        self.page(page, check, query).await
    }

    async fn page(&self, page: &str, check: Option<&str>, query: &str) -> Option<Page> {
        let live_only = match page {
            "livez" | "healthz" => true,
            "readyz" => false,
            _ => return None,
        };
        let mut checks = self.checks.read().clone();
        checks.retain(|entry| entry.scope == Scope::Live || !live_only);
        if let Some(name) = check {
            let entry = checks.into_iter().find(|entry| entry.name == name)?;
            return Some(match entry.run().await {
                Ok(()) => Page::text(200, "ok"),
                Err(error) => Page::text(500, format!("internal server error: {error}\n")),
            });
        }
        Some(summary(page, &checks, query).await)
    }
}

impl Entry {
    async fn run(&self) -> Result<(), String> {
        tokio::time::timeout(LIMIT, (self.check)()).await.unwrap_or_else(|_| Err(format!("no answer in {LIMIT:?}")))
    }
}

async fn summary(page: &str, checks: &[Entry], query: &str) -> Page {
    let query: Vec<(String, String)> =
        url::form_urlencoded::parse(query.as_bytes()).map(|(k, v)| (k.into_owned(), v.into_owned())).collect();
    // Each value is one name, as upstream has it.
    let excluded: BTreeSet<&str> = values(&query, "exclude").collect();
    let mut unmatched = excluded.clone();
    let mut lines = String::new();
    let mut failed = Vec::new();
    for entry in checks {
        let name = &entry.name;
        if excluded.contains(name.as_str()) {
            unmatched.remove(name.as_str());
            lines += &format!("[+]{name} excluded: ok\n");
            continue;
        }
        match entry.run().await {
            Ok(()) => lines += &format!("[+]{name} ok\n"),
            Err(error) => {
                // The page is public; the reason is on the check's own page and in the log.
                lines += &format!("[-]{name} failed: reason withheld\n");
                failed.push(format!("{name}: {error}"));
            }
        }
    }
    if !unmatched.is_empty() {
        let names: Vec<String> = unmatched.iter().map(|name| format!("{name:?}")).collect();
        lines += &format!("warn: some health checks cannot be excluded: no matches for {}\n", names.join(","));
    }
    if !failed.is_empty() {
        tracing::debug!(page, failed = failed.join("; "), "health check failed");
        return Page::text(500, format!("{lines}{page} check failed\n"));
    }
    if values(&query, "verbose").next().is_some() {
        Page::text(200, format!("{lines}{page} check passed\n"))
    } else {
        Page::text(200, "ok")
    }
}

fn values<'a>(query: &'a [(String, String)], key: &'a str) -> impl Iterator<Item = &'a str> {
    query.iter().filter(move |(k, _)| k == key).map(|(_, value)| value.as_str())
}

// === impl Flag ===

impl Flag {
    /// The check passes from now on.
    pub fn pass(&self) {
        *self.state.write() = Ok(());
    }

    /// The check fails from now on.
    pub fn fail(&self, why: impl Into<String>) {
        *self.state.write() = Err(why.into());
    }

    /// What it says now.
    #[must_use]
    pub fn get(&self) -> bool {
        self.state.read().is_ok()
    }
}

impl std::fmt::Debug for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.checks.read().iter().map(|entry| entry.name.clone())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn get(health: &Health, path: &str, query: &str) -> (u16, String) {
        let page = health.answer(path, query).await.unwrap();
        (page.status, page.body)
    }

    #[tokio::test]
    async fn the_words_of_upstream() {
        let shutdown = CancellationToken::new();
        let health = Health::new(shutdown.clone());
        let etcd = health.flag("etcd", Scope::Live);
        let informers = health.flag("informer-sync", Scope::Ready);
        etcd.pass();

        assert_eq!(get(&health, "/livez", "").await, (200, "ok".to_owned()));
        assert_eq!(
            get(&health, "/livez", "verbose").await,
            (200, "[+]ping ok\n[+]etcd ok\nlivez check passed\n".to_owned())
        );
        assert_eq!(
            get(&health, "/readyz", "").await,
            (
                500,
                "[+]ping ok\n[+]etcd ok\n[-]informer-sync failed: reason withheld\n[+]shutdown ok\nreadyz check failed\n"
                    .to_owned()
            )
        );
        assert_eq!(
            get(&health, "/readyz", "verbose&exclude=informer-sync&exclude=nothing").await,
            (
                200,
                "[+]ping ok\n[+]etcd ok\n[+]informer-sync excluded: ok\n[+]shutdown ok\nwarn: some health checks cannot be \
                 excluded: no matches for \"nothing\"\nreadyz check passed\n"
                    .to_owned()
            )
        );
        // A check that is named twice counts once, and commas are part of a name.
        assert_eq!(
            get(&health, "/livez", "verbose&exclude=etcd&exclude=etcd&exclude=b,a").await.1,
            "[+]ping ok\n[+]etcd excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"b,a\"\n\
             livez check passed\n"
        );
        assert_eq!(
            get(&health, "/readyz/informer-sync", "").await,
            (500, "internal server error: not yet\n".to_owned())
        );
        informers.pass();
        assert!(health.ready().await);
        shutdown.cancel();
        assert!(!health.ready().await);
        assert_eq!(get(&health, "/healthz", "").await.0, 200);
        assert!(health.answer("/livez/unknown", "").await.is_none());
        assert!(health.answer("/api", "").await.is_none());
    }
}
