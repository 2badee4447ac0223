//! The pages at a secure port.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::TcpStream;
use trireme_service::tls::{self, Identity};
use trireme_service::{CommonArgs, Context, ServingArgs};

use crate::certificates::Ca;
use crate::page::get;

/// The flags, with files for them.
fn args(dir: &tempfile::TempDir, ca: &Ca, knows_clients: bool) -> ServingArgs {
    let write = |name: &str, text: &str| -> PathBuf {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (cert, key) = ca.issue("server", "", Duration::from_secs(3600));
    ServingArgs {
        bind_address: Some(Ipv4Addr::LOCALHOST.into()),
        tls_cert_file: Some(write("tls.crt", &cert)),
        tls_private_key_file: Some(write("tls.key", &key)),
        client_ca_file: knows_clients.then(|| write("ca.crt", &ca.pem)),
    }
}

#[tokio::test]
async fn health_is_for_all_and_metrics_for_those_that_an_authority_vouches_for() {
    let (ours, theirs) = (Ca::new("ours"), Ca::new("theirs"));
    let (operator, stranger) = (ours.identity("operator"), theirs.identity("stranger"));
    for knows_clients in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        // The port is the test's own, given as an operator would for all pages.
        let flags = CommonArgs { health_bind_address: Some("127.0.0.1:0".to_owned()), ..CommonArgs::default() };
        let context = Context::new("test", flags);
        let address = context.serve_secure_pages(&args(&dir, &ours, knows_clients), 10259).await.unwrap().unwrap();
        let ask = async |identity: Option<&Identity>, path: &str| {
            let config = tls::client_config(&ours.authorities(), identity, &["h2", "http/1.1"]).unwrap();
            let connector = tokio_rustls::TlsConnector::from(config);
            let stream = TcpStream::connect(address).await.unwrap();
            get(connector.connect("localhost".try_into().unwrap(), stream).await.unwrap(), path).await.0
        };
        assert_eq!(ask(None, "/livez").await, 200);
        assert_eq!(ask(None, "/metrics").await, 403);
        assert_eq!(ask(None, "/debug/spans").await, 403);
        assert_eq!(ask(Some(&operator), "/metrics").await, if knows_clients { 200 } else { 403 });
        if !knows_clients {
            assert_eq!(ask(Some(&stranger), "/metrics").await, 403);
        }
        // In the clear there is nothing.
        let plain = TcpStream::connect(address).await.unwrap();
        assert!(!is_http(plain).await);
        context.shutdown.cancel();
    }
}

async fn is_http(mut stream: TcpStream) -> bool {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    answer.starts_with(b"HTTP/1.1")
}
