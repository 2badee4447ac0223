//! All watches of a client on one stream. One task owns the stream; it opens it when the first selection is wanted and
//! again after it broke, with back-off. A broken stream ends every selection with an error: who watches (an informer)
//! opens its selection again from the last revision it saw, so nothing is kept here but who listens. A panic ends the
//! stream and every selection just so, and the task begins anew.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tonic::Streaming;
use trireme_machinery::status::Status;
use trireme_proto::resources::v1 as proto;
use trireme_proto::resources::v1::watch_event::Type;
use trireme_proto::resources::v1::watch_request::{Close, Open, Progress, Request as Ask};
use trireme_service::tasks::Tasks;

use super::grpc::{Door, cause_of, failure};
use super::{RawEvent, RawObject, WatchStream};
use crate::backoff::Backoff;
use crate::error::Error;

/// Events that wait for a slow reader before the stream is held up.
const BUFFERED_EVENTS: usize = 1024;
/// Commands that wait for the task. Whoever opens a selection waits for room, a question is asked again later, and a
/// selection that could not be closed is found by [`SWEEP`].
const COMMANDS: usize = 256;
/// Requests that wait for the server; one that takes no more is taken for dead.
const REQUESTS: usize = 1024;
/// How often selections are looked for that nobody listens to any more.
const SWEEP: Duration = Duration::from_secs(30);

type Listener = mpsc::Sender<Result<RawEvent, Error>>;

#[derive(Debug)]
enum Command {
    Open { id: u64, selection: Box<proto::Request>, listener: Listener },
    Close { id: u64 },
    Progress { id: u64 },
}

/// Handle of the task that owns the stream.
#[derive(Debug)]
pub(super) struct Watches {
    commands: mpsc::Sender<Command>,
    next: std::sync::atomic::AtomicU64,
}

/// A selection that is open; dropping it closes it.
#[derive(Debug)]
pub(crate) struct Selection {
    id: u64,
    commands: mpsc::Sender<Command>,
}

impl Selection {
    /// Asks for progress; false: not now.
    pub(super) fn ask_progress(&self) -> bool {
        self.commands.try_send(Command::Progress { id: self.id }).is_ok()
    }
}

impl Drop for Selection {
    fn drop(&mut self) {
        let _ = self.commands.try_send(Command::Close { id: self.id });
    }
}

impl Watches {
    /// The task ends when the handle and every selection are dropped.
    pub(super) fn start(door: Door) -> Self {
        let (commands, receiver) = mpsc::channel(COMMANDS);
        let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
        // A client may be of no service, so these are tasks of its own.
        Tasks::new(CancellationToken::new()).supervise("watches", move || {
            let (door, receiver) = (door.clone(), receiver.clone());
            async move { Owner { door, listeners: HashMap::new() }.run(&mut *receiver.lock().await).await }
        });
        Self { commands, next: std::sync::atomic::AtomicU64::new(1) }
    }

    /// Opens a selection; what goes wrong comes as its first event.
    pub(super) async fn open(&self, selection: proto::Request) -> WatchStream {
        let id = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (listener, events) = mpsc::channel(BUFFERED_EVENTS);
        // Where the task is gone the listener is dropped, which ends the stream.
        let _ = self.commands.send(Command::Open { id, selection: Box::new(selection), listener }).await;
        let selection = Selection { id, commands: self.commands.clone() };
        WatchStream { events, progress: Some(selection), _guard: None }
    }
}

struct Owner {
    door: Door,
    listeners: HashMap<u64, Listener>,
}

enum Ended {
    Broken(Error),
    NobodyLeft,
}

impl Owner {
    async fn run(mut self, commands: &mut mpsc::Receiver<Command>) {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
        while let Some(first) = commands.recv().await {
            // A close or a question about a selection of an earlier stream has nothing to act on.
            if !matches!(first, Command::Open { .. }) {
                continue;
            }
            let (requests, receiver) = mpsc::channel(REQUESTS);
            // There is room for all that can be waiting.
            let _ = self.handle(first, &requests);
            match self.door.open_watches(receiver).await {
                Ok(events) => {
                    backoff.reset();
                    match self.serve(events, &requests, commands).await {
                        Ended::Broken(error) => {
                            tracing::info!(%error, watches = self.listeners.len(), "the watches broke, opening them again");
                            self.fail_all(&error).await;
                        }
                        Ended::NobodyLeft => return,
                    }
                }
                Err(error) => {
                    // Those that asked meanwhile wait for the same server.
                    while let Ok(command) = commands.try_recv() {
                        let _ = self.handle(command, &requests);
                    }
                    tracing::info!(%error, "cannot watch");
                    self.fail_all(&error).await;
                    tokio::time::sleep(backoff.wait()).await;
                }
            }
        }
    }

    async fn serve(
        &mut self,
        mut events: Streaming<proto::WatchEvent>,
        requests: &mpsc::Sender<proto::WatchRequest>,
        commands: &mut mpsc::Receiver<Command>,
    ) -> Ended {
        let mut sweep = tokio::time::interval(SWEEP);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(command) => if let Err(error) = self.handle(command, requests) {
                        return Ended::Broken(error);
                    },
                    None => return Ended::NobodyLeft,
                },
                event = events.message() => match event {
                    Ok(Some(event)) => self.deliver(event).await,
                    Ok(None) => return Ended::Broken(Error::disconnected("the server closed it")),
                    Err(status) => return Ended::Broken(failure("the watch stream", &status)),
                },
                _ = sweep.tick() => if let Err(error) = self.sweep(requests) {
                    return Ended::Broken(error);
                },
            }
        }
    }

    /// Closes what nobody listens to.
    fn sweep(&mut self, requests: &mpsc::Sender<proto::WatchRequest>) -> Result<(), Error> {
        let left: Vec<u64> = self.listeners.iter().filter(|(_, l)| l.is_closed()).map(|(id, _)| *id).collect();
        left.into_iter().try_for_each(|id| self.handle(Command::Close { id }, requests))
    }

    fn handle(&mut self, command: Command, requests: &mpsc::Sender<proto::WatchRequest>) -> Result<(), Error> {
        let ask = match command {
            Command::Open { id, selection, listener } => {
                self.listeners.insert(id, listener);
                Ask::Open(Open { id, selection: Some(*selection) })
            }
            Command::Close { id } => {
                if self.listeners.remove(&id).is_none() {
                    return Ok(());
                }
                Ask::Close(Close { id })
            }
            Command::Progress { id } => Ask::Progress(Progress { id }),
        };
        match requests.try_send(proto::WatchRequest { request: Some(ask) }) {
            Err(mpsc::error::TrySendError::Full(_)) => Err(Error::disconnected("the server takes no more requests")),
            // A stream that broke is noticed by its reader.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
        }
    }

    async fn deliver(&mut self, event: proto::WatchEvent) {
        let id = event.id;
        let Some(listener) = self.listeners.get(&id) else { return };
        let object = |event: proto::WatchEvent| RawObject {
            object: event.object,
            revision: event.revision,
            cause: cause_of(event.cause),
        };
        let message = match event.r#type() {
            Type::Added => Ok(RawEvent::Added(object(event))),
            Type::Modified => Ok(RawEvent::Modified(object(event))),
            Type::Deleted => Ok(RawEvent::Deleted(object(event))),
            Type::Bookmark => Ok(RawEvent::Bookmark(event.revision)),
            Type::Progress => Ok(RawEvent::Progress(event.revision)),
            Type::Error => Err(match serde_json::from_slice::<Status>(&event.object) {
                Ok(status) => status.into(),
                Err(error) => Error::decode("watch error", error),
            }),
            Type::Closed => {
                self.listeners.remove(&id);
                return;
            }
            Type::Unknown => return,
        };
        let last = message.is_err();
        if listener.send(message).await.is_err() || last {
            self.listeners.remove(&id);
        }
    }

    async fn fail_all(&mut self, error: &Error) {
        for (_, listener) in self.listeners.drain() {
            let _ = listener.send(Err(error.clone())).await;
        }
    }
}
