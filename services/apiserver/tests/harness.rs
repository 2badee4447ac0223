//! A store and an API server of a test's own, and a small HTTP client.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use trireme_pki::{Identity, Pki};

/// How long anything here may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A store and an API server; both end with it.
pub(crate) struct Cluster {
    pub(crate) dir: TempDir,
    pub(crate) https: u16,
    pub(crate) resources: u16,
    store_port: u16,
    peer_port: u16,
    token: String,
    store: Option<Child>,
    api: Option<Child>,
}

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) text: String,
}

/// The gRPC door, from outside.
pub(crate) type Door = trireme_proto::resources::v1::resources_client::ResourcesClient<tonic::transport::Channel>;

/// The lines of a watch.
pub(crate) struct Lines {
    body: Incoming,
    rest: Vec<u8>,
}

// === impl Cluster ===

impl Cluster {
    /// Starts both and waits until the API server is ready.
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// The same with more flags for the API server.
    pub(crate) async fn start_with(flags: &[&str]) -> Self {
        let mut cluster = Self::new();
        cluster.start_store();
        cluster.start_api(flags);
        cluster.ready().await;
        cluster
    }

    /// Neither is started yet.
    pub(crate) fn new() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let dir = tempfile::tempdir().unwrap();
        let [https, resources, store_port, peer_port] = free_ports();
        let pki = dir.path().join("pki");
        let token = make_pki(&pki);
        Self { dir, https, resources, store_port, peer_port, token, store: None, api: None }
    }

    /// A file of the cluster's keys and certificates.
    pub(crate) fn pki(&self, name: &str) -> PathBuf {
        self.dir.path().join("pki").join(name)
    }

    pub(crate) fn start_store(&mut self) {
        let program = program("trireme-store");
        let (clients, peers) = (url(self.store_port), url(self.peer_port));
        let file = |name: &str| self.pki(name).display().to_string();
        let child = Command::new(program)
            .args(["--name=store-1", "--client-cert-auth"])
            .arg(format!("--data-dir={}", self.dir.path().join("store").display()))
            .arg(format!("--listen-client-urls={clients}"))
            .arg(format!("--advertise-client-urls={clients}"))
            .arg(format!("--listen-peer-urls={peers}"))
            .arg(format!("--initial-advertise-peer-urls={peers}"))
            .arg(format!("--initial-cluster=store-1={peers}"))
            .arg(format!("--cert-file={}", file("store-store-1.crt")))
            .arg(format!("--key-file={}", file("store-store-1.key")))
            .arg(format!("--trusted-ca-file={}", file("store-ca.crt")))
            .arg(format!("--peer-cert-file={}", file("store-store-1.crt")))
            .arg(format!("--peer-key-file={}", file("store-store-1.key")))
            .arg(format!("--peer-trusted-ca-file={}", file("store-ca.crt")))
            .stdout(Stdio::null())
            .stderr(log(self.dir.path(), "store.log"))
            .spawn()
            .unwrap();
        self.store = Some(child);
    }

    pub(crate) fn start_api(&mut self, flags: &[&str]) {
        let file = |name: &str| self.pki(name).display().to_string();
        let own = ["--bind-address=127.0.0.1", "--advertise-address=192.0.2.1"];
        let name = |flag: &str| flag.split('=').next().unwrap_or_default().to_owned();
        let given = |own: &str| flags.iter().any(|flag| name(flag) == name(own));
        let child = Command::new(env!("CARGO_BIN_EXE_trireme-apiserver"))
            .arg(format!("--etcd-servers={}", url(self.store_port)))
            .arg(format!("--etcd-cafile={}", file("store-ca.crt")))
            .arg(format!("--etcd-certfile={}", file("apiserver-store-client.crt")))
            .arg(format!("--etcd-keyfile={}", file("apiserver-store-client.key")))
            .args(own.iter().filter(|flag| !given(flag)))
            .arg(format!("--secure-port={}", self.https))
            .arg(format!("--resources-port={}", self.resources))
            .arg(format!("--tls-cert-file={}", file("apiserver.crt")))
            .arg(format!("--tls-private-key-file={}", file("apiserver.key")))
            .arg(format!("--client-ca-file={}", file("ca.crt")))
            .arg(format!("--token-auth-file={}", file("tokens.csv")))
            .arg(format!("--service-account-key-file={}", file("sa.pub")))
            .arg(format!("--service-account-signing-key-file={}", file("sa.key")))
            .arg(format!("--encryption-provider-config={}", file("encryption.yaml")))
            .args(flags)
            .stdout(Stdio::null())
            .stderr(log(self.dir.path(), "api.log"))
            .spawn()
            .unwrap();
        self.api = Some(child);
    }

    /// Waits until the API server ends by itself; whether that was in order, and its log.
    pub(crate) fn ended(&mut self) -> (bool, String) {
        let begun = Instant::now();
        let child = self.api.as_mut().unwrap();
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return (status.success(), self.log());
            }
            assert!(begun.elapsed() < PATIENCE, "it runs on");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the API server logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("api.log")).unwrap_or_default()
    }

    /// Ends the API server as a crash would.
    pub(crate) fn kill_api(&mut self) {
        end(&mut self.api);
    }

    /// Ends the store as a crash would.
    pub(crate) fn kill_store(&mut self) {
        end(&mut self.store);
    }

    /// Waits until the API server is ready.
    pub(crate) async fn ready(&self) {
        let begun = Instant::now();
        loop {
            let answer = self.try_send("GET", "/readyz", &[], "").await;
            if answer.as_ref().is_ok_and(|answer| answer.status == 200) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "not ready: {answer:?}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// One request of the administrator.
    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.try_send(method, path, headers, body).await.unwrap()
    }

    pub(crate) async fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> anyhow::Result<Answer> {
        let response = self.open(method, path, headers, body).await?;
        let (head, body) = response.into_parts();
        let text = String::from_utf8_lossy(&body.collect().await?.to_bytes()).into_owned();
        Ok(Answer { status: head.status.as_u16(), headers: head.headers, text })
    }

    async fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> anyhow::Result<http::Response<Incoming>> {
        let tcp = TcpStream::connect(("127.0.0.1", self.https)).await?;
        let tls = TlsConnector::from(self.trust()).connect(ServerName::try_from("localhost")?, tcp).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls)).await?;
        tokio::spawn(connection);
        let mut request = http::Request::builder().method(method).uri(path).header("host", "localhost");
        let named = |name: &str| headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        if !named("authorization") {
            request = request.header("authorization", format!("Bearer {}", self.token));
        }
        if !body.is_empty() && !named("content-type") {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
            request = request.header(*name, *value);
        }
        Ok(sender.send_request(request.body(Full::new(Bytes::copy_from_slice(body.as_bytes())))?).await?)
    }

    /// A connection that sends the head of a request, announces a body and never sends it to its end. The answer is
    /// what came until the server closed.
    pub(crate) async fn unfinished(&self, token: bool, path: &str, chunked: bool) -> String {
        let tcp = TcpStream::connect(("127.0.0.1", self.https)).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut tls = TlsConnector::from(self.trust()).connect(name, tcp).await.unwrap();
        let authorization = if token { format!("Authorization: Bearer {}\r\n", self.token) } else { String::new() };
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\n{authorization}Content-Type: application/json\r\n\
             {}",
            if chunked { "Transfer-Encoding: chunked\r\n\r\n1\r\n{" } else { "Content-Length: 3000000\r\n\r\n{" }
        );
        tls.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // Whether the end comes in order is not asked here.
        let _ = tokio::time::timeout(PATIENCE, tls.read_to_end(&mut answer)).await.expect("it stays open");
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn trust(&self) -> Arc<rustls::ClientConfig> {
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(self.pki("ca.crt")).unwrap() {
            roots.add(certificate.unwrap()).unwrap();
        }
        Arc::new(rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[], &body.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send("PUT", path, &[], &body.to_string()).await
    }

    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> Answer {
        self.send("PATCH", path, &[("content-type", "application/merge-patch+json")], &patch.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[], "").await
    }

    /// A namespace that the API server lets objects into; answers where its ConfigMaps are.
    pub(crate) async fn namespace(&self, name: &str) -> String {
        let made = self.post("/api/v1/namespaces", &serde_json::json!({"metadata": {"name": name}})).await;
        assert_eq!(made.status, 201, "{}", made.text);
        format!("/api/v1/namespaces/{name}/configmaps")
    }

    /// Begins a watch.
    pub(crate) async fn watch(&self, path: &str) -> Lines {
        let response = self.open("GET", path, &[], "").await.unwrap();
        assert_eq!(response.status(), 200);
        Lines { body: response.into_body(), rest: Vec::new() }
    }

    /// The store as an etcd client sees it.
    pub(crate) async fn store(&self) -> trireme_proto::etcdserverpb::kv_client::KvClient<tonic::transport::Channel> {
        use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};
        let read = |name: &str| std::fs::read(self.pki(name)).unwrap();
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(read("store-ca.crt")))
            .identity(Identity::from_pem(read("operator.crt"), read("operator.key")));
        let channel = Endpoint::from_shared(url(self.store_port)).unwrap().tls_config(tls).unwrap();
        trireme_proto::etcdserverpb::kv_client::KvClient::new(channel.connect().await.unwrap())
    }

    /// The gRPC door, as a component of this name.
    pub(crate) async fn door(&self, identity: &str) -> Door {
        self.try_door(identity).await.unwrap()
    }

    /// The same where it may not be open yet.
    pub(crate) async fn try_door(&self, identity: &str) -> Result<Door, tonic::transport::Error> {
        use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};
        let read = |name: &str| std::fs::read(self.pki(name)).unwrap();
        let tls = ClientTlsConfig::new()
            .domain_name("localhost")
            .ca_certificate(Certificate::from_pem(read("ca.crt")))
            .identity(Identity::from_pem(read(&format!("{identity}.crt")), read(&format!("{identity}.key"))));
        let channel = Endpoint::from_shared(url(self.resources)).unwrap().tls_config(tls).unwrap();
        channel.connect().await.map(Door::new)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        end(&mut self.api);
        end(&mut self.store);
    }
}

// === impl Answer ===

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The object's resourceVersion.
    pub(crate) fn version(&self) -> String {
        self.json()["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn message(&self) -> String {
        self.json()["message"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn reason(&self) -> String {
        self.json()["reason"].as_str().unwrap_or_default().to_owned()
    }
}

// === impl Lines ===

impl Lines {
    /// The next event; None at the watch's end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("no event in time")?;
            match frame {
                Ok(frame) => self.rest.extend_from_slice(&frame.into_data().unwrap_or_default()),
                Err(_) => return None,
            }
        }
    }

    /// Type and name of the next event.
    pub(crate) async fn change(&mut self) -> (String, String) {
        let event = self.next().await.expect("the watch ended");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
    }
}

fn end(child: &mut Option<Child>) {
    if let Some(mut child) = child.take() {
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn url(port: u16) -> String {
    format!("https://127.0.0.1:{port}")
}

fn log(dir: &Path, name: &str) -> std::fs::File {
    std::fs::OpenOptions::new().create(true).append(true).open(dir.join(name)).unwrap()
}

/// Everything that the two need, and certificates of some clients. Answers the administrator's token.
fn make_pki(dir: &Path) -> String {
    let pki = Pki::open(dir).unwrap();
    for identity in [
        Identity::apiserver(&[], "10.96.0.1", "cluster.local"),
        Identity::apiserver_store_client(),
        Identity::operator(),
        Identity::store_member("store-1", &[]),
        Identity::scheduler(),
        Identity::controllers(),
        Identity::kubelet("n1"),
        Identity::user("alice", None),
        Identity::user("root", Some("system:masters")),
    ] {
        pki.issue(&identity).unwrap();
    }
    pki.admin_token().unwrap()
}

/// A program of this workspace, beside ours.
fn program(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_trireme-apiserver")).with_file_name(name);
    assert!(path.exists(), "{} is missing: `cargo build -p {name}`", path.display());
    path
}

/// Ports that nobody listens at; held until all are chosen.
fn free_ports<const N: usize>() -> [u16; N] {
    let listeners: [TcpListener; N] = std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}
