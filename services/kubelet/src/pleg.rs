//! What changed in the runtime: by looking once a second, and at once where the runtime tells.

use crate::cri::{Cri, names};
use crate::error::{Error, Result};
use crate::node::runtime::Condition;
use async_trait::async_trait;
use futures::stream::BoxStream;
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio_stream::StreamExt as _;
use tonic::{Code, Status};
use trireme_proto::runtime::v1::ContainerEventResponse;

/// Uids of Pods of which something changed.
pub type Changed = BTreeSet<String>;

const PERIOD: Duration = Duration::from_secs(1);
/// A runtime whose events cannot be had just now is asked for them again this often.
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

/// A runtime that may tell what happens to containers.
#[async_trait]
pub trait Teller: Send + Sync {
    /// The runtime that is there now may be asked for events at all.
    async fn may_tell(&self) -> Result<bool>;
    /// The events from now on.
    async fn events(&self) -> Result<BoxStream<'static, Result<ContainerEventResponse>>>;
}

#[async_trait]
impl Teller for Cri {
    async fn may_tell(&self) -> Result<bool> {
        Ok(self.version().await?.may_tell_events())
    }

    async fn events(&self) -> Result<BoxStream<'static, Result<ContainerEventResponse>>> {
        let call = "GetContainerEvents";
        let events = self.container_events().await?;
        Ok(Box::pin(events.map(move |event| event.map_err(|status| Error::Cri { call, status: Box::new(status) }))))
    }
}

/// The task that listens, where there is something to listen to. A runtime without events is not asked again: only when it
/// was away, and may be another one.
pub async fn listen(runtime: impl Teller, changed: mpsc::Sender<Changed>, mut condition: watch::Receiver<Condition>) {
    loop {
        if condition.wait_for(|now| now.runtime.is_ok()).await.is_err() {
            return;
        }
        match hear(&runtime, &changed).await {
            Ok(()) if changed.is_closed() => return,
            Ok(()) => tokio::time::sleep(PERIOD).await,
            Err(Error::Cri { status, .. }) if status.code() == Code::Unimplemented => {
                tracing::debug!("the runtime tells no container events; it is listed once a second");
                if condition.wait_for(|now| now.runtime.is_err()).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::debug!(%error, "the runtime's container events cannot be had; it is listed once a second");
                tokio::time::sleep(WITHOUT_EVENTS).await;
            }
        }
    }
}

/// Hears events until they end, which is no error, or nobody wants to know.
async fn hear(runtime: &impl Teller, changed: &mpsc::Sender<Changed>) -> Result<()> {
    if !runtime.may_tell().await? {
        let status = Box::new(Status::unimplemented("it is too old for events"));
        return Err(Error::Cri { call: "GetContainerEvents", status });
    }
    let mut events = runtime.events().await?;
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            Err(Error::Cri { status, .. }) if status.code() != Code::Unimplemented => return Ok(()),
            Err(error) => return Err(error),
        };
        let of_sandbox = event.pod_sandbox_status.and_then(|status| status.metadata).map(|meta| meta.uid);
        if let Some(uid) = of_sandbox.filter(|uid| !uid.is_empty())
            && changed.send(Changed::from([uid])).await.is_err()
        {
            break;
        }
    }
    Ok(())
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

    /// A runtime without events: one that says so itself, or one that is known to be too old. Tells what it is asked.
    struct Dumb {
        old: bool,
        asked: mpsc::UnboundedSender<&'static str>,
    }

    #[async_trait]
    impl Teller for Dumb {
        async fn may_tell(&self) -> Result<bool> {
            let _ = self.asked.send("version");
            Ok(!self.old)
        }

        async fn events(&self) -> Result<BoxStream<'static, Result<ContainerEventResponse>>> {
            let _ = self.asked.send("events");
            Err(Error::Cri { call: "GetContainerEvents", status: Box::new(Status::unimplemented("unknown method")) })
        }
    }

    /// What it is asked at first, and when it was away.
    async fn asked(old: bool, questions: usize) -> Vec<&'static str> {
        let up = Condition { runtime: Ok(()), network: Ok(()) };
        let (told, condition) = watch::channel(Condition::default());
        let (changed, _changes) = mpsc::channel(1);
        let (asked, mut hears) = mpsc::unbounded_channel();
        let task = tokio::spawn(listen(Dumb { old, asked }, changed, condition));
        let mut all = Vec::new();
        let both = async {
            told.send_replace(up.clone());
            while all.len() < questions {
                all.push(hears.recv().await.unwrap());
            }
            while all.len() < 2 * questions {
                told.send_replace(Condition::default());
                tokio::task::yield_now().await;
                told.send_replace(up.clone());
                tokio::task::yield_now().await;
                all.extend(hears.try_recv());
            }
        };
        tokio::time::timeout(Duration::from_secs(20), both).await.unwrap();
        task.abort();
        all
    }

    /// containerd logs an error for each such question.
    #[tokio::test]
    async fn a_runtime_without_events_is_asked_again_when_it_was_away() {
        assert_eq!(asked(false, 2).await, ["version", "events", "version", "events"]);
        assert_eq!(asked(true, 1).await, ["version", "version"]);
    }
}
