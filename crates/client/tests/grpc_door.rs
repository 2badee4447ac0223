//! The gRPC door of the server in memory.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::Pin;

use futures::Stream;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};
use trireme_proto::resources::v1 as proto;
use trireme_proto::resources::v1::resources_server::{Resources, ResourcesServer};
use trireme_proto::resources::v1::watch_event::Type;
use trireme_proto::resources::v1::watch_request::Request as Wish;

use crate::fake::{Ask, Fake, revision_of};

pub(crate) async fn serve(fake: Fake) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tonic::transport::Server::builder().add_service(ResourcesServer::new(Door(fake)));
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    address
}

struct Door(Fake);

type Boxed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn failure(status: &trireme_machinery::status::Status) -> Status {
    let details = serde_json::to_vec(status).unwrap();
    Status::with_details(tonic::Code::Aborted, status.message.clone(), details.into())
}

fn ask(request: proto::Request, trace: String) -> Ask {
    Ask {
        verb: request.verb,
        resource: request.resource,
        namespace: request.namespace,
        name: request.name,
        subresource: request.subresource,
        options: serde_json::from_slice(&request.options).unwrap_or(Value::Null),
        body: serde_json::from_slice(&request.body).unwrap_or(Value::Null),
        fence: request.fence.map(|f| (f.claim, f.epoch)),
        cause: trace,
        authorization: String::new(),
    }
}

fn cause(trace: &str) -> Option<proto::Cause> {
    let nanos = jiff::Timestamp::now().as_nanosecond() as i64;
    (!trace.is_empty()).then(|| proto::Cause {
        cause: trace.into(),
        intent: trace.into(),
        cause_unix_nanos: nanos,
        intent_unix_nanos: nanos,
        inferred: false,
    })
}

#[tonic::async_trait]
impl Resources for Door {
    type ListStream = Boxed<proto::ListChunk>;
    type WatchStream = Boxed<proto::WatchEvent>;

    async fn r#do(&self, request: Request<proto::Request>) -> Result<Response<proto::Answer>, Status> {
        let trace = request.metadata().get("traceparent").and_then(|t| t.to_str().ok()).unwrap_or_default().to_owned();
        let shown =
            request.metadata().get("authorization").and_then(|a| a.to_str().ok()).unwrap_or_default().to_owned();
        let mut ask = ask(request.into_inner(), trace);
        ask.authorization = shown;
        let (object, revision) = self.0.handle(ask).map_err(|s| failure(&s))?;
        let body = serde_json::to_vec(&object).unwrap().into();
        Ok(Response::new(proto::Answer { body, revision, code: 200, ..Default::default() }))
    }

    async fn list(&self, request: Request<proto::Request>) -> Result<Response<Self::ListStream>, Status> {
        let request = request.into_inner();
        let (items, revision) = self.0.list(&request.resource, &request.namespace);
        let mut chunks: Vec<_> = items
            .chunks(2)
            .map(|items| proto::ListChunk {
                items: items
                    .iter()
                    .map(|(object, trace)| proto::Item {
                        object: serde_json::to_vec(object).unwrap().into(),
                        revision: revision_of(object),
                        cause: cause(trace),
                    })
                    .collect(),
                revision,
                ..Default::default()
            })
            .collect();
        chunks.push(proto::ListChunk { revision, last: true, ..Default::default() });
        Ok(Response::new(Box::pin(futures::stream::iter(chunks.into_iter().map(Ok)))))
    }

    async fn watch(
        &self,
        request: Request<Streaming<proto::WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (send, receive) = mpsc::channel(1);
        tokio::spawn(follow(self.0.clone(), request.into_inner(), send));
        Ok(Response::new(Box::pin(ReceiverStream::new(receive))))
    }
}

type Out = mpsc::Sender<Result<proto::WatchEvent, Status>>;

async fn follow(fake: Fake, mut wishes: Streaming<proto::WatchRequest>, out: Out) {
    let (mut changed, mut cut, mut held) = (fake.changed.subscribe(), fake.cut.subscribe(), fake.held.subscribe());
    let mut open: HashMap<u64, (String, i64)> = HashMap::new();
    let mut asked: Vec<u64> = Vec::new();
    loop {
        let hold = *held.borrow_and_update();
        changed.mark_unchanged();
        for (id, (resource, seen)) in open.iter_mut().filter(|(_, (resource, _))| hold != Some(resource.as_str())) {
            if !send_new(&fake, *id, resource, seen, &out).await {
                return;
            }
        }
        open.retain(|_, (_, seen)| *seen >= 0);
        for id in std::mem::take(&mut asked) {
            let Some((resource, seen)) = open.get_mut(&id) else { continue };
            if hold == Some(resource.as_str()) {
                asked.push(id);
                continue;
            }
            let revision = fake.revision();
            if !send_new(&fake, id, resource, seen, &out).await {
                return;
            }
            let event = proto::WatchEvent { id, r#type: Type::Progress.into(), revision, ..Default::default() };
            if out.send(Ok(event)).await.is_err() {
                return;
            }
        }
        tokio::select! {
            wish = wishes.message() => match wish {
                Ok(Some(wish)) => match wish.request {
                    Some(Wish::Open(wish)) => {
                        let selection = wish.selection.unwrap();
                        let options: Value = serde_json::from_slice(&selection.options).unwrap();
                        let from = options["resourceVersion"].as_str().unwrap().parse().unwrap();
                        open.insert(wish.id, (selection.resource, from));
                    }
                    Some(Wish::Close(wish)) => { open.remove(&wish.id); }
                    Some(Wish::Progress(wish)) => {
                        asked.push(wish.id);
                        fake.asked();
                    }
                    None => {}
                },
                _ => return,
            },
            _ = changed.changed() => {}
            _ = held.changed() => {}
            _ = cut.changed() => {
                let _ = out.send(Err(Status::unavailable("cut"))).await;
                return;
            }
        }
    }
}

async fn send_new(fake: &Fake, id: u64, resource: &str, seen: &mut i64, out: &Out) -> bool {
    let events = match fake.since(*seen, resource) {
        Ok((events, _)) => events,
        Err(status) => {
            *seen = -1;
            let object = serde_json::to_vec(&status).unwrap().into();
            let event = proto::WatchEvent { id, r#type: Type::Error.into(), object, ..Default::default() };
            return out.send(Ok(event)).await.is_ok();
        }
    };
    for happening in events {
        let kind = match happening.kind {
            "ADDED" => Type::Added,
            "MODIFIED" => Type::Modified,
            _ => Type::Deleted,
        };
        *seen = happening.revision;
        let event = proto::WatchEvent {
            id,
            r#type: kind.into(),
            object: serde_json::to_vec(&happening.object).unwrap().into(),
            revision: happening.revision,
            cause: cause(&happening.cause),
        };
        if out.send(Ok(event)).await.is_err() {
            return false;
        }
    }
    true
}
