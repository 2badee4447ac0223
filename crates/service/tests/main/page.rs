//! The pages over real connections.

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use trireme_service::health::Scope;
use trireme_service::tls::{self, ALPN_HTTP, ClientAuth};
use trireme_service::{CommonArgs, Context, pages};
use trireme_testkit::poll::PATIENCE;

use crate::certificates::Ca;

pub(crate) async fn get(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A peer that closes without TLS's goodbye has still answered.
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[tokio::test]
async fn plain() {
    let context = Context::new("test", CommonArgs::default());
    let ready = context.health.flag("sync", Scope::Ready);
    let address = context.serve_pages("127.0.0.1:0", None).await.unwrap().unwrap();
    let fetch = |path: &'static str| async move { get(TcpStream::connect(address).await.unwrap(), path).await };

    assert_eq!(fetch("/livez").await, (200, "ok".to_owned()));
    assert_eq!(fetch("/readyz").await.0, 500);
    ready.pass();
    assert_eq!(fetch("/readyz?verbose").await.1, "[+]ping ok\n[+]sync ok\n[+]shutdown ok\nreadyz check passed\n");
    let (status, metrics) = fetch("/metrics").await;
    assert!(status == 200 && metrics.contains("process_resident_memory_bytes "), "{metrics}");
    assert_eq!(fetch("/debug/spans").await, (200, "[]".to_owned()));
    assert_eq!(fetch("/nothing").await.0, 404);

    let taken = Context::new("test", CommonArgs::default());
    assert!(taken.serve_pages(&address.to_string(), None).await.is_err());
    assert!(taken.serve_pages("0", None).await.unwrap().is_none());

    context.shutdown.cancel();
    assert!(context.tasks.finish(PATIENCE).await.is_empty());
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn private_pages_need_a_certificate() {
    let ca = Ca::new("ours");
    let context = Context::new("test", CommonArgs::default());
    let clients = ClientAuth::Optional(ca.authorities());
    let config = tls::server_config(&ca.identity("server"), &clients, ALPN_HTTP).unwrap();
    let address =
        context.serve_pages("127.0.0.1:0", Some(pages::Tls { config, private: true })).await.unwrap().unwrap();
    let operator = ca.identity("operator");
    for (identity, health, metrics) in [(None, 200, 403), (Some(&operator), 200, 200)] {
        let config = tls::client_config(&ca.authorities(), identity, &["http/1.1"]).unwrap();
        for (path, status) in [("/livez", health), ("/metrics", metrics), ("/debug/spans", metrics)] {
            let stream = TcpStream::connect(address).await.unwrap();
            let connector = tokio_rustls::TlsConnector::from(config.clone());
            let stream = connector.connect("localhost".try_into().unwrap(), stream).await.unwrap();
            assert_eq!(get(stream, path).await.0, status, "{path}");
        }
    }
}

#[tokio::test]
async fn clients_that_say_nothing_keep_nobody_from_health() {
    let context = Context::new("test", CommonArgs::default());
    let address = context.serve_pages("127.0.0.1:0", None).await.unwrap().unwrap();
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    // Below the time that a silent client has.
    let health = get(TcpStream::connect(address).await.unwrap(), "/livez");
    let health = tokio::time::timeout(std::time::Duration::from_secs(5), health).await.unwrap();
    assert_eq!(health, (200, "ok".to_owned()));
}
