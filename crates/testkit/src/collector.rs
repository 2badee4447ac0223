//! An OTLP collector that keeps what it is sent.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{AnyValue, KeyValue, any_value::Value},
};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

/// A finished span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// `service.name` of who made it.
    pub service: String,
    /// Its name.
    pub name: String,
    /// Trace id, hexadecimal.
    pub trace: String,
    /// Span id, hexadecimal.
    pub id: String,
    /// Span id of the parent; empty for a root.
    pub parent: String,
    /// When it began, nanoseconds since 1970.
    pub start: u64,
    /// When it ended, nanoseconds since 1970.
    pub end: u64,
    /// Attributes, as text.
    pub attributes: BTreeMap<String, String>,
}

type Spans = Arc<Mutex<Vec<Span>>>;

/// A collector on a port of its own; it ends when dropped.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    spans: Spans,
    _runtime: tokio::runtime::Runtime,
}

impl Collector {
    /// Starts it.
    ///
    /// # Errors
    /// No port can be had.
    pub fn start() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?;
        let spans = Spans::default();
        let server = tonic::transport::Server::builder()
            .add_service(TraceServiceServer::new(Receiver(spans.clone())).max_decoding_message_size(64 << 20))
            .serve_with_incoming(TcpListenerStream::new(listener));
        runtime.spawn(server);
        Ok(Self { address, spans, _runtime: runtime })
    }

    /// What `--otlp` is given.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All spans so far.
    #[must_use]
    pub fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The spans of one trace.
    #[must_use]
    pub fn trace(&self, id: &str) -> Vec<Span> {
        self.spans().into_iter().filter(|s| s.trace == id).collect()
    }

    /// The spans of a trace whose parent is not in it.
    #[must_use]
    pub fn orphans(&self, id: &str) -> Vec<Span> {
        let trace = self.trace(id);
        let ids: BTreeSet<&str> = trace.iter().map(|s| s.id.as_str()).collect();
        trace.iter().filter(|s| !s.parent.is_empty() && !ids.contains(s.parent.as_str())).cloned().collect()
    }
}

struct Receiver(Spans);

#[tonic::async_trait]
impl TraceService for Receiver {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut new = Vec::new();
        for resource in request.into_inner().resource_spans {
            let attributes = resource.resource.map(|r| texts(r.attributes)).unwrap_or_default();
            let service = attributes.get("service.name").cloned().unwrap_or_default();
            for span in resource.scope_spans.into_iter().flat_map(|s| s.spans) {
                new.push(Span {
                    service: service.clone(),
                    name: span.name,
                    trace: hex(&span.trace_id),
                    id: hex(&span.span_id),
                    parent: hex(&span.parent_span_id),
                    start: span.start_time_unix_nano,
                    end: span.end_time_unix_nano,
                    attributes: texts(span.attributes),
                });
            }
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(new);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    attributes.into_iter().map(|kv| (kv.key, kv.value.map(text).unwrap_or_default())).collect()
}

fn text(value: AnyValue) -> String {
    match value.value {
        Some(Value::StringValue(s)) => s,
        Some(Value::BoolValue(b)) => b.to_string(),
        Some(Value::IntValue(i)) => i.to_string(),
        Some(Value::DoubleValue(d)) => d.to_string(),
        other => format!("{other:?}"),
    }
}
