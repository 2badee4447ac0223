//! One trace across a tonic hop and an actix-web hop, links, given trace ids, failures, and what happens without a collector.

use std::time::Duration;

use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use tokio_stream::wrappers::TcpListenerStream;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tower::ServiceBuilder;
use tracing::Instrument as _;
use trireme_telemetry::{
    Hop, Kind, Parent, Settings, SpanExt as _, TraceParent, current, grpc, http, span, spans, start,
};

use crate::collector::Collector;

const GIVEN: [u8; 16] = *b"sixteen bytes id";

/// A tonic server behind our layer.
async fn grpc_server() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_, service) = tonic_health::server::health_reporter();
    tokio::spawn(
        tonic::transport::Server::builder()
            .layer(grpc::server_layer(Hop::Store))
            .add_service(service)
            .serve_with_incoming(TcpListenerStream::new(listener)),
    );
    format!("http://{address}")
}

/// An actix-web server behind our middleware.
fn http_server() -> String {
    use actix_web::{App, HttpResponse, HttpServer, web};
    async fn answer() -> HttpResponse {
        match current() {
            Some(seen) => HttpResponse::InternalServerError().body(seen.to_string()),
            None => HttpResponse::Ok().finish(),
        }
    }
    let server = HttpServer::new(|| {
        App::new().wrap(http::ServerTrace::new(Hop::Apiserver)).route("/pods/{name}", web::get().to(answer))
    })
    .workers(1)
    .disable_signals()
    .bind("127.0.0.1:0")
    .unwrap();
    let address = server.addrs()[0];
    tokio::spawn(server.run());
    address.to_string()
}

/// A GET by hand, with the current span in its headers.
async fn get(address: &str, path: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut headers = ::http::HeaderMap::new();
    http::inject(Hop::Apiserver, &mut headers);
    let mut request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
    for (name, value) in &headers {
        request += &format!("{name}: {}\r\n", value.to_str().unwrap());
    }
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("{request}\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn check(address: &str, service: &str) -> Result<(), tonic::Status> {
    let channel = tonic::transport::Endpoint::from_shared(address.to_owned()).unwrap().connect().await.unwrap();
    let channel = ServiceBuilder::new().layer(grpc::ClientTrace::new(Hop::Store)).service(channel);
    HealthClient::new(channel).check(HealthCheckRequest { service: service.to_owned() }).await.map(drop)
}

fn kind(span: &Span) -> SpanKind {
    SpanKind::try_from(span.kind).unwrap()
}

fn failed(span: &Span) -> bool {
    span.status.as_ref().is_some_and(|status| status.code() == StatusCode::Error)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trace_as_the_collector_sees_it() {
    let (collector, address) = Collector::start().await;
    let settings = Settings { otlp_endpoint: Some(address.to_string()), ..Settings::new("apiserver") };
    let guard = trireme_telemetry::init(settings).unwrap();
    let (grpc_address, http_address) = (grpc_server().await, http_server());
    let far = TraceParent::new([9; 16], [8; 8], true).unwrap();

    // Two roots in the given trace, as two requests of one command.
    for name in ["first", "second"] {
        let root = span(name).kind(Kind::Server).parent(Parent::RootWithTraceId(GIVEN)).link(far).start();
        async {
            check(&grpc_address, "").await.unwrap();
        }
        .instrument(root)
        .await;
    }
    // A child of a span of another process, which makes an HTTP request and a gRPC call that fail.
    let child = start("reaction", Parent::Remote(far), &[]);
    let child_name = child.trace_parent().unwrap();
    let seen_by_server = async {
        assert_eq!(check(&grpc_address, "unknown").await.unwrap_err().code(), tonic::Code::NotFound);
        start("inner", Parent::Current, &[]).fail("broken");
        get(&http_address, "/pods/web").await
    }
    .instrument(child.clone())
    .await;
    drop(child);
    // Outside of any span nothing is traced and nothing is sent along.
    assert_eq!(current(), None);
    check(&grpc_address, "").await.unwrap();
    assert!(get(&http_address, "/pods/untraced").await.starts_with("HTTP/1.1 200"));
    drop(start("own root", Parent::Root, &[]));
    drop(span("unsampled").parent(Parent::Remote(TraceParent::new([7; 16], [7; 8], false).unwrap())).start());
    guard.flush().await;

    assert_eq!(collector.services(), ["apiserver"]);
    let spans = collector.by_name();
    let names: Vec<&str> = spans.keys().map(String::as_str).collect();
    assert_eq!(names, ["GET /pods/{name}", "first", "health.Check", "inner", "own root", "reaction", "second"]);

    for name in ["first", "second"] {
        let root = &spans[name];
        assert_eq!(root.trace_id, GIVEN);
        assert!(root.parent_span_id.is_empty(), "{name} is a root");
        assert_eq!(kind(root), SpanKind::Server);
        assert_eq!(root.links[0].span_id, [8; 8]);
        assert_eq!(root.links[0].trace_id, [9; 16]);
    }
    let reaction = &spans["reaction"];
    assert_eq!(reaction.trace_id, [9; 16]);
    assert_eq!(reaction.parent_span_id, [8; 8]);
    assert_eq!(reaction.span_id, child_name.span_id().to_bytes());
    let served = &spans["GET /pods/{name}"];
    assert_eq!((&served.trace_id, &served.parent_span_id), (&reaction.trace_id, &reaction.span_id));
    assert_eq!(kind(served), SpanKind::Server);
    assert!(failed(served), "a 500 is a failure of the server");
    assert!(seen_by_server.contains(&hex(&served.span_id)), "the handler runs in the server's span");
    assert!(failed(&spans["inner"]));
    assert_eq!(spans["inner"].parent_span_id, reaction.span_id);
    assert_ne!(spans["own root"].trace_id, GIVEN);

    // Of the pairs of spans of a gRPC call: the client's is the caller's child, the server's is the client's.
    let recent = spans::Recent::global();
    let calls: Vec<_> = recent.spans(None).into_iter().filter(|span| span.name == "health.Check").collect();
    assert_eq!(calls.len(), 6);
    for (server, client) in calls.iter().filter(|s| s.kind == "server").zip(calls.iter().filter(|s| s.kind == "client"))
    {
        assert_eq!(server.parent_span_id.as_deref(), Some(client.span_id.as_str()));
        assert_eq!(server.trace_id, client.trace_id);
    }
    let errors: Vec<_> = calls.iter().filter_map(|span| span.error.as_deref().map(|_| span.kind)).collect();
    assert_eq!(errors, ["client"], "NotFound is a failure of the client only");
    assert_eq!(recent.spans(Some(&hex(&GIVEN))).len(), 6);

    assert!(trireme_telemetry::init(Settings::new("again")).is_err());
    tokio::time::timeout(Duration::from_secs(5), guard.shutdown()).await.expect("shutdown in time");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
