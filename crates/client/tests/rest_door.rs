//! The REST door of the server in memory.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use trireme_machinery::status::Status;

use crate::fake::{Ask, Fake};

type Body = BoxBody<Bytes, Infallible>;

pub(crate) async fn serve(fake: Fake) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let fake = fake.clone();
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let fake = fake.clone();
                    async move { Ok::<_, Infallible>(answer(&fake, request).await) }
                });
                let _ =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    address
}

fn whole(code: u16, value: &Value) -> http::Response<Body> {
    let body = Full::new(Bytes::from(serde_json::to_vec(value).unwrap())).boxed();
    http::Response::builder().status(code).body(body).unwrap()
}

fn failure(status: &Status) -> http::Response<Body> {
    whole(status.code(), &serde_json::to_value(status).unwrap())
}

async fn answer(fake: &Fake, request: http::Request<Incoming>) -> http::Response<Body> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let url = url::Url::parse(&format!("http://x{}", head.uri)).unwrap();
    let query: HashMap<String, String> = url.query_pairs().into_owned().collect();
    let mut parts: Vec<&str> = url.path().trim_matches('/').split('/').collect();
    parts.drain(..if parts[0] == "api" { 2 } else { 3 });
    let authorization = head.headers.get("authorization").and_then(|a| a.to_str().ok()).unwrap_or_default();
    let mut ask = Ask { authorization: authorization.to_owned(), ..Ask::default() };
    if parts[0] == "namespaces" && parts.len() > 2 {
        ask.namespace = parts[1].into();
        parts.drain(..2);
    }
    ask.resource = parts[0].into();
    ask.name = parts.get(1).copied().unwrap_or_default().into();
    ask.subresource = parts.get(2).copied().unwrap_or_default().into();
    match (head.method.as_str(), ask.name.is_empty()) {
        ("GET", true) if query.contains_key("watch") => return watch(fake.clone(), ask.resource, &query),
        ("GET", true) => {
            let (items, revision) = fake.list(&ask.resource, &ask.namespace);
            let items: Vec<Value> = items.into_iter().map(|(object, _)| object).collect();
            return whole(200, &json!({"metadata": {"resourceVersion": revision.to_string()}, "items": items}));
        }
        (method, _) => {
            ask.verb = match method {
                "POST" => "create",
                "PUT" => "update",
                "PATCH" => "patch",
                "DELETE" => "delete",
                _ => "get",
            }
            .into();
        }
    }
    if ask.verb == "delete" {
        ask.options = body
    } else {
        ask.body = body
    }
    match fake.handle(ask) {
        Ok((object, _)) => whole(200, &object),
        Err(status) => failure(&status),
    }
}

fn watch(fake: Fake, resource: String, query: &HashMap<String, String>) -> http::Response<Body> {
    let mut seen: i64 = query["resourceVersion"].parse().unwrap();
    let (send, receive) = mpsc::channel::<Result<Frame<Bytes>, Infallible>>(1);
    tokio::spawn(async move {
        let (mut changed, mut cut, mut held) = (fake.changed.subscribe(), fake.cut.subscribe(), fake.held.subscribe());
        loop {
            let _ = held.wait_for(|held| *held != Some(resource.as_str())).await;
            changed.mark_unchanged();
            let lines = match fake.since(seen, &resource) {
                Ok((events, _)) => {
                    events.into_iter().map(|h| (h.revision, json!({"type": h.kind, "object": h.object}))).collect()
                }
                Err(status) => vec![(-1, json!({"type": "ERROR", "object": status}))],
            };
            for (revision, line) in lines {
                let text = Bytes::from(format!("{line}\n"));
                // Cut in two, to be put together again.
                let middle = text.len() / 2;
                for part in [text.slice(..middle), text.slice(middle..)] {
                    if send.send(Ok(Frame::data(part))).await.is_err() {
                        return;
                    }
                }
                if revision < 0 {
                    return;
                }
                seen = revision;
            }
            tokio::select! {
                _ = changed.changed() => {}
                _ = cut.changed() => return,
                () = send.closed() => return,
            }
        }
    });
    let stream = tokio_stream::wrappers::ReceiverStream::new(receive);
    http::Response::new(StreamBody::new(stream).boxed())
}
