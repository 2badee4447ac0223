//! What changed in the runtime: by looking once a second, and at once where the runtime tells.

use crate::cri::{Cri, names};
use crate::error::Result;
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio_stream::StreamExt as _;

/// Uids of Pods of which something changed.
pub type Changed = BTreeSet<String>;

const PERIOD: Duration = Duration::from_secs(1);
/// A runtime without events is asked for them again this often.
const WITHOUT_EVENTS: Duration = Duration::from_secs(60);

/// When the runtime was last seen whole.
pub type LastLook = watch::Receiver<Option<Instant>>;

/// The task that looks.
pub async fn relist(cri: Cri, changed: mpsc::Sender<Changed>, last_look: watch::Sender<Option<Instant>>) {
    let mut known: Option<HashMap<String, (String, i32)>> = None;
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match look(&cri).await {
            Ok(seen) => {
                last_look.send_replace(Some(Instant::now()));
                let news = known.as_ref().map(|known| difference(known, &seen)).unwrap_or_default();
                known = Some(seen);
                if !news.is_empty() && changed.send(news).await.is_err() {
                    return;
                }
            }
            Err(error) => tracing::warn!(%error, "the container runtime can't be listed"),
        }
    }
}

/// Sandboxes and containers by id: whose they are, and their state.
async fn look(cri: &Cri) -> Result<HashMap<String, (String, i32)>> {
    let (sandboxes, containers) = tokio::try_join!(cri.list_pod_sandboxes(None), cri.list_containers(None))?;
    let owner = |labels: HashMap<String, String>| labels.get(names::POD_UID).cloned().unwrap_or_default();
    let sandboxes = sandboxes.into_iter().map(|one| (one.id, (owner(one.labels), one.state)));
    let containers = containers.into_iter().map(|one| (one.id, (owner(one.labels), one.state)));
    Ok(sandboxes.chain(containers).collect())
}

fn difference(before: &HashMap<String, (String, i32)>, now: &HashMap<String, (String, i32)>) -> Changed {
    let new = now.iter().filter(|(id, state)| before.get(*id) != Some(*state));
    let gone = before.iter().filter(|(id, _)| !now.contains_key(*id));
    new.chain(gone).map(|(_, (uid, _))| uid.clone()).filter(|uid| !uid.is_empty()).collect()
}

/// The task that listens, where there is something to listen to.
pub async fn listen(cri: Cri, changed: mpsc::Sender<Changed>) {
    loop {
        match cri.container_events().await {
            Ok(mut events) => {
                while let Some(Ok(event)) = events.next().await {
                    let of_sandbox = event.pod_sandbox_status.and_then(|status| status.metadata).map(|meta| meta.uid);
                    if let Some(uid) = of_sandbox.filter(|uid| !uid.is_empty())
                        && changed.send(Changed::from([uid])).await.is_err()
                    {
                        return;
                    }
                }
                tokio::time::sleep(PERIOD).await;
            }
            Err(error) => {
                tracing::debug!(%error, "the runtime tells no container events; it is listed once a second");
                tokio::time::sleep(WITHOUT_EVENTS).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_news() {
        let map = |entries: &[(&str, &str, i32)]| {
            entries.iter().map(|(id, uid, state)| ((*id).to_owned(), ((*uid).to_owned(), *state))).collect()
        };
        let before = map(&[("1", "a", 0), ("2", "b", 1), ("3", "c", 1)]);
        let now = map(&[("1", "a", 0), ("2", "b", 2), ("4", "d", 0)]);
        assert_eq!(difference(&before, &now), Changed::from(["b".into(), "c".into(), "d".into()]));
    }
}
