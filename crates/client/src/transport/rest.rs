//! Kubernetes' REST API over hyper and rustls.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use trireme_machinery::status::{Reason, Status};
use trireme_service::tasks::{OnPanic, Tasks};
use trireme_telemetry::{Cause, TraceParent};
use url::Url;

use super::json_lines::Lines;
use super::{Answer, Item, Listed, RawEvent, RawObject, Reply, Request, Transport, WatchStream};
use crate::config::Config;
use crate::error::Error;
use crate::object::{MetaObject, Object};
use crate::tls;
use crate::token::Bearer;

/// An answer larger than this is refused rather than read.
const MAX_BODY: usize = 512 << 20;
/// What a call may take when its options do not say.
const CALL_TIMEOUT: Duration = Duration::from_secs(65);
/// A watch that stays silent this long is taken for dead; servers send bookmarks every minute.
const WATCH_SILENCE: Duration = Duration::from_secs(330);
/// Events that wait for a slow reader before the connection is held up.
const BUFFERED_EVENTS: usize = 256;
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// The REST API of any API server.
pub(crate) struct Rest {
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    server: Url,
    bearer: Option<Arc<Bearer>>,
    user_agent: HeaderValue,
}

impl std::fmt::Debug for Rest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rest({})", self.server)
    }
}

impl Rest {
    pub(crate) fn new(config: &Config, bearer: Option<Arc<Bearer>>) -> Result<Self, Error> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(Duration::from_secs(10)));
        connector.set_keepalive(Some(Duration::from_secs(30)));
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls::client_config(config)?).https_or_http();
        let builder = match &config.tls_server_name {
            Some(name) => {
                let name = rustls::pki_types::ServerName::try_from(name.clone())
                    .map_err(|e| Error::Config(format!("tls-server-name {name:?}: {e}")))?;
                builder.with_server_name_resolver(hyper_rustls::FixedServerNameResolver::new(name))
            }
            None => builder,
        };
        let connector = builder.enable_all_versions().wrap_connector(connector);
        let http = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .http2_keep_alive_interval(Duration::from_secs(30))
            .http2_keep_alive_timeout(Duration::from_secs(15))
            .build(connector);
        Ok(Self {
            http,
            server: config.server.clone(),
            bearer,
            user_agent: HeaderValue::from_str(&config.user_agent)
                .map_err(|e| Error::Config(format!("user agent: {e}")))?,
        })
    }

    /// The same API and connections with another token.
    pub(crate) fn with_bearer(&self, bearer: Arc<Bearer>) -> Self {
        Self {
            http: self.http.clone(),
            server: self.server.clone(),
            bearer: Some(bearer),
            user_agent: self.user_agent.clone(),
        }
    }

    fn unreachable(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::unreachable(self.server.as_str(), source)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        accept: &'static str,
        body: Option<(&'static str, Bytes)>,
        trace: Option<TraceParent>,
    ) -> Result<http::Response<Incoming>, Error> {
        let base = self.server.as_str().trim_end_matches('/');
        let mut request = http::Request::builder()
            .method(method)
            .uri(format!("{base}{path}"))
            .header(header::ACCEPT, accept)
            .header(header::USER_AGENT, self.user_agent.clone());
        if let Some(bearer) = &self.bearer {
            request = request.header(header::AUTHORIZATION, bearer.header().await?);
        }
        if let Some(trace) = trace {
            request = request.header("traceparent", trace.to_string());
        }
        let body = match body {
            Some((content_type, bytes)) => {
                request = request.header(header::CONTENT_TYPE, content_type);
                bytes
            }
            None => Bytes::new(),
        };
        let request = request.body(Full::new(body)).map_err(|e| Error::encode("request", e))?;
        self.http.request(request).await.map_err(|e| self.unreachable(e))
    }

    /// A GET of any path: discovery, logs, health.
    pub(crate) async fn get_path(&self, path: &str, accept: &'static str) -> Result<Bytes, Error> {
        let answer = timed(CALL_TIMEOUT, self.send(Method::GET, path, accept, None, None)).await?;
        let (status, body, _) = self.read(answer).await?;
        if status.is_success() { Ok(body) } else { Err(refused(status, "get", path, &body)) }
    }

    async fn read(&self, answer: http::Response<Incoming>) -> Result<(StatusCode, Bytes, Vec<String>), Error> {
        let (head, body) = answer.into_parts();
        let warnings = warnings(&head.headers);
        let body = Limited::new(body, MAX_BODY).collect().await.map_err(|e| self.unreachable(e))?;
        Ok((head.status, body.to_bytes(), warnings))
    }

    async fn exchange(&self, request: &Request, trace: Option<TraceParent>) -> Result<(Bytes, Vec<String>), Error> {
        let wire = Wire::of(request)?;
        let limit = request
            .options
            .get("timeoutSeconds")
            .and_then(Value::as_u64)
            .map_or(CALL_TIMEOUT, |s| Duration::from_secs(s.saturating_add(5)));
        let call = async {
            let answer = self.send(wire.method, &wire.path, wire.accept, wire.body, trace).await?;
            self.read(answer).await
        };
        let (status, body, warnings) = timed(limit, call).await?;
        if status.is_success() { Ok((body, warnings)) } else { Err(refused(status, request.verb, &wire.path, &body)) }
    }
}

async fn timed<T>(limit: Duration, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match tokio::time::timeout(limit, call).await {
        Ok(result) => result,
        Err(_) => Err(Error::unreachable("the API server", format!("no answer within {} s", limit.as_secs()))),
    }
}

fn warnings(headers: &http::HeaderMap) -> Vec<String> {
    headers
        .get_all(header::WARNING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .map(|value| {
            let text = value.split_once('"').map_or(value, |(_, rest)| rest.strip_suffix('"').unwrap_or(rest));
            text.replace("\\\"", "\"")
        })
        .collect()
}

fn refused(status: StatusCode, verb: &str, path: &str, body: &[u8]) -> Error {
    match serde_json::from_slice::<Status>(body) {
        Ok(answer) if answer.code() != 0 => answer.into(),
        _ => {
            let text = String::from_utf8_lossy(&body[..body.len().min(2048)]).trim().to_owned();
            let reason = match status.as_u16() {
                401 => Reason::Unauthorized,
                403 => Reason::Forbidden,
                404 => Reason::NotFound,
                429 => Reason::TooManyRequests,
                503 => Reason::ServiceUnavailable,
                _ => Reason::Unknown,
            };
            Status::failure(status.as_u16(), reason, format!("{verb} {path}: {status}: {text}")).into()
        }
    }
}

/// A request as HTTP has it.
struct Wire {
    method: Method,
    path: String,
    accept: &'static str,
    body: Option<(&'static str, Bytes)>,
}

impl Wire {
    fn of(request: &Request) -> Result<Self, Error> {
        let method = match request.verb {
            "create" => Method::POST,
            "update" => Method::PUT,
            "patch" => Method::PATCH,
            "delete" | "deletecollection" => Method::DELETE,
            _ => Method::GET,
        };
        let mut path = path(request);
        // Options of a delete are its body, everything else's are the query.
        let body = if request.verb == "delete" {
            if request.options.is_null() {
                None
            } else {
                let body = serde_json::to_vec(&request.options).map_err(|e| Error::encode("options", e))?;
                Some(("application/json", Bytes::from(body)))
            }
        } else {
            query(&mut path, &request.options, request.verb == "watch");
            (!request.body.is_empty()).then(|| (request.content_type, request.body.clone()))
        };
        let accept = match (request.metadata_only, request.verb) {
            (true, "list") => METADATA_LIST,
            (true, _) => METADATA,
            _ => "application/json",
        };
        Ok(Self { method, path, accept, body })
    }
}

fn path(request: &Request) -> String {
    let resource = &request.resource;
    let mut path = if resource.group.is_empty() {
        format!("/api/{}", resource.version)
    } else {
        format!("/apis/{}/{}", resource.group, resource.version)
    };
    if !request.namespace.is_empty() {
        path.push_str("/namespaces/");
        path.push_str(&request.namespace);
    }
    path.push('/');
    path.push_str(&resource.plural);
    for part in [&request.name, &request.subresource] {
        if !part.is_empty() {
            path.push('/');
            path.extend(utf8_percent_encode(part, QUERY));
        }
    }
    path
}

fn query(path: &mut String, options: &Value, watch: bool) {
    let mut separator = '?';
    let mut add = |name: &str, value: &str| {
        path.push(separator);
        separator = '&';
        path.push_str(name);
        path.push('=');
        path.extend(utf8_percent_encode(value, QUERY));
    };
    if watch {
        add("watch", "true");
    }
    for (name, value) in options.as_object().into_iter().flatten() {
        match value {
            Value::String(text) => add(name, text),
            Value::Array(values) => values.iter().filter_map(Value::as_str).for_each(|v| add(name, v)),
            Value::Null => {}
            other => add(name, &other.to_string()),
        }
    }
}

#[derive(Deserialize)]
struct RawList<'a> {
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
    #[serde(default)]
    metadata: ListMeta,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    continue_token: String,
    remaining_item_count: Option<i64>,
}

#[derive(Deserialize)]
struct RawWatchEvent<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl Transport for Rest {
    fn call<'a>(&'a self, request: &'a Request, trace: Option<TraceParent>) -> Reply<'a, Answer> {
        Box::pin(async move {
            let (body, warnings) = self.exchange(request, trace).await?;
            let revision = serde_json::from_slice::<MetaObject>(&body).map_or(0, |o| o.revision());
            Ok(Answer { body, revision, warnings, cause: Cause::default() })
        })
    }

    fn list<'a>(&'a self, request: &'a Request, trace: Option<TraceParent>) -> Reply<'a, Listed> {
        Box::pin(async move {
            let (body, _) = self.exchange(request, trace).await?;
            let list: RawList<'_> = serde_json::from_slice(&body).map_err(|e| Error::decode("list", e))?;
            let items = list.items.unwrap_or_default();
            let items = items
                .into_iter()
                .map(|raw| Item { object: body.slice_ref(raw.get().as_bytes()), cause: Cause::default() })
                .collect();
            Ok(Listed {
                items,
                revision: list.metadata.resource_version.parse().unwrap_or(0),
                continue_token: list.metadata.continue_token,
                remaining: list.metadata.remaining_item_count.unwrap_or(0),
            })
        })
    }

    fn watch<'a>(&'a self, request: &'a Request) -> Reply<'a, WatchStream> {
        Box::pin(async move {
            let wire = Wire::of(request)?;
            let answer = timed(CALL_TIMEOUT, self.send(wire.method, &wire.path, wire.accept, None, None)).await?;
            if !answer.status().is_success() {
                let (status, body, _) = timed(CALL_TIMEOUT, self.read(answer)).await?;
                return Err(refused(status, "watch", &wire.path, &body));
            }
            let (send, events) = mpsc::channel(BUFFERED_EVENTS);
            // A panic is told and ends the stream, and whoever reads it opens another.
            let tasks = Tasks::new(CancellationToken::new());
            let reader = tasks.spawn("watch", OnPanic::Log, read_watch(answer.into_body(), send));
            Ok(WatchStream { events, progress: None, _guard: Some(Box::new(AbortOnDrop(reader))) })
        })
    }

    fn fences(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reads events until the server or the reader ends the watch.
async fn read_watch(mut body: Incoming, send: mpsc::Sender<Result<RawEvent, Error>>) {
    let mut lines = Lines::default();
    loop {
        while let Some(line) = lines.next() {
            let event = parse_event(&line);
            let last = event.is_err();
            if send.send(event).await.is_err() || last {
                return;
            }
        }
        let frame = match tokio::time::timeout(WATCH_SILENCE, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => return,
            Ok(Some(Err(error))) => {
                let _ = send.send(Err(Error::disconnected(error))).await;
                return;
            }
            Err(_) => {
                let _ = send.send(Err(Error::disconnected("the server is silent"))).await;
                return;
            }
        };
        if let Some(chunk) = frame.data_ref() {
            lines.push(chunk);
        }
    }
}

fn parse_event(line: &Bytes) -> Result<RawEvent, Error> {
    let event: RawWatchEvent<'_> = serde_json::from_slice(line).map_err(|e| Error::decode("watch event", e))?;
    let object = line.slice_ref(event.object.get().as_bytes());
    let raw = |object| RawObject { object, revision: 0, cause: Cause::default() };
    match event.r#type {
        "ADDED" => Ok(RawEvent::Added(raw(object))),
        "MODIFIED" => Ok(RawEvent::Modified(raw(object))),
        "DELETED" => Ok(RawEvent::Deleted(raw(object))),
        "BOOKMARK" => {
            let object: MetaObject = serde_json::from_slice(&object).map_err(|e| Error::decode("bookmark", e))?;
            Ok(RawEvent::Bookmark(object.revision()))
        }
        "ERROR" => {
            let status: Status = serde_json::from_slice(&object).map_err(|e| Error::decode("watch error", e))?;
            Err(status.into())
        }
        other => Err(Error::decode("watch event", format!("unknown type {other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ApiResource;
    use k8s_openapi::api::apps::v1::Deployment;
    use serde_json::json;

    #[test]
    fn paths_and_queries() {
        let mut request = Request::new("patch", &ApiResource::of::<Deployment>(), "default", "web");
        request.subresource = "status".into();
        request.options = json!({"fieldManager": "a b", "force": true, "dryRun": ["All"]});
        let wire = Wire::of(&request).unwrap();
        assert_eq!(
            wire.path,
            "/apis/apps/v1/namespaces/default/deployments/web/status?dryRun=All&fieldManager=a%20b&force=true"
        );
        assert_eq!(wire.method, Method::PATCH);
    }

    #[test]
    fn warnings_are_unquoted() {
        let mut headers = http::HeaderMap::new();
        headers.insert(header::WARNING, HeaderValue::from_static("299 - \"unknown field \\\"x\\\"\""));
        assert_eq!(warnings(&headers), vec!["unknown field \"x\"".to_owned()]);
    }

    #[test]
    fn an_error_event_is_its_status() {
        let line = Bytes::from_static(
            br#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}"#,
        );
        assert!(parse_event(&line).unwrap_err().is_gone());
    }
}
