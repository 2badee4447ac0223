//! The gRPC door of our API server: fences, causes and progress travel with requests and events.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use trireme_machinery::status::{Reason, Status};
use trireme_proto::resources::v1 as proto;
use trireme_proto::resources::v1::resources_client::ResourcesClient;
use trireme_telemetry::{Cause, Hop, TraceParent};

use super::grpc_watch::Watches;
use super::{Answer, Item, Listed, Reply, Request, Transport, WatchStream};
use crate::config::Config;
use crate::error::{Error, whole};
use crate::token::Bearer;

/// An answer larger than this is refused rather than read.
const MAX_MESSAGE: usize = 256 << 20;
/// What a call may take when its options do not say.
const CALL_TIMEOUT: Duration = Duration::from_secs(65);

/// The gRPC door.
pub(crate) struct Grpc {
    door: Door,
    watches: Watches,
}

/// What opens calls and streams at the door.
#[derive(Clone)]
pub(super) struct Door {
    channel: Channel,
    endpoint: String,
    bearer: Option<Arc<Bearer>>,
}

impl std::fmt::Debug for Grpc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Grpc({})", self.door.endpoint)
    }
}

impl Grpc {
    /// Connects when the first call is made, and again whenever the connection broke.
    pub(crate) fn new(config: &Config, endpoint: &str, bearer: Option<Arc<Bearer>>) -> Result<Self, Error> {
        let addresses: Vec<&str> = endpoint.split(',').map(str::trim).filter(|e| !e.is_empty()).collect();
        let mut endpoints = Vec::new();
        for address in &addresses {
            endpoints.push(make_endpoint(config, address)?);
        }
        let channel = match endpoints.len() {
            0 => return Err(Error::Config("--resources-endpoint is empty".into())),
            1 => endpoints[0].connect_lazy(),
            _ => Channel::balance_list(endpoints.into_iter()),
        };
        Ok(Self::over(Door { channel, endpoint: endpoint.to_owned(), bearer }))
    }

    /// The same door and connection with another token.
    pub(crate) fn with_bearer(&self, bearer: Arc<Bearer>) -> Self {
        Self::over(Door { bearer: Some(bearer), ..self.door.clone() })
    }

    fn over(door: Door) -> Self {
        Self { watches: Watches::start(door.clone()), door }
    }
}

fn make_endpoint(config: &Config, address: &str) -> Result<Endpoint, Error> {
    let bad = |reason: String| Error::Config(format!("--resources-endpoint {address:?}: {reason}"));
    let address = if address.contains("://") { address.to_owned() } else { format!("https://{address}") };
    let mut endpoint = Endpoint::from_shared(address.clone())
        .map_err(|e| bad(e.to_string()))?
        .user_agent(config.user_agent.clone())
        .map_err(|e| bad(e.to_string()))?
        .connect_timeout(Duration::from_secs(5))
        .tcp_nodelay(true)
        .tcp_keepalive(Some(Duration::from_secs(30)))
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(5))
        .keep_alive_while_idle(true);
    if address.starts_with("https://") {
        let mut tls = ClientTlsConfig::new();
        if let Some(authority) = &config.certificate_authority {
            tls = tls.ca_certificate(Certificate::from_pem(authority));
        }
        if let Some((certificate, key)) = &config.identity {
            tls = tls.identity(Identity::from_pem(certificate, key));
        }
        if let Some(name) = &config.tls_server_name {
            tls = tls.domain_name(name.clone());
        }
        endpoint = endpoint.tls_config(tls).map_err(|e| bad(e.to_string()))?;
    }
    Ok(endpoint)
}

impl Door {
    fn client(&self) -> ResourcesClient<Channel> {
        ResourcesClient::new(self.channel.clone())
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE)
    }

    async fn request<T>(
        &self,
        message: T,
        trace: Option<TraceParent>,
        limit: Option<Duration>,
    ) -> Result<tonic::Request<T>, Error> {
        let mut request = tonic::Request::new(message);
        let ascii = |text: String| MetadataValue::<Ascii>::try_from(text).map_err(|e| Error::encode("metadata", e));
        if let Some(bearer) = &self.bearer {
            request.metadata_mut().insert("authorization", ascii(bearer.header().await?)?);
        }
        if let Some(trace) = trace {
            request.metadata_mut().insert("traceparent", ascii(trace.to_string())?);
        }
        if let Some(limit) = limit {
            request.set_timeout(limit);
        }
        Ok(request)
    }

    fn failed(&self, status: &tonic::Status) -> Error {
        failure(&self.endpoint, status)
    }

    /// Opens the stream of watches.
    pub(super) async fn open_watches(
        &self,
        requests: mpsc::Receiver<proto::WatchRequest>,
    ) -> Result<Streaming<proto::WatchEvent>, Error> {
        let request = self.request(ReceiverStream::new(requests), None, None).await?;
        self.client().watch(request).await.map(tonic::Response::into_inner).map_err(|s| self.failed(&s))
    }
}

/// What a gRPC status means: a Kubernetes Status in its details, else a broken connection, else an answer of the server.
pub(super) fn failure(endpoint: &str, status: &tonic::Status) -> Error {
    if let Ok(answer) = serde_json::from_slice::<Status>(status.details())
        && answer.code() != 0
    {
        return answer.into();
    }
    let (code, reason) = match status.code() {
        tonic::Code::Unavailable | tonic::Code::Cancelled | tonic::Code::Unknown | tonic::Code::DeadlineExceeded => {
            return Error::unreachable(endpoint, Call(status.clone()));
        }
        tonic::Code::Unauthenticated => (401, Reason::Unauthorized),
        tonic::Code::PermissionDenied => (403, Reason::Forbidden),
        tonic::Code::NotFound => (404, Reason::NotFound),
        tonic::Code::InvalidArgument => (400, Reason::BadRequest),
        tonic::Code::ResourceExhausted => (429, Reason::TooManyRequests),
        _ => (500, Reason::InternalError),
    };
    Status::failure(code, reason, whole(&Call(status.clone()))).into()
}

/// A failed call in fewer words than the library's.
#[derive(Debug)]
struct Call(tonic::Status);

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}: {}", self.0.code(), self.0.message())
    }
}

impl std::error::Error for Call {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

pub(super) fn to_proto(request: &Request) -> Result<proto::Request, Error> {
    let options = if request.options.is_null() {
        Bytes::new()
    } else {
        serde_json::to_vec(&request.options).map_err(|e| Error::encode("options", e))?.into()
    };
    Ok(proto::Request {
        verb: request.verb.to_owned(),
        group: request.resource.group.clone(),
        version: request.resource.version.clone(),
        resource: request.resource.plural.clone(),
        namespace: request.namespace.clone(),
        name: request.name.clone(),
        subresource: request.subresource.clone(),
        options,
        body: request.body.clone(),
        content_type: if request.body.is_empty() { String::new() } else { request.content_type.to_owned() },
        fence: request.fence.as_ref().map(|fence| proto::Fence {
            controller: fence.controller.clone(),
            key: fence.key.clone(),
            shard: fence.shard,
            epoch: fence.epoch,
            claim: fence.claim.clone(),
        }),
    })
}

/// A cause as it arrives over the watch or in an answer.
pub(super) fn cause_of(cause: Option<proto::Cause>) -> Cause {
    let Some(cause) = cause else { return Cause::default() };
    Cause {
        cause: TraceParent::parse(&cause.cause),
        intent: TraceParent::parse(&cause.intent),
        cause_time: cause.cause_unix_nanos,
        intent_time: cause.intent_unix_nanos,
        inferred: cause.inferred,
    }
    .over(Hop::Watch)
}

fn limit_of(request: &Request) -> Duration {
    let asked = request.options.get("timeoutSeconds").and_then(Value::as_u64);
    asked.map_or(CALL_TIMEOUT, |seconds| Duration::from_secs(seconds.saturating_add(5)))
}

impl Transport for Grpc {
    fn call<'a>(&'a self, request: &'a Request, trace: Option<TraceParent>) -> Reply<'a, Answer> {
        Box::pin(async move {
            let message = self.door.request(to_proto(request)?, trace, Some(limit_of(request))).await?;
            let answer = self.door.client().r#do(message).await.map_err(|s| self.door.failed(&s))?.into_inner();
            Ok(Answer {
                body: answer.body,
                revision: answer.revision,
                warnings: answer.warnings,
                cause: cause_of(answer.cause),
            })
        })
    }

    fn list<'a>(&'a self, request: &'a Request, trace: Option<TraceParent>) -> Reply<'a, Listed> {
        Box::pin(async move {
            let message = self.door.request(to_proto(request)?, trace, Some(limit_of(request))).await?;
            let mut chunks = self.door.client().list(message).await.map_err(|s| self.door.failed(&s))?.into_inner();
            let mut listed = Listed::default();
            while let Some(chunk) = chunks.message().await.map_err(|s| self.door.failed(&s))? {
                listed.items.extend(
                    chunk.items.into_iter().map(|item| Item { object: item.object, cause: cause_of(item.cause) }),
                );
                listed.revision = listed.revision.max(chunk.revision);
                if chunk.last {
                    listed.continue_token = chunk.continue_token;
                    listed.remaining = chunk.remaining;
                    return Ok(listed);
                }
            }
            Err(Error::unreachable(&self.door.endpoint, "the list ended before its last chunk"))
        })
    }

    fn watch<'a>(&'a self, request: &'a Request) -> Reply<'a, WatchStream> {
        Box::pin(async move { Ok(self.watches.open(to_proto(request)?).await) })
    }

    fn fences(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_in_the_details_is_the_error() {
        let details = br#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}"#;
        let status = tonic::Status::with_details(tonic::Code::NotFound, "x", Bytes::from_static(details));
        assert!(failure("e", &status).is_not_found());
        assert!(failure("e", &tonic::Status::unavailable("gone")).is_outcome_unknown());
    }
}
