//! Members as processes, and clients for them.
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use tonic::transport::Channel;
use trireme_proto::etcdserverpb as pb;
use trireme_proto::etcdserverpb::cluster_client::ClusterClient;
use trireme_proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use trireme_proto::etcdserverpb::kv_client::KvClient;
use trireme_proto::etcdserverpb::lease_client::LeaseClient;
use trireme_proto::etcdserverpb::maintenance_client::MaintenanceClient;
use trireme_proto::etcdserverpb::request_op::Request;
use trireme_proto::etcdserverpb::watch_client::WatchClient;
use trireme_proto::store::v1::store_client::StoreClient;
use trireme_service::tls::{self, Authorities, Identity};
use trireme_testkit::poll::{self, PATIENCE};
use trireme_testkit::ports;

pub(crate) type Answer<T> = Result<T, tonic::Status>;

fn write_pki(dir: &Path) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    std::fs::write(dir.join("ca.crt"), params.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(params, key);
    let mut params = CertificateParams::new(["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    std::fs::write(dir.join("member.crt"), params.signed_by(&key, &issuer).unwrap().pem()).unwrap();
    std::fs::write(dir.join("member.key"), key.serialize_pem()).unwrap();
}

/// One member, running or not.
pub(crate) struct Member {
    pub(crate) name: String,
    client_port: u16,
    pub(crate) pages_port: u16,
    peer_port: u16,
    child: Option<Child>,
}

/// Members of one cluster. They are killed when it is dropped.
pub(crate) struct Cluster {
    dir: tempfile::TempDir,
    pub(crate) members: Vec<Member>,
    flags: Vec<String>,
}

impl Cluster {
    /// Starts members and waits until they serve.
    pub(crate) async fn start(count: usize, flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        write_pki(dir.path());
        let member = |i| Member {
            name: format!("m{i}"),
            client_port: ports::reserve().unwrap(),
            pages_port: ports::reserve().unwrap(),
            peer_port: ports::reserve().unwrap(),
            child: None,
        };
        let flags = flags.iter().map(|f| (*f).to_owned()).collect();
        let mut cluster = Self { dir, members: (0..count).map(member).collect(), flags };
        for i in 0..count {
            cluster.run(i);
        }
        for i in 0..count {
            cluster.ready(i).await;
        }
        cluster
    }

    pub(crate) fn data_dir(&self, i: usize) -> PathBuf {
        self.dir.path().join(&self.members[i].name)
    }

    /// What a member wrote to its log.
    pub(crate) fn log(&self, i: usize) -> String {
        std::fs::read_to_string(self.dir.path().join(format!("log{i}"))).unwrap()
    }

    /// How many snapshots a member has on disk.
    pub(crate) fn snapshots(&self, i: usize) -> usize {
        let files = std::fs::read_dir(self.data_dir(i).join("snap")).into_iter().flatten();
        files.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|e| e == "snap")).count()
    }

    pub(crate) fn command(&self, i: usize) -> Command {
        let pki = |file: &str| self.dir.path().join(file).display().to_string();
        let list = self.members.iter().map(|m| format!("{}=https://127.0.0.1:{}", m.name, m.peer_port));
        let member = &self.members[i];
        let (client, peer) =
            (format!("https://127.0.0.1:{}", member.client_port), format!("https://127.0.0.1:{}", member.peer_port));
        let flags = [
            ("name", member.name.clone()),
            ("data-dir", self.data_dir(i).display().to_string()),
            ("listen-client-urls", client.clone()),
            ("advertise-client-urls", client),
            ("listen-peer-urls", peer.clone()),
            ("initial-advertise-peer-urls", peer),
            ("initial-cluster", list.collect::<Vec<_>>().join(",")),
            ("cert-file", pki("member.crt")),
            ("key-file", pki("member.key")),
            ("trusted-ca-file", pki("ca.crt")),
            ("peer-cert-file", pki("member.crt")),
            ("peer-key-file", pki("member.key")),
            ("peer-trusted-ca-file", pki("ca.crt")),
            ("listen-metrics-urls", format!("http://127.0.0.1:{}", member.pages_port)),
        ];
        let mut command = Command::new(env!("CARGO_BIN_EXE_trireme-store"));
        command.args(flags.map(|(flag, value)| format!("--{flag}={value}"))).args(&self.flags);
        command.stdin(Stdio::null());
        command
    }

    /// Starts a member's process.
    pub(crate) fn run(&mut self, i: usize) {
        let log = File::options().create(true).append(true).open(self.dir.path().join(format!("log{i}"))).unwrap();
        let mut command = self.command(i);
        command.stdout(log.try_clone().unwrap()).stderr(log);
        self.members[i].child = Some(command.spawn().unwrap());
    }

    /// Waits until a member answers linearizable reads.
    pub(crate) async fn ready(&self, i: usize) {
        poll::found(&format!("member {i} serves"), PATIENCE, async || self.client(i).read_index().await.ok())
            .await
            .unwrap();
    }

    pub(crate) fn kill(&mut self, i: usize) {
        let mut child = self.members[i].child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// The member's process stops where it is, and its connections stay: for others it is silent.
    pub(crate) fn freeze(&self, i: usize) {
        self.signal(i, "STOP");
    }

    /// It goes on.
    pub(crate) fn thaw(&self, i: usize) {
        self.signal(i, "CONT");
    }

    fn signal(&self, i: usize, signal: &str) {
        let id = self.members[i].child.as_ref().unwrap().id();
        let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {id}")]).status().unwrap();
        assert!(sent.success(), "{sent}");
    }

    pub(crate) async fn restart(&mut self, i: usize) {
        self.run(i);
        self.ready(i).await;
    }

    /// The member that leads, among those that run.
    pub(crate) async fn leader(&self) -> usize {
        poll::found("a leader", PATIENCE, async || {
            for (i, _) in self.members.iter().enumerate().filter(|(_, m)| m.child.is_some()) {
                if let Ok(status) = self.client(i).status().await
                    && status.leader != 0
                    && status.leader == status.header.unwrap().member_id
                {
                    return Some(i);
                }
            }
            None
        })
        .await
        .unwrap()
    }

    pub(crate) fn client(&self, i: usize) -> Client {
        self.client_with(i, true)
    }

    pub(crate) fn client_with(&self, i: usize, identity: bool) -> Client {
        let file = |name: &str| self.dir.path().join(name);
        let identity = identity.then(|| Identity::from_files(file("member.crt"), file("member.key")).unwrap());
        let config =
            tls::client_config(&Authorities::from_file(file("ca.crt")).unwrap(), identity.as_ref(), tls::ALPN_H2)
                .unwrap();
        let url = format!("https://127.0.0.1:{}", self.members[i].client_port);
        Client { channel: tls::channel(&url, Some(config), None).unwrap() }
    }

    /// A request to a member's pages.
    pub(crate) async fn page(&self, i: usize, path: &str) -> String {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", self.members[i].pages_port)).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in &mut self.members {
            if let Some(mut child) = member.child.take() {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        if std::thread::panicking() {
            for i in 0..self.members.len() {
                let log = std::fs::read_to_string(self.dir.path().join(format!("log{i}"))).unwrap_or_default();
                let tail: Vec<_> = log.lines().rev().take(40).collect();
                println!("--- log of member {i}");
                tail.iter().rev().for_each(|line| println!("{}", line.chars().take(300).collect::<String>()));
            }
        }
    }
}

/// A client of one member.
#[derive(Clone)]
pub(crate) struct Client {
    channel: Channel,
}

/// The end of the range of all keys with a prefix.
pub(crate) fn end_of(prefix: &str) -> Bytes {
    let mut end = prefix.as_bytes().to_vec();
    *end.last_mut().unwrap() += 1;
    end.into()
}

impl Client {
    pub(crate) fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.channel.clone()).max_decoding_message_size(usize::MAX)
    }

    pub(crate) fn watches(&self) -> WatchClient<Channel> {
        WatchClient::new(self.channel.clone()).max_decoding_message_size(usize::MAX)
    }

    pub(crate) fn leases(&self) -> LeaseClient<Channel> {
        LeaseClient::new(self.channel.clone())
    }

    pub(crate) fn members(&self) -> ClusterClient<Channel> {
        ClusterClient::new(self.channel.clone())
    }

    pub(crate) fn maintenance(&self) -> MaintenanceClient<Channel> {
        MaintenanceClient::new(self.channel.clone())
    }

    pub(crate) async fn read_index(&self) -> Answer<trireme_proto::store::v1::ReadIndexResponse> {
        let request = trireme_proto::store::v1::ReadIndexRequest {};
        Ok(StoreClient::new(self.channel.clone()).read_index(request).await?.into_inner())
    }

    pub(crate) async fn status(&self) -> Answer<pb::StatusResponse> {
        Ok(self.maintenance().status(pb::StatusRequest {}).await?.into_inner())
    }

    /// The hash of the data up to a revision.
    pub(crate) async fn hash(&self, revision: i64) -> Answer<u32> {
        Ok(self.maintenance().hash_kv(pb::HashKvRequest { revision }).await?.into_inner().hash)
    }

    /// Puts a value; answers the revision.
    pub(crate) async fn put(&self, key: &str, value: impl Into<Bytes>) -> Answer<i64> {
        let request = pb::PutRequest { key: key.to_owned().into(), value: value.into(), ..Default::default() };
        Ok(self.kv().put(request).await?.into_inner().header.unwrap().revision)
    }

    pub(crate) async fn get(&self, key: &str) -> Answer<Option<trireme_proto::mvccpb::KeyValue>> {
        let request = pb::RangeRequest { key: key.to_owned().into(), ..Default::default() };
        Ok(self.kv().range(request).await?.into_inner().kvs.pop())
    }

    pub(crate) async fn list(&self, prefix: &str, serializable: bool) -> Answer<pb::RangeResponse> {
        let key = prefix.to_owned().into();
        let request = pb::RangeRequest { key, range_end: end_of(prefix), serializable, ..Default::default() };
        Ok(self.kv().range(request).await?.into_inner())
    }

    pub(crate) async fn compact(&self, revision: i64) -> Answer<()> {
        self.kv().compact(pb::CompactionRequest { revision, physical: true }).await.map(drop)
    }

    /// Sets a key if it has that revision; answers the new revision, or that it had another one.
    pub(crate) async fn swap(&self, key: &str, expected: i64, value: String) -> Answer<Result<i64, i64>> {
        let compare = pb::Compare {
            result: CompareResult::Equal as i32,
            target: CompareTarget::Mod as i32,
            key: key.to_owned().into(),
            target_union: Some(TargetUnion::ModRevision(expected)),
            ..Default::default()
        };
        let put = pb::PutRequest { key: key.to_owned().into(), value: value.into(), ..Default::default() };
        let success = vec![pb::RequestOp { request: Some(Request::RequestPut(put)) }];
        let txn = pb::TxnRequest { compare: vec![compare], success, failure: Vec::new() };
        let answer = self.kv().txn(txn).await?.into_inner();
        let revision = answer.header.unwrap().revision;
        Ok(if answer.succeeded { Ok(revision) } else { Err(revision) })
    }
}

pub(crate) fn shared<T>(value: T) -> Arc<tokio::sync::Mutex<T>> {
    Arc::new(tokio::sync::Mutex::new(value))
}
