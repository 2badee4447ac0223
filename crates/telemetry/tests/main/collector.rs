//! An OTLP collector that keeps what it gets.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

#[derive(Clone, Default)]
pub(crate) struct Collector {
    spans: Arc<Mutex<Vec<(String, Span)>>>,
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut kept = self.spans.lock().unwrap();
        for resource in request.into_inner().resource_spans {
            let attributes = resource.resource.unwrap().attributes;
            let service = attributes.iter().find(|a| a.key == "service.name").unwrap();
            let Some(Value::StringValue(service)) = service.value.clone().unwrap().value else { panic!("no name") };
            for scope in resource.scope_spans {
                kept.extend(scope.spans.into_iter().map(|span| (service.clone(), span)));
            }
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    pub(crate) async fn start() -> (Self, SocketAddr) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let collector = Self::default();
        let service = TraceServiceServer::new(collector.clone());
        tokio::spawn(
            tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(TcpListenerStream::new(listener)),
        );
        (collector, address)
    }

    /// The spans by name.
    pub(crate) fn by_name(&self) -> BTreeMap<String, Span> {
        let kept = self.spans.lock().unwrap();
        kept.iter().map(|(_, span)| (span.name.clone(), span.clone())).collect()
    }

    pub(crate) fn services(&self) -> Vec<String> {
        let kept = self.spans.lock().unwrap();
        let mut services: Vec<_> = kept.iter().map(|(service, _)| service.clone()).collect();
        services.sort();
        services.dedup();
        services
    }
}
