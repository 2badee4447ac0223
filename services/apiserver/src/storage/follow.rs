//! The feed of the watch cache: a list, then every revision after it, in order and without a gap.
//!
//! This one follows the store's own Watch. It watches every key (the server's own and foreign ones), so that each
//! revision of the store passes by and a reader who waits for a revision knows when it was reached.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use trireme_proto::etcdserverpb::watch_request::RequestUnion;
use trireme_proto::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use trireme_proto::mvccpb::{Event, KeyValue};

use super::{Client, compactor};
use crate::error::Error;

/// How many revisions before the newest the list begins, so that watchers can resume after a restart of this server.
const LOOK_BACK: i64 = 4000;
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What the cache is fed.
#[derive(Debug)]
pub enum Feed {
    /// Forget everything: this is the store at `revision`. `target` is the newest revision when it was read; the cache
    /// is worth serving once it got there.
    Reset {
        /// Every object.
        items: Vec<KeyValue>,
        /// As of this revision.
        revision: i64,
        /// What the store was at.
        target: i64,
    },
    /// One revision.
    Revision {
        /// Which.
        revision: i64,
        /// All its events.
        events: Vec<Event>,
    },
    /// Everything up to this revision has passed.
    Progress(i64),
}

/// Feeds for ever from the store's Watch alone. Ends when nobody takes the feed any more.
pub async fn run(client: Client, root: String, feed: mpsc::Sender<Feed>) {
    let mut pause = Pause::default();
    let mut seen = None;
    loop {
        let result = match &mut seen {
            None => match list(&client, &root, &feed).await {
                Ok(listed) => {
                    seen = Some(listed.revision);
                    Ok(())
                }
                Err(error) => Err(error),
            },
            Some(last) => {
                let before = *last;
                let result = watch(&client, last, i64::MAX, &feed).await;
                if *last > before {
                    pause = Pause::default();
                }
                result
            }
        };
        match result {
            Ok(()) => {}
            Err(Error::Stopped(_)) => return,
            Err(Error::Compacted) => {
                tracing::warn!("the store has compacted what was not yet seen; listing again");
                seen = None;
            }
            Err(error) => {
                tracing::warn!(%error, "following the store failed; trying again");
                client.give_up();
                pause.wait().await;
            }
        }
    }
}

/// Ever longer pauses between attempts.
pub(super) struct Pause(Duration);

impl Default for Pause {
    fn default() -> Self {
        Self(FIRST_PAUSE)
    }
}

impl Pause {
    pub(super) async fn wait(&mut self) {
        sleep(self.0).await;
        self.0 = (self.0 * 2).min(LONGEST_PAUSE);
    }
}

/// A list that the cache was given.
pub(super) struct Listed {
    /// As of this revision.
    pub(super) revision: i64,
    /// The newest revision when it was read.
    pub(super) target: i64,
}

/// Gives the cache everything there is, as it was a while ago, so that what happened since can be told to watchers.
pub(super) async fn list(client: &Client, root: &str, feed: &mpsc::Sender<Feed>) -> Result<Listed, Error> {
    let compacted = compactor::compacted(client, Instant::now() + PATIENCE).await?;
    let (_, target) = client.get(compactor::KEY, Instant::now() + PATIENCE).await?;
    let begin = (target - LOOK_BACK).max(compacted).max(1);
    let prefix = format!("{root}/");
    let mut items = Vec::new();
    let revision = match client.scan(&prefix, begin, PATIENCE, |page| items.extend(page)).await {
        Err(Error::Compacted) => {
            items.clear();
            client.scan(&prefix, 0, PATIENCE, |page| items.extend(page)).await?
        }
        other => other?,
    };
    let target = target.max(revision);
    feed.send(Feed::Reset { items, revision, target }).await.map_err(|_| stopped())?;
    Ok(Listed { revision, target })
}

/// Gives the cache every revision behind `last` as the store's Watch tells it, up to `until`; `last` moves along.
pub(super) async fn watch(client: &Client, last: &mut i64, until: i64, feed: &mpsc::Sender<Feed>) -> Result<(), Error> {
    let create = WatchCreateRequest {
        key: Bytes::from_static(b"\0"),
        range_end: Bytes::from_static(b"\0"),
        start_revision: *last + 1,
        progress_notify: true,
        fragment: true,
        ..WatchCreateRequest::default()
    };
    let (requests, outgoing) = mpsc::channel(4);
    let request = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
    requests.send(request).await.map_err(|_| stopped())?;
    let outgoing = tokio_stream::wrappers::ReceiverStream::new(outgoing);
    let mut member = client.member();
    let opened = tokio::time::timeout(PATIENCE, member.watch.watch(outgoing)).await;
    let mut answers = match opened {
        Ok(Ok(answers)) => answers.into_inner(),
        Ok(Err(status)) => return Err(Error::Watch(Box::new(status))),
        Err(_) => return Err(Error::StoreTimeout("no watch".to_owned())),
    };
    let mut pending = Pending::default();
    loop {
        let answer = tokio::select! {
            answer = answers.message() => answer,
            () = feed.closed() => return Err(stopped()),
        };
        match answer {
            Ok(Some(answer)) => {
                if answer.compact_revision > 0 {
                    return Err(Error::Compacted);
                }
                if answer.canceled {
                    return Err(Error::WatchCancelled(answer.cancel_reason));
                }
                hand_on(pending.take(answer), last, feed).await?;
                if *last >= until {
                    return Ok(());
                }
            }
            Ok(None) => return Err(Error::WatchEnded),
            Err(status) => return Err(Error::Watch(Box::new(status))),
        }
    }
}

/// Gives these steps to the cache. `last` moves only behind what was taken: whoever drops this begins again right there.
async fn hand_on(steps: Vec<Feed>, last: &mut i64, feed: &mpsc::Sender<Feed>) -> Result<(), Error> {
    for step in steps {
        let reached = match &step {
            Feed::Revision { revision, .. } | Feed::Progress(revision) => *revision,
            Feed::Reset { .. } => *last,
        };
        feed.send(step).await.map_err(|_| stopped())?;
        *last = reached;
    }
    Ok(())
}

/// Events that wait for the rest of their revision: a response may come in fragments.
#[derive(Default)]
struct Pending(BTreeMap<i64, Vec<Event>>);

impl Pending {
    fn take(&mut self, answer: WatchResponse) -> Vec<Feed> {
        let (fragment, head) = (answer.fragment, answer.header.as_ref().map_or(0, |header| header.revision));
        let progress = answer.events.is_empty() && !answer.created && !fragment && self.0.is_empty();
        for event in answer.events {
            let revision = event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
            self.0.entry(revision).or_default().push(event);
        }
        if fragment {
            return Vec::new();
        }
        if progress {
            return vec![Feed::Progress(head)];
        }
        std::mem::take(&mut self.0).into_iter().map(|(revision, events)| Feed::Revision { revision, events }).collect()
    }
}

pub(super) fn stopped() -> Error {
    Error::Stopped("the watch cache")
}

/// The key of an event as text; None for keys that are none of ours.
pub fn key_of(kv: &KeyValue) -> Option<&str> {
    std::str::from_utf8(&kv.key).ok()
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn what_the_cache_did_not_take_is_not_counted() {
        let (feed, mut fed) = mpsc::channel(1);
        let step = |revision| Feed::Revision { revision, events: Vec::new() };
        let mut last = 4;
        // The feed has room for one: the second step waits, and its waiting is given up.
        let dropped = hand_on(vec![step(5), step(6), Feed::Progress(7)], &mut last, &feed).now_or_never();
        assert!(dropped.is_none());
        assert_eq!(last, 5);
        assert!(matches!(fed.recv().await, Some(Feed::Revision { revision: 5, .. })));
        hand_on(vec![step(last + 1)], &mut last, &feed).await.unwrap();
        assert!(matches!(fed.recv().await, Some(Feed::Revision { revision: 6, .. })));
    }
}
