//! All watches of a client on one stream. One task owns the stream; it opens it when the first selection is wanted and
//! again after it broke, with back-off. A broken stream ends every selection with an error: who watches (an informer)
//! opens its selection again from the last revision it saw, so nothing is kept here but who listens.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::mpsc;
use tonic::Streaming;
use trireme_machinery::status::Status;
use trireme_proto::resources::v1 as proto;
use trireme_proto::resources::v1::watch_event::Type;
use trireme_proto::resources::v1::watch_request::{Close, Open, Progress, Request as Ask};

use super::grpc::{Door, cause_of, failure};
use super::{RawEvent, RawObject, WatchStream};
use crate::backoff::Backoff;
use crate::error::Error;

/// Events that wait for a slow reader before the stream is held up.
const BUFFERED_EVENTS: usize = 1024;

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
    commands: mpsc::UnboundedSender<Command>,
    next: std::sync::atomic::AtomicU64,
}

impl Watches {
    /// The task ends when the handle and every selection are dropped.
    pub(super) fn start(door: Door) -> Self {
        let (commands, receiver) = mpsc::unbounded_channel();
        tokio::spawn(Owner { door, listeners: HashMap::new() }.run(receiver));
        Self { commands, next: std::sync::atomic::AtomicU64::new(1) }
    }

    /// Opens a selection; what goes wrong comes as its first event.
    pub(super) fn open(&self, selection: proto::Request) -> WatchStream {
        let id = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (listener, events) = mpsc::channel(BUFFERED_EVENTS);
        let (ask, mut asked) = mpsc::unbounded_channel::<()>();
        let _ = self.commands.send(Command::Open { id, selection: Box::new(selection), listener });
        let commands = self.commands.clone();
        tokio::spawn(async move {
            while asked.recv().await.is_some() {
                if commands.send(Command::Progress { id }).is_err() {
                    return;
                }
            }
            let _ = commands.send(Command::Close { id });
        });
        // Dropping the stream drops `ask`, which ends the task above, which closes the selection.
        WatchStream { events, progress: Some(ask), _guard: None }
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
    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
        while let Some(first) = commands.recv().await {
            // A close or a question about a selection of an earlier stream has nothing to act on.
            if !matches!(first, Command::Open { .. }) {
                continue;
            }
            let (requests, receiver) = mpsc::unbounded_channel();
            self.handle(first, &requests);
            match self.door.open_watches(receiver).await {
                Ok(events) => {
                    backoff.reset();
                    match self.serve(events, &requests, &mut commands).await {
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
                        self.handle(command, &requests);
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
        requests: &mpsc::UnboundedSender<proto::WatchRequest>,
        commands: &mut mpsc::UnboundedReceiver<Command>,
    ) -> Ended {
        loop {
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(command) => self.handle(command, requests),
                    None => return Ended::NobodyLeft,
                },
                event = events.message() => match event {
                    Ok(Some(event)) => self.deliver(event).await,
                    Ok(None) => return Ended::Broken(Error::Disconnected("the server closed it".into())),
                    Err(status) => return Ended::Broken(failure("the watch stream", &status)),
                },
            }
        }
    }

    fn handle(&mut self, command: Command, requests: &mpsc::UnboundedSender<proto::WatchRequest>) {
        let ask = match command {
            Command::Open { id, selection, listener } => {
                self.listeners.insert(id, listener);
                Ask::Open(Open { id, selection: Some(*selection) })
            }
            Command::Close { id } => {
                if self.listeners.remove(&id).is_none() {
                    return;
                }
                Ask::Close(Close { id })
            }
            Command::Progress { id } => Ask::Progress(Progress { id }),
        };
        // A stream that broke is noticed by its reader.
        let _ = requests.send(proto::WatchRequest { request: Some(ask) });
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
