//! Who gets onto the bus. What is published there goes into API servers' caches, roles among it.

use std::{
    io::{BufRead as _, BufReader},
    net::TcpStream,
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use trireme_testkit::{Cluster, Options, poll};

use crate::support::LONG;

const FORGERY: &str = "PUB watch.1 2\r\n{}\r\nPING\r\n";

#[test]
fn only_members_publish_and_only_api_servers_hear() -> anyhow::Result<()> {
    let cluster = Cluster::up(Options::new("--only store,nats,apiserver"))?;
    // They themselves get on it.
    for service in ["store-1", "apiserver"] {
        poll::until("the bus is joined", LONG, || {
            let log = cluster.log(service);
            log.contains("connected to the bus").then_some(()).with_context(|| log)
        })?;
    }
    let port = cluster.port("nats")?;
    let pki = cluster.state().join("pki");

    let plain = said(&mut connect(port)?.1, FORGERY);
    assert!(!plain.contains("PONG"), "without TLS: {plain}");
    let unknown = said(&mut secured(port, &pki, None)?, FORGERY);
    assert!(!unknown.contains("PONG"), "without a certificate: {unknown}");
    let operator = said(&mut secured(port, &pki, Some("operator"))?, FORGERY);
    assert!(!operator.contains("PONG"), "of the store's authority, but nobody here: {operator}");
    let apiserver = said(&mut secured(port, &pki, Some("apiserver-store-client"))?, FORGERY);
    assert!(apiserver.contains("Permissions Violation for Publish"), "an API server: {apiserver}");
    let listen = "SUB watch.> 1\r\nPING\r\n";
    let member = said(&mut secured(port, &pki, Some("store-store-1"))?, listen);
    assert!(member.contains("Permissions Violation for Subscription"), "a member: {member}");
    Ok(())
}

/// A connection whose server has introduced itself.
fn connect(port: u16) -> anyhow::Result<(String, TcpStream)> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut introduction = String::new();
    BufReader::with_capacity(1, stream.try_clone()?).read_line(&mut introduction)?;
    Ok((introduction, stream))
}

/// The same, secured with a certificate of this name, or none.
fn secured(port: u16, pki: &Path, name: Option<&str>) -> anyhow::Result<StreamOwned<ClientConnection, TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(pki.join("store-ca.crt"))?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = builder.with_root_certificates(roots);
    let config = match name {
        None => builder.with_no_client_auth(),
        Some(name) => builder.with_client_auth_cert(
            vec![CertificateDer::from_pem_file(pki.join(format!("{name}.crt")))?],
            PrivateKeyDer::from_pem_file(pki.join(format!("{name}.key")))?,
        )?,
    };
    let connection = ClientConnection::new(Arc::new(config), ServerName::try_from("localhost")?)?;
    Ok(StreamOwned::new(connection, connect(port)?.1))
}

/// What the server answers before it falls silent or hangs up.
fn said(stream: &mut (impl std::io::Read + std::io::Write), lines: &str) -> String {
    let hello = "CONNECT {\"verbose\":false,\"pedantic\":false,\"tls_required\":true}\r\n";
    // One who is refused may be hung up on before all is sent.
    let _sent = stream.write_all(format!("{hello}{lines}").as_bytes()).and_then(|()| stream.flush());
    let (mut answer, mut line) = (String::new(), String::new());
    let mut reader = BufReader::new(stream);
    while reader.read_line(&mut line).is_ok_and(|read| read > 0) {
        answer.push_str(&line);
        if line.starts_with("PONG") {
            break;
        }
        line.clear();
    }
    answer
}
