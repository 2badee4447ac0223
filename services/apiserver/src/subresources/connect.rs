//! `pods/exec`, `pods/attach`, `pods/portforward`: the client speaks WebSocket with the kubelet, we carry the bytes.
//!
//! The upgrade request goes on to the kubelet with the same WebSocket headers; its answer comes back as it is; from then
//! on nobody here looks at what passes.

use actix_web::body::BoxBody;
use actix_web::http::StatusCode;
use actix_web::web::Payload;
use actix_web::{HttpRequest, HttpResponse};
use futures::StreamExt as _;
use futures::future::LocalBoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt as _;
use tokio_util::io::ReaderStream;
use trireme_machinery::status::{Reason, Status};

use super::Subresources;
use super::kubelet::empty;
use super::logs::container;
use crate::auth::Attributes;
use crate::pipeline::options::flag;
use crate::pipeline::{Context, Request};
use crate::rest::{Connect, wants_websocket};

/// How much is read from the kubelet at once.
const CHUNK: usize = 32 * 1024;
/// Headers of an upgrade that both ends must see alike.
const UPGRADE_HEADERS: [&str; 5] =
    ["sec-websocket-key", "sec-websocket-version", "sec-websocket-protocol", "sec-websocket-extensions", "origin"];

/// What the streams of a container are called here, and by the kubelet.
const STREAMS: [(&str, &str); 4] = [("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty")];

impl Connect for Subresources {
    fn wants(&self, request: &Request) -> bool {
        let info = &request.info;
        let stream = matches!(info.subresource.as_str(), "exec" | "attach" | "portforward");
        let stream = info.resource == "pods" && stream && matches!(info.verb.as_str(), "get" | "create");
        let proxy = info.subresource == "proxy" && matches!(info.resource.as_str(), "nodes" | "pods" | "services");
        info.group.is_empty() && info.version == "v1" && (stream || proxy)
    }

    fn connect(&self, context: Context, http: HttpRequest, payload: Payload) -> LocalBoxFuture<'static, HttpResponse> {
        let this = self.clone();
        Box::pin(async move {
            if context.info.subresource == "proxy" {
                return this.proxy(&context, &http, payload).await;
            }
            match this.open(&context, &http, payload).await {
                Ok(response) => response,
                Err(status) => refused(&status),
            }
        })
    }
}

impl Subresources {
    /// Opens the stream that the request asks for. What goes wrong before it stands is the error.
    async fn open(&self, context: &Context, asked: &HttpRequest, payload: Payload) -> Result<HttpResponse, Status> {
        let info = &context.info;
        let query = url::form_urlencoded::parse(asked.query_string().as_bytes()).into_owned().collect();
        let request = Request { info: info.clone(), query, ..Request::default() };
        // A WebSocket is a GET, and still what happens is no reading.
        let create = Attributes { verb: "create", ..Attributes::of(info, &[]) };
        self.inner.authorizer.require(&context.user, &create)?;
        let (node, path) = self.target(&request).await?;
        if !wants_websocket(asked) {
            return Err(Status::bad_request("Upgrade request required"));
        }
        let location = self.inner.kubelets.locate(&node).await?;
        let mut headers = HeaderMap::new();
        headers.insert(http::header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(http::header::UPGRADE, HeaderValue::from_static("websocket"));
        for name in UPGRADE_HEADERS {
            for value in asked.headers().get_all(name) {
                if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(value.as_bytes())) {
                    headers.append(name, value);
                }
            }
        }
        let answer = self.inner.kubelets.send(&location, Method::GET, &path, headers, empty(), true).await?;
        if answer.status() != http::StatusCode::SWITCHING_PROTOCOLS {
            return Err(refusal(answer).await);
        }
        join(answer, payload).await
    }

    /// The node that the stream goes to, and the path there.
    async fn target(&self, request: &Request) -> Result<(String, String), Status> {
        let info = &request.info;
        let pod = self.inner.objects.get(&self.inner.pods, &info.namespace, &info.name).await?.value();
        let (namespace, name) = (&info.namespace, &info.name);
        let mut query: Vec<(&str, &str)> = Vec::new();
        let path = if info.subresource == "portforward" {
            for port in request.params("ports").flat_map(|list| list.split(',')) {
                query.push(("port", port));
            }
            format!("/portForward/{namespace}/{name}")
        } else {
            let container = container(&pod, request.param("container").unwrap_or_default(), name)?;
            for (name, input) in STREAMS {
                if flag(request, name).unwrap_or(false) {
                    query.push((input, "1"));
                }
            }
            for command in request.params("command") {
                query.push(("command", command));
            }
            format!("/{}/{namespace}/{name}/{container}", info.subresource)
        };
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        if node.is_empty() {
            return Err(Status::bad_request(format!("pod {name} does not have a host assigned")));
        }
        check(&info.subresource, &query)?;
        let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
        Ok((node.to_owned(), format!("{path}?{query}")))
    }
}

/// What a kubelet would refuse: a stream that carries nothing, or runs nothing. A terminal has no stderr of its own.
fn check(subresource: &str, query: &[(&str, &str)]) -> Result<(), Status> {
    let given = |name: &str| query.iter().any(|(key, _)| *key == name);
    if subresource == "portforward" {
        return Ok(());
    }
    if !given("input") && !given("output") && (given("tty") || !given("error")) {
        return Err(Status::bad_request("you must specify at least 1 of stdin, stdout, stderr"));
    }
    if subresource == "exec" && !given("command") {
        return Err(Status::bad_request("you must specify at least one command for the container"));
    }
    Ok(())
}

/// The refusal of a stream that never stood.
pub(super) fn refused(status: &Status) -> HttpResponse {
    let code = StatusCode::from_u16(status.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    HttpResponse::build(code).json(status)
}

/// What the kubelet says instead of upgrading.
async fn refusal(answer: http::Response<Incoming>) -> Status {
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    if let Ok(status) = serde_json::from_slice::<Status>(&body)
        && status.code != 0
    {
        return status;
    }
    let text = String::from_utf8_lossy(&body).trim_end().to_owned();
    match code {
        400 => Status::bad_request(text),
        403 => Status::failure(403, Reason::Forbidden, text),
        404 => Status::failure(404, Reason::NotFound, text),
        _ => Status::internal(format!("unable to upgrade connection: {text}")),
    }
}

/// Joins the two upgraded connections.
pub(super) async fn join(
    mut answer: http::Response<Incoming>,
    mut payload: Payload,
) -> Result<HttpResponse<BoxBody>, Status> {
    let upgraded = hyper::upgrade::on(&mut answer).await;
    let upgraded = upgraded.map_err(|why| Status::internal(format!("unable to upgrade connection: {why}")))?;
    let (from_backend, mut to_backend) = tokio::io::split(TokioIo::new(upgraded));
    // The payload is bound to this thread; the task ends when either side closes.
    actix_rt::spawn(async move {
        while let Some(chunk) = payload.next().await {
            let Ok(chunk) = chunk else { break };
            if to_backend.write_all(&chunk).await.is_err() || to_backend.flush().await.is_err() {
                break;
            }
        }
        let _ = to_backend.shutdown().await;
    });
    let mut response = HttpResponse::SwitchingProtocols();
    let protocol =
        answer.headers().get(http::header::UPGRADE).and_then(|value| value.to_str().ok()).unwrap_or("websocket");
    response.upgrade(protocol.to_owned());
    for (name, value) in answer.headers().iter().filter(|(name, _)| name.as_str().starts_with("sec-websocket-")) {
        response.append_header((name.as_str(), value.as_bytes()));
    }
    Ok(response.streaming(ReaderStream::with_capacity(from_backend, CHUNK)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_carries_something() {
        let told = |query: &[(&str, &str)]| check("exec", query).unwrap_err().message;
        let nothing = "you must specify at least 1 of stdin, stdout, stderr";
        assert_eq!(told(&[("command", "a")]), nothing);
        assert_eq!(told(&[("error", "1"), ("tty", "1"), ("command", "a")]), nothing);
        assert!(check("exec", &[("error", "1"), ("command", "a")]).is_ok());
        assert!(told(&[("output", "1")]).contains("at least one command"));
        assert!(check("attach", &[("input", "1")]).is_ok());
        assert!(check("portforward", &[]).is_ok());
    }
}
