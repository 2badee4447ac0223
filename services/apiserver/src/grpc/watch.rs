//! Many watches on one stream.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use trireme_machinery::status::Status;
use trireme_proto::resources::v1 as api;
use trireme_proto::resources::v1::watch_event::Type;
use trireme_proto::resources::v1::watch_request::Request as Ask;

use super::convert::{self, Caller};
use crate::cache::Change;
use crate::pipeline::{Answer, Engine, WatchItem, Watcher};
use crate::storage::read_index::ReadIndex;

/// Events that may wait for the connection.
const QUEUE: usize = 256;
/// Questions for progress that may wait.
const QUESTIONS: usize = 16;

pub(super) type Events = mpsc::Receiver<Result<api::WatchEvent, tonic::Status>>;
type Out = mpsc::Sender<Result<api::WatchEvent, tonic::Status>>;

/// Serves a stream of selections until the client ends it.
pub(super) fn serve(engine: Engine, caller: Caller, mut asks: tonic::Streaming<api::WatchRequest>) -> Events {
    let (out, events) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        let mut selections: HashMap<u64, mpsc::Sender<()>> = HashMap::new();
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                ask = asks.next() => match ask {
                    Some(Ok(api::WatchRequest { request: Some(ask) })) => match ask {
                        Ask::Open(open) => {
                            let (questions, inbox) = mpsc::channel(QUESTIONS);
                            selections.insert(open.id, questions);
                            let work = select(engine.clone(), caller.clone(), open.id, open.selection.unwrap_or_default(), inbox, out.clone());
                            running.spawn(guarded(work, open.id, out.clone()));
                        }
                        // Dropping the sender ends the selection.
                        Ask::Close(close) => drop(selections.remove(&close.id)),
                        Ask::Progress(progress) => if let Some(questions) = selections.get(&progress.id) {
                            let _ = questions.send(()).await;
                        },
                    },
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return,
                },
                Some(ended) = running.join_next() => if let Ok(id) = ended {
                    selections.remove(&id);
                },
                () = out.closed() => return,
            }
        }
    });
    events
}

/// A selection that panics ends with an error, like any other: its client would wait for events for ever.
async fn guarded(work: impl Future<Output = ()>, id: u64, out: Out) -> u64 {
    if AssertUnwindSafe(work).catch_unwind().await.is_err() {
        // The panic's own message is in the log.
        tracing::error!(id, "a selection of a watch panicked");
        refuse(&out, id, &Status::internal("This watch caused apiserver to panic. Look in the logs for details."))
            .await;
    }
    id
}

/// One selection, from its request to its end.
async fn select(
    engine: Engine,
    caller: Caller,
    id: u64,
    mut selection: api::Request,
    mut questions: mpsc::Receiver<()>,
    out: Out,
) {
    selection.verb = "watch".to_owned();
    let request = match caller.request(selection) {
        Ok(request) => request,
        Err(refusal) => return refuse(&out, id, &refusal).await,
    };
    // Boxed, because a watch that waits for events should not keep the room that opening it took.
    let watcher = match Box::pin(engine.serve(&request)).await.outcome {
        Ok(Answer::Watch(watcher)) => *watcher,
        Ok(_) => return refuse(&out, id, &Status::internal("not a watch")).await,
        Err(refusal) => return refuse(&out, id, &refusal).await,
    };
    let stands = follow(&engine.reads, watcher, id, &mut questions, &out).await;
    if stands {
        let closed = api::WatchEvent { id, r#type: Type::Closed.into(), ..api::WatchEvent::default() };
        let _ = out.send(Ok(closed)).await;
    }
}

async fn refuse(out: &Out, id: u64, refusal: &Status) {
    let _ = out.send(Ok(error(id, refusal))).await;
}

/// Hands events on. Answers whether the client should hear that the watch ended.
async fn follow(
    reads: &ReadIndex,
    mut watcher: Watcher,
    id: u64,
    questions: &mut mpsc::Receiver<()>,
    out: &Out,
) -> bool {
    loop {
        let item = tokio::select! {
            item = watcher.next() => item,
            question = questions.recv() => match question {
                None => return true,
                Some(()) => {
                    // Linearizable as of the question; asked after it arrived.
                    match reads.get(tokio::time::Instant::now() + crate::pipeline::context::DEFAULT_TIMEOUT).await {
                        Ok(revision) => watcher.ask(revision),
                        Err(why) => {
                            let _ = out.send(Ok(error(id, &why.status()))).await;
                            return false;
                        }
                    }
                    continue;
                }
            },
        };
        let Some(item) = item else { return true };
        let last = matches!(item, WatchItem::Error(_));
        if out.send(Ok(event(&watcher, id, &item))).await.is_err() || last {
            return false;
        }
    }
}

fn event(watcher: &Watcher, id: u64, item: &WatchItem) -> api::WatchEvent {
    let bare =
        |kind: Type, revision: i64| api::WatchEvent { id, r#type: kind.into(), revision, ..api::WatchEvent::default() };
    match item {
        WatchItem::Event(change, stored) => {
            let kind = match change {
                Change::Added => Type::Added,
                Change::Modified => Type::Modified,
                Change::Deleted => Type::Deleted,
            };
            let api::Item { object, revision, cause } = convert::item(&watcher.kind, stored);
            api::WatchEvent { id, r#type: kind.into(), object, revision, cause }
        }
        WatchItem::Bookmark(revision, initial) => {
            let object = if *initial { Bytes::from_static(INITIAL_END) } else { Bytes::new() };
            api::WatchEvent { object, ..bare(Type::Bookmark, *revision) }
        }
        WatchItem::Progress(revision) => bare(Type::Progress, *revision),
        WatchItem::Error(status) => error(id, status),
    }
}

/// The object of the bookmark behind the initial events.
const INITIAL_END: &[u8] = br#"{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}"#;

fn error(id: u64, status: &Status) -> api::WatchEvent {
    let object = serde_json::to_vec(status).unwrap_or_default().into();
    api::WatchEvent { id, r#type: Type::Error.into(), object, ..api::WatchEvent::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_client_of_a_selection_that_panics_is_told() {
        let (out, mut events) = mpsc::channel(1);
        let mut running = JoinSet::new();
        running.spawn(guarded(async { panic!("of the test") }, 7, out));
        assert_eq!(running.join_next().await.unwrap().unwrap(), 7);
        let event = events.recv().await.unwrap().unwrap();
        assert_eq!((event.id, event.r#type()), (7, Type::Error));
        let status: Status = serde_json::from_slice(&event.object).unwrap();
        assert_eq!(status.code(), 500);
    }
}
