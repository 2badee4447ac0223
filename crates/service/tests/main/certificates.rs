//! Certificates made for the tests.

use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use tokio::io::AsyncReadExt as _;
use tokio_stream::StreamExt as _;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use trireme_service::tls::{self, ALPN_H2, Authorities, ClientAuth, Identity};
use trireme_testkit::poll::{self, PATIENCE};

pub(crate) struct Ca {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Ca {
    pub(crate) fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn authorities(&self) -> Authorities {
        Authorities::from_pem(self.pem.as_bytes()).unwrap()
    }

    /// Certificate and key, good for `localhost` and as a client.
    pub(crate) fn issue(&self, name: &str, group: &str, valid: Duration) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.not_before = (SystemTime::now() - Duration::from_secs(3600)).into();
        params.not_after = (SystemTime::now() - Duration::from_secs(1800) + valid).into();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    pub(crate) fn identity(&self, name: &str) -> Identity {
        let (cert, key) = self.issue(name, "system:nodes", Duration::from_secs(7200));
        Identity::from_pem(cert.as_bytes(), key.as_bytes()).unwrap()
    }
}

/// A tonic server that answers health checks and says who asks by what it fails with.
async fn server(identity: &Identity, clients: ClientAuth) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = tls::server_config(identity, &clients, ALPN_H2).unwrap();
    let (_, service) = tonic_health::server::health_reporter();
    let who = |request: tonic::Request<()>| {
        let info = request.extensions().get::<tls::ConnectInfo>().cloned().unwrap_or_default();
        let Some(peer) = info.peer else { return Err(tonic::Status::unauthenticated("nobody")) };
        Err(tonic::Status::permission_denied(format!("{}/{}", peer.common_name, peer.organizations.join(","))))
    };
    let service = tonic::service::interceptor::InterceptedService::new(service, who);
    let incoming = tls::incoming(listener, Some(config));
    tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
    format!("https://localhost:{port}")
}

async fn ask(address: &str, ca: &Authorities, identity: Option<&Identity>) -> tonic::Status {
    let config = tls::client_config(ca, identity, ALPN_H2).unwrap();
    let channel = tls::channel(address, Some(config), None).unwrap();
    HealthClient::new(channel).check(HealthCheckRequest::default()).await.unwrap_err()
}

#[tokio::test]
async fn the_server_knows_its_client() {
    let (ca, other) = (Ca::new("ours"), Ca::new("other"));
    let address = server(&ca.identity("server"), ClientAuth::Required(ca.authorities())).await;
    let node = ca.identity("system:node:n1");

    let answer = ask(&address, &ca.authorities(), Some(&node)).await;
    assert_eq!((answer.code(), answer.message()), (tonic::Code::PermissionDenied, "system:node:n1/system:nodes"));
    let foreign = other.identity("system:node:n1");
    for wrong in [ask(&address, &ca.authorities(), None), ask(&address, &ca.authorities(), Some(&foreign))] {
        assert_ne!(wrong.await.code(), tonic::Code::PermissionDenied);
    }
    assert_ne!(ask(&address, &other.authorities(), Some(&node)).await.code(), tonic::Code::PermissionDenied);
    assert!(tls::channel("https://localhost:1", None, None).is_err());
    assert!(tls::channel("https://", None, None).is_err());
}

#[tokio::test]
async fn a_certificate_that_is_only_requested_is_checked_later() {
    let (ca, other) = (Ca::new("ours"), Ca::new("other"));
    let address = server(&ca.identity("server"), ClientAuth::Request).await;
    assert_eq!(ask(&address, &ca.authorities(), None).await.code(), tonic::Code::Unauthenticated);
    let foreign = other.identity("mallory");
    let answer = ask(&address, &ca.authorities(), Some(&foreign)).await;
    assert_eq!(answer.message(), "mallory/system:nodes");

    let chain = |pem: &str| -> Vec<tls::CertificateDer<'static>> {
        use rustls::pki_types::pem::PemObject as _;
        vec![tls::CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()]
    };
    let good = ca.issue("alice", "dev", Duration::from_secs(7200)).0;
    let peer = ca.authorities().verify_client(&chain(&good)).unwrap();
    assert_eq!((peer.common_name.as_str(), peer.organizations.as_slice()), ("alice", ["dev".to_owned()].as_slice()));
    assert_eq!(peer.fingerprint.len(), 64);
    let expired = ca.issue("alice", "dev", Duration::ZERO).0;
    let foreign = other.issue("alice", "dev", Duration::from_secs(7200)).0;
    for bad in [expired, foreign] {
        assert!(ca.authorities().verify_client(&chain(&bad)).is_err());
    }
    assert!(ca.authorities().verify_client(&[]).is_err());
}

#[tokio::test]
async fn new_files_are_taken_without_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (cert_file, key_file, ca_file) = (dir.path().join("crt"), dir.path().join("key"), dir.path().join("ca"));
    let (old, new) = (Ca::new("old"), Ca::new("new"));
    let write = |ca: &Ca| {
        let (cert, key) = ca.issue("server", "x", Duration::from_secs(7200));
        std::fs::write(&cert_file, cert).unwrap();
        std::fs::write(&key_file, key).unwrap();
        std::fs::write(&ca_file, &ca.pem).unwrap();
    };
    write(&old);
    let identity = Identity::from_files(&cert_file, &key_file).unwrap();
    let clients = Authorities::from_file(&ca_file).unwrap();
    let address = server(&identity, ClientAuth::Required(clients)).await;
    let (old_client, new_client) = (old.identity("a"), new.identity("a"));
    assert_eq!(ask(&address, &old.authorities(), Some(&old_client)).await.code(), tonic::Code::PermissionDenied);

    write(&new);
    poll::found("the new certificate is taken", PATIENCE, async || {
        let answer = ask(&address, &new.authorities(), Some(&new_client)).await;
        (answer.code() == tonic::Code::PermissionDenied).then_some(())
    })
    .await
    .unwrap();
    assert_ne!(ask(&address, &old.authorities(), Some(&old_client)).await.code(), tonic::Code::PermissionDenied);
}

#[tokio::test]
async fn a_client_that_is_slow_to_shake_hands_delays_no_other() {
    let ca = Ca::new("ours");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = tls::server_config(&ca.identity("server"), &ClientAuth::None, ALPN_H2).unwrap();
    let mut incoming = tls::incoming(listener, Some(config));
    // More than there may be handshakes: the first are given up, long before their time is over.
    let mut mute = Vec::new();
    for _ in 0..300 {
        mute.push(tokio::net::TcpStream::connect(address).await.unwrap());
    }
    let ended = tokio::time::timeout(Duration::from_secs(5), mute[0].read_u8()).await;
    assert!(ended.unwrap().is_err());
    let connector = tokio_rustls::TlsConnector::from(tls::client_config(&ca.authorities(), None, ALPN_H2).unwrap());
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (client, accepted) = tokio::join!(connector.connect("localhost".try_into().unwrap(), stream), incoming.next());
    assert!(client.is_ok());
    assert!(accepted.unwrap().unwrap().info().peer.is_none());
}

#[test]
fn bad_files_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("crt");
    let error = Identity::from_files(&file, &file).unwrap_err().to_string();
    assert!(error.contains(file.to_str().unwrap()), "{error}");
    std::fs::write(&file, "nothing").unwrap();
    assert!(Identity::from_files(&file, &file).unwrap_err().to_string().contains("holds no PEM certificate"));
    assert!(Authorities::from_file(&file).is_err());
    let (one, other) = (Ca::new("a").issue("a", "a", Duration::ZERO), Ca::new("a").issue("a", "a", Duration::ZERO));
    assert!(Identity::from_pem(one.0.as_bytes(), other.1.as_bytes()).is_err(), "a key of another certificate");
}
