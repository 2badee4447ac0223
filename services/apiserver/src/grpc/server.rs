//! The gRPC server.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use futures::{FutureExt as _, Stream, StreamExt as _};
use rand::Rng as _;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Streaming};
use trireme_machinery::status::Status;
use trireme_proto::resources::v1 as api;
use trireme_proto::resources::v1::resources_server::{Resources, ResourcesServer};
use trireme_service::tls;

use super::convert::{self, Caller};
use super::watch;
use crate::pipeline::{Answer, Body, Engine, ListAnswer, PANICKED, Served};

/// How large a message of a client may be: a body and its options.
const MAX_REQUEST: usize = 4 << 20;
/// A chunk of a list is sent when it grows past this.
const CHUNK: usize = 512 << 10;
/// How long a connection lives at least; up to half as long again, so that clients spread over API servers.
const LIFE: Duration = Duration::from_secs(3600);
/// How many lives there are. Who came at the same moment, as after a restart of a server, doesn't leave at the same moment.
const LIVES: usize = 8;

/// The door.
pub struct Door {
    /// Where it is.
    pub address: SocketAddr,
    engine: Engine,
    listener: TcpListener,
    tls: Arc<ServerConfig>,
}

struct Service {
    engine: Engine,
}

// === impl Door ===

impl Door {
    /// A door over a listener.
    pub fn new(engine: Engine, listener: TcpListener, tls: Arc<ServerConfig>) -> std::io::Result<Self> {
        Ok(Self { address: listener.local_addr()?, engine, listener, tls })
    }

    /// Serves until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), tonic::transport::Error> {
        let mut incoming = tls::incoming(self.listener, Some(self.tls));
        let (doors, inboxes): (Vec<_>, Vec<_>) = (0..LIVES).map(|_| mpsc::channel(1)).unzip();
        let servers = lives().into_iter().zip(inboxes).map(|(life, inbox)| {
            let service = ResourcesServer::new(Service { engine: self.engine.clone() })
                .max_decoding_message_size(MAX_REQUEST)
                .max_encoding_message_size(usize::MAX);
            tonic::transport::Server::builder()
                .http2_keepalive_interval(Some(Duration::from_secs(10)))
                .http2_keepalive_timeout(Some(Duration::from_secs(10)))
                .max_connection_age(life)
                .max_connection_age_grace(Duration::from_secs(60))
                .initial_stream_window_size(1 << 20)
                .initial_connection_window_size(4 << 20)
                .add_service(service)
                .serve_with_incoming_shutdown(ReceiverStream::new(inbox), shutdown.clone().cancelled_owned())
        });
        let spread = async {
            for door in doors.iter().cycle() {
                let Some(connection) = incoming.next().await else { break };
                // A server that has ended takes no more.
                let _ = door.send(connection).await;
            }
            // The servers end by themselves.
            std::future::pending::<()>().await;
        };
        tokio::select! {
            served = try_join_all(servers) => served.map(|_| ()),
            () = spread => Ok(()),
        }
    }
}

/// Lives that differ, each of its own part of the time.
fn lives() -> Vec<Duration> {
    let part = 0.5 / LIVES as f64;
    (0..LIVES).map(|n| LIFE.mul_f64(1.0 + part * (n as f64 + rand::rng().random_range(0.0..1.0)))).collect()
}

// === impl Service ===

type Reply<T> = Result<Response<T>, tonic::Status>;

#[tonic::async_trait]
impl Resources for Service {
    async fn r#do(&self, call: Request<api::Request>) -> Reply<api::Answer> {
        let caller = Caller::of(call.metadata(), call.extensions(), &self.engine);
        let Served { context, outcome } = self.serve(&caller, call.into_inner()).await?;
        let mut answer = api::Answer { warnings: context.warnings(), code: 200, ..api::Answer::default() };
        match outcome.map_err(|refusal| convert::refusal(&refusal))? {
            Answer::Object(object) => {
                (answer.body, answer.revision, answer.cause) = convert::object(&object.object);
                answer.revision = answer.revision.max(context.written());
                answer.code = u32::from(object.code);
            }
            Answer::Status(status) => {
                answer.body = serde_json::to_vec(&*status).unwrap_or_default().into();
                answer.revision = context.written();
            }
            Answer::List(list) => {
                answer.revision = list.revision.max(context.written());
                let body = serde_json::json!({
                    "kind": list.kind.list_kind,
                    "apiVersion": list.kind.api_version(),
                    "metadata": {"resourceVersion": list.revision.to_string()},
                    "items": [],
                });
                answer.body = body.to_string().into();
            }
            Answer::Raw(raw) => {
                answer.code = u32::from(raw.code);
                if let Body::Full(body) = raw.body {
                    answer.body = body;
                }
            }
            Answer::Watch(_) => return Err(tonic::Status::invalid_argument("a watch goes through Watch")),
        }
        Ok(Response::new(answer))
    }

    type ListStream = Pin<Box<dyn Stream<Item = Result<api::ListChunk, tonic::Status>> + Send>>;

    async fn list(&self, call: Request<api::Request>) -> Reply<Self::ListStream> {
        let caller = Caller::of(call.metadata(), call.extensions(), &self.engine);
        let mut message = call.into_inner();
        message.verb = "list".to_owned();
        match self.serve(&caller, message).await?.outcome.map_err(|refusal| convert::refusal(&refusal))? {
            Answer::List(list) => {
                let (sender, chunks) = mpsc::channel(2);
                tokio::spawn(send_list(*list, sender));
                Ok(Response::new(Box::pin(ReceiverStream::new(chunks))))
            }
            _ => Err(tonic::Status::internal("not a list")),
        }
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<api::WatchEvent, tonic::Status>> + Send>>;

    async fn watch(&self, call: Request<Streaming<api::WatchRequest>>) -> Reply<Self::WatchStream> {
        let caller = Caller::of(call.metadata(), call.extensions(), &self.engine);
        let events = watch::serve(self.engine.clone(), caller, call.into_inner());
        Ok(Response::new(Box::pin(ReceiverStream::new(events))))
    }
}

impl Service {
    async fn serve(&self, caller: &Caller, message: api::Request) -> Result<Served, tonic::Status> {
        let request = caller.request(message).map_err(|refusal| convert::refusal(&refusal))?;
        let served = AssertUnwindSafe(self.engine.serve(&request)).catch_unwind().await;
        // The panic's own message is in the log.
        served.map_err(|_| convert::refusal(&Status::internal(PANICKED)))
    }
}

/// A list in chunks: the first carries the revision, the last says so.
async fn send_list(list: ListAnswer, out: mpsc::Sender<Result<api::ListChunk, tonic::Status>>) {
    let mut chunk = api::ListChunk { revision: list.revision, ..api::ListChunk::default() };
    let mut size = 0;
    for stored in &list.items {
        let item = convert::item(&list.kind, stored);
        size += item.object.len();
        chunk.items.push(item);
        if size >= CHUNK {
            size = 0;
            let full =
                std::mem::replace(&mut chunk, api::ListChunk { revision: list.revision, ..api::ListChunk::default() });
            if out.send(Ok(full)).await.is_err() {
                return;
            }
        }
    }
    chunk.last = true;
    chunk.continue_token = list.continue_token;
    chunk.remaining = list.remaining.unwrap_or(0);
    let _ = out.send(Ok(chunk)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_begin_together_do_not_end_together() {
        let lives = lives();
        assert!(lives.iter().all(|life| (LIFE..LIFE.mul_f64(1.5)).contains(life)), "{lives:?}");
        let apart = |pair: &[Duration]| pair[1] > pair[0];
        assert!(lives.windows(2).all(apart) && lives[LIVES - 1] - lives[0] > LIFE / 4, "{lives:?}");
    }
}
