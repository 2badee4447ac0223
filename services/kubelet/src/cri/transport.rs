//! gRPC over a unix socket, and the trace context that goes along.

use crate::error::{Error, Result};
use hyper_util::rt::TokioIo;
use std::path::PathBuf;
use tokio::net::UnixStream;
use tonic::Request;
use tonic::transport::{Channel, Endpoint, Uri};
use trireme_proto::runtime::v1::image_service_client::ImageServiceClient;
use trireme_proto::runtime::v1::runtime_service_client::RuntimeServiceClient;
use trireme_telemetry::{Hop, Kind, Parent};

/// A node with some hundred Pods answers a list with more than tonic's 4 MiB.
const MESSAGE: usize = 16 << 20;

#[derive(Clone)]
pub(super) struct Services {
    channel: Channel,
}

impl Services {
    pub(super) fn new(endpoint: &str) -> Result<Self> {
        let path = socket_path(endpoint)?;
        // The address is never looked at: the connector below dials the socket.
        let channel = Endpoint::from_static("http://cri.localhost").connect_with_connector_lazy(tower::service_fn(
            move |_: Uri| {
                let path = path.clone();
                async move { UnixStream::connect(path).await.map(TokioIo::new) }
            },
        ));
        Ok(Self { channel })
    }

    pub(super) fn runtime(&self) -> RuntimeServiceClient<Channel> {
        RuntimeServiceClient::new(self.channel.clone())
            .max_decoding_message_size(MESSAGE)
            .max_encoding_message_size(MESSAGE)
    }

    pub(super) fn images(&self) -> ImageServiceClient<Channel> {
        ImageServiceClient::new(self.channel.clone())
            .max_decoding_message_size(MESSAGE)
            .max_encoding_message_size(MESSAGE)
    }
}

/// `unix:///run/x.sock`, `unix:/run/x.sock` or a bare absolute path.
fn socket_path(endpoint: &str) -> Result<PathBuf> {
    let path = endpoint.strip_prefix("unix://").or_else(|| endpoint.strip_prefix("unix:")).unwrap_or(endpoint);
    if path.starts_with('/') {
        return Ok(PathBuf::from(path));
    }
    let reason = "an endpoint is unix:// and the absolute path of a socket".to_owned();
    Err(Error::Runtime { endpoint: endpoint.to_owned(), reason, answers: true })
}

/// tonic wraps what the socket said several times; the innermost says what is wrong.
pub(super) fn root_cause(status: &tonic::Status) -> String {
    let mut error: Option<&dyn std::error::Error> = std::error::Error::source(status);
    let mut last = status.message().to_owned();
    while let Some(inner) = error {
        last = inner.to_string();
        error = inner.source();
    }
    last
}

/// The span of a call that changes something; none when it happens outside of any.
pub(super) fn span(name: &'static str) -> tracing::Span {
    if trireme_telemetry::current().is_none() {
        return tracing::Span::none();
    }
    let parent = if Hop::Cri.is_cut() { Parent::Root } else { Parent::Current };
    trireme_telemetry::span(name).kind(Kind::Client).parent(parent).attribute("rpc.system", "grpc").start()
}

/// The request with the current trace context, for runtimes that trace too.
pub(super) fn carry<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(parent) = trireme_telemetry::current()
        && let Ok(value) = parent.to_string().parse()
    {
        request.metadata_mut().insert("traceparent", value);
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints() {
        for endpoint in ["unix:///run/a.sock", "unix:/run/a.sock", "/run/a.sock"] {
            assert_eq!(socket_path(endpoint).unwrap(), PathBuf::from("/run/a.sock"));
        }
        assert!(socket_path("tcp://127.0.0.1:1").is_err());
    }
}
