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
const PATIENCE: Duration = Duration::from_secs(10);
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

/// Feeds for ever. Ends when nobody takes the feed any more.
pub async fn run(client: Client, root: String, feed: mpsc::Sender<Feed>) {
    let mut pause = FIRST_PAUSE;
    let mut seen = None;
    loop {
        let result = match seen {
            None => list(&client, &root, &feed).await.map(|revision| seen = Some(revision)),
            Some(after) => {
                let mut last = after;
                let result = watch(&client, &mut last, &feed).await;
                if last > after {
                    pause = FIRST_PAUSE;
                }
                seen = Some(last);
                result
            }
        };
        match result {
            Ok(()) => continue,
            Err(Error::Stopped(_)) => return,
            Err(Error::Compacted) => {
                tracing::warn!("the store has compacted what was not yet seen; listing again");
                seen = None;
            }
            Err(error) => {
                tracing::warn!(%error, "following the store failed; trying again");
                client.give_up();
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

async fn list(client: &Client, root: &str, feed: &mpsc::Sender<Feed>) -> Result<i64, Error> {
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
    Ok(revision)
}

async fn watch(client: &Client, last: &mut i64, feed: &mpsc::Sender<Feed>) -> Result<(), Error> {
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
        Ok(Err(status)) => return Err(Error::Store(status.message().to_owned())),
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
                    return Err(Error::Store(format!("the watch was cancelled: {}", answer.cancel_reason)));
                }
                for message in pending.take(answer) {
                    *last = match &message {
                        Feed::Revision { revision, .. } | Feed::Progress(revision) => *revision,
                        Feed::Reset { .. } => *last,
                    };
                    feed.send(message).await.map_err(|_| stopped())?;
                }
            }
            Ok(None) => return Err(Error::Store("the watch ended".to_owned())),
            Err(status) => return Err(Error::Store(status.message().to_owned())),
        }
    }
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
        std::mem::take(&mut self.0)
            .into_iter()
            .map(|(revision, events)| Feed::Revision { revision, events })
            .collect()
    }
}

fn stopped() -> Error {
    Error::Stopped("the watch cache")
}

/// The key of an event as text; None for keys that are none of ours.
pub fn key_of(kv: &KeyValue) -> Option<&str> {
    std::str::from_utf8(&kv.key).ok()
}

