//! Watch: the events of a selection, as a stream.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rand::Rng as _;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use trireme_kinds::Kind;
use trireme_machinery::status::Status;

use super::engine::{Engine, Target};
use super::options::ListOptions;
use super::read::Fresh;
use super::{Context, Stored};
use crate::cache::{Begin, Cache, Change, Dispatch, Event};
use crate::storage::codec;

/// How often a watcher that wants bookmarks gets one.
const BOOKMARKS: Duration = Duration::from_secs(60);
/// How long before its end a watch sends a last bookmark.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// What a watcher gets.
#[derive(Debug, Clone)]
pub enum WatchItem {
    /// An event. Of an object that left the selection, its last version in it, at the event's revision.
    Event(Change, Arc<Stored>),
    /// Everything up to this revision was sent; the flag marks the end of the initial events.
    Bookmark(i64, bool),
    /// The answer to a question for progress: everything up to this revision was sent.
    Progress(i64),
    /// The watch ends with this.
    Error(Box<Status>),
}

/// A running watch.
pub struct Watcher {
    /// The kind in the version that was asked for.
    pub kind: Arc<Kind>,
    cache: Cache,
    ready: VecDeque<WatchItem>,
    events: mpsc::Receiver<Dispatch>,
    /// Everything up to this revision was handed out or is in `ready`.
    reached: i64,
    end: Instant,
    /// When the next bookmark is due.
    bookmark: Option<Instant>,
    /// A revision that is to be confirmed.
    asked: Option<i64>,
    ended: bool,
}

// === impl Engine ===

impl Engine {
    /// Starts a watch. What is wrong with its revision comes as its first item, as clients of Kubernetes expect it.
    pub(crate) async fn watch_objects(
        &self,
        context: &Context,
        target: &Target,
        options: &ListOptions,
    ) -> Result<Watcher, Status> {
        let selection = Arc::new(self.selection(target, options)?);
        let (begin, fresh) = match (options.initial_events, options.revision) {
            (Some(true), revision) => (Begin::Now, Fresh::of(revision)),
            (Some(false), None | Some(0)) => (Begin::After(-1), Fresh::Newest),
            (None, None) => (Begin::Now, Fresh::Newest),
            (None, Some(0)) => (Begin::Now, Fresh::Any),
            (_, Some(revision)) => (Begin::After(i64::try_from(revision).unwrap_or(i64::MAX)), Fresh::Any),
        };
        self.fresh_cache(context, fresh).await?;
        let begin = if begin == Begin::After(-1) { Begin::After(self.cache.head().revision) } else { begin };
        let subscribed = self.cache.subscribe(&target.kind.storage, selection.clone(), begin).await?;
        // Asked behind the begin: what is lost later ends the watch.
        if let Some((snapshot, _)) = self.cache.snapshot(&target.kind.storage) {
            snapshot.check(&selection)?;
        }
        let end = Instant::now()
            + options.timeout.unwrap_or_else(|| self.min_watch.mul_f64(rand::rng().random_range(1.0..2.0)));
        let mut watcher = Watcher {
            kind: target.kind.clone(),
            cache: self.cache.clone(),
            ready: VecDeque::new(),
            events: mpsc::channel(1).1,
            reached: 0,
            end,
            bookmark: options.bookmarks.then(|| next_bookmark(end)),
            asked: None,
            ended: false,
        };
        match subscribed {
            Err(too_old) => {
                let text = format!("too old resource version: {} ({})", too_old.asked, too_old.oldest);
                watcher.ready.push_back(WatchItem::Error(Box::new(Status::expired(text))));
                watcher.ended = true;
            }
            Ok(subscription) => {
                if let Some(snapshot) = &subscription.snapshot {
                    let held = snapshot.items.range(&selection.prefix, "").filter(|object| selection.holds(object));
                    watcher.ready.extend(held.map(|object| WatchItem::Event(Change::Added, object.clone())));
                    if options.initial_events == Some(true) && options.bookmarks {
                        watcher.ready.push_back(WatchItem::Bookmark(subscription.revision, true));
                    }
                }
                watcher.ready.extend(subscription.backlog.iter().map(|(change, event)| item(*change, event)));
                watcher.reached = subscription.revision;
                watcher.events = subscription.events;
            }
        }
        Ok(watcher)
    }
}

// === impl Watcher ===

impl Watcher {
    /// Asks to be told when everything up to `revision` was handed out.
    pub fn ask(&mut self, revision: i64) {
        self.asked = Some(self.asked.map_or(revision, |asked| asked.max(revision)));
    }

    /// The next item; None at the end. May be dropped while it waits and called again.
    pub async fn next(&mut self) -> Option<WatchItem> {
        let mut heads = self.cache.heads();
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(item);
            }
            if self.ended {
                return None;
            }
            // What was dispatched before this revision was published is in the channel by now.
            let head = heads.borrow_and_update().revision;
            if let Ok(dispatch) = self.events.try_recv() {
                self.take(dispatch);
                continue;
            }
            self.reached = self.reached.max(head);
            if self.asked.is_some_and(|asked| asked <= self.reached) {
                self.asked = None;
                return Some(WatchItem::Progress(self.reached));
            }
            if self.bookmark.is_some_and(|due| due <= Instant::now()) {
                self.bookmark = Some(next_bookmark(self.end));
                return Some(WatchItem::Bookmark(self.reached, false));
            }
            tokio::select! {
                biased;
                dispatch = self.events.recv() => match dispatch {
                    Some(dispatch) => self.take(dispatch),
                    None => self.ended = true,
                },
                () = sleep_until(self.end) => self.ended = true,
                () = sleep_until(self.bookmark.unwrap_or(self.end)) => {}
                changed = heads.changed(), if self.asked.is_some() => self.ended |= changed.is_err(),
            }
        }
    }

    /// The next item, if it is there already.
    pub fn ready(&mut self) -> Option<WatchItem> {
        if self.ready.is_empty()
            && !self.ended
            && let Ok(dispatch) = self.events.try_recv()
        {
            self.take(dispatch);
        }
        self.ready.pop_front()
    }

    fn take(&mut self, dispatch: Dispatch) {
        match dispatch {
            Dispatch::Event(change, event) => self.ready.push_back(item(change, &event)),
            Dispatch::Expired => {
                let text = "The resourceVersion for the provided watch is too old.";
                self.ready.push_back(WatchItem::Error(Box::new(Status::expired(text))));
                self.ended = true;
            }
        }
    }
}

/// Bookmarks come once a minute, and shortly before the end.
fn next_bookmark(end: Instant) -> Instant {
    let now = Instant::now();
    match end.checked_sub(LAST_BOOKMARK) {
        Some(last) if last > now => last.min(now + BOOKMARKS),
        _ => end + BOOKMARKS,
    }
}

fn item(change: Change, event: &Event) -> WatchItem {
    let left = change == Change::Deleted && !event.deleted;
    let object = match &event.previous {
        Some(previous) if left => Arc::new(codec::at_revision(previous, event.revision, event.object.cause.clone())),
        _ => event.object.clone(),
    };
    WatchItem::Event(change, object)
}
