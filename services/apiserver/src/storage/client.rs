//! Calls to the store's members. One is used at a time; when it fails or stays silent, the next is tried.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hyper_util::client::legacy::connect::HttpConnector;
use rand::Rng as _;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Response};
use tower::ServiceBuilder;
use trireme_proto::etcdserverpb::kv_client::KvClient;
use trireme_proto::etcdserverpb::lease_client::LeaseClient;
use trireme_proto::etcdserverpb::watch_client::WatchClient;
use trireme_proto::etcdserverpb::{RangeRequest, RangeResponse};
use trireme_proto::mvccpb::KeyValue;
use trireme_proto::store::v1::store_client::StoreClient;
use trireme_telemetry::Hop;
use trireme_telemetry::grpc::{ClientTrace, ClientTraceService};

use crate::config::Config;
use crate::error::Error;

/// How long one member may keep a call before another one is asked.
const ATTEMPT: Duration = Duration::from_secs(5);
/// How long a connection may take to be there, TLS included: the kernel takes connections for a process that is stopped.
const CONNECT: Duration = Duration::from_secs(1);
/// After so long a silence of a member it is asked whether it is there, and has as long for an answer. Whoever waits for a
/// member that fell silent waits no longer than for one that died to be replaced.
const SILENCE: Duration = Duration::from_secs(1);
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(400);
/// How many keys a page of a long read has.
const PAGE: i64 = 1000;

type Transport = ClientTraceService<Channel>;

/// One member's services.
#[derive(Clone)]
pub struct Member {
    /// Keys.
    pub kv: KvClient<Transport>,
    /// Watches.
    pub watch: WatchClient<Transport>,
    /// Leases.
    pub lease: LeaseClient<Transport>,
    /// What our store offers beyond etcd's API.
    pub store: StoreClient<Transport>,
}

/// The store. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    members: Arc<[Member]>,
    current: Arc<AtomicUsize>,
    cluster: Arc<AtomicU64>,
}

/// An answer, and whether an earlier attempt of the same call may have been carried out without our knowing.
#[derive(Debug)]
pub struct Answered<T> {
    /// The answer.
    pub answer: T,
    /// Whether an earlier attempt ended without an answer.
    pub repeated: bool,
}

/// What of the keys of a prefix to read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Page<'a> {
    /// The first key is the one behind this; the prefix itself when empty.
    pub after: &'a str,
    /// How many; 0 is all.
    pub limit: i64,
    /// At which revision; 0 is the newest.
    pub revision: i64,
}

// === impl Client ===

impl Client {
    /// A client of the members that the flags name. Connections are made when they are first needed.
    pub fn new(config: &Config) -> Result<Self, Error> {
        let tls = tls(config)?;
        let mut members = Vec::new();
        for url in &config.etcd_servers {
            let bad = |source: tonic::transport::Error| Error::Server { url: url.clone(), source };
            let mut endpoint = Endpoint::from_shared(url.clone())
                .map_err(bad)?
                .connect_timeout(CONNECT)
                .http2_keep_alive_interval(SILENCE)
                .keep_alive_timeout(SILENCE)
                .keep_alive_while_idle(true)
                .initial_stream_window_size(1 << 20)
                .initial_connection_window_size(4 << 20);
            if url.starts_with("https") {
                endpoint = endpoint.tls_config(tls.clone()).map_err(bad)?;
            }
            let mut connector = HttpConnector::new();
            connector.enforce_http(false);
            connector.set_nodelay(true);
            connector.set_keepalive(Some(Duration::from_secs(10)));
            // A connector of our own, as only with one the time limit is for TLS too.
            members.push(Member::new(endpoint.connect_with_connector_lazy(connector)));
        }
        if members.is_empty() {
            return Err(Error::Flag("--etcd-servers names no server".to_owned()));
        }
        Ok(Self { members: members.into(), current: Arc::default(), cluster: Arc::default() })
    }

    /// The member that answered last.
    pub fn member(&self) -> Member {
        self.members[self.current.load(Ordering::Relaxed) % self.members.len()].clone()
    }

    /// Turns to another member, unless someone else has done so since `from` was in use.
    fn turn(&self, from: usize) {
        let next = (from + 1) % self.members.len();
        let _ = self.current.compare_exchange(from, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Gives the current member up, so that the next call goes to another one.
    pub fn give_up(&self) {
        self.turn(self.current.load(Ordering::Relaxed));
    }

    /// Calls until one member answers or the deadline passes. The call may reach the store more than once.
    pub async fn call<T, F>(&self, deadline: Instant, op: impl Fn(Member) -> F) -> Result<Answered<T>, Error>
    where
        F: Future<Output = Result<Response<T>, tonic::Status>>,
    {
        let mut pause = FIRST_PAUSE;
        let mut repeated = false;
        loop {
            let at = self.current.load(Ordering::Relaxed) % self.members.len();
            let until = deadline.min(Instant::now() + ATTEMPT);
            let mut turns = true;
            let why = match timeout_at(until, op(self.members[at].clone())).await {
                Ok(Ok(response)) => return Ok(Answered { answer: response.into_inner(), repeated }),
                Ok(Err(status)) if transient(&status) => {
                    turns = !is_well(&status);
                    status.message().to_owned()
                }
                Ok(Err(status)) => return Err(refusal(status)),
                Err(_) => "no answer".to_owned(),
            };
            repeated = true;
            if turns {
                self.turn(at);
            }
            let jittered = pause.mul_f64(rand::rng().random_range(0.5..1.0));
            if Instant::now() + jittered >= deadline {
                return Err(Error::StoreTimeout(why));
            }
            sleep(jittered).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Reads one key, linearizable.
    pub async fn get(&self, key: &str, deadline: Instant) -> Result<(Option<KeyValue>, i64), Error> {
        let request = RangeRequest { key: Bytes::copy_from_slice(key.as_bytes()), ..RangeRequest::default() };
        let mut answer = self.range(request, deadline).await?;
        Ok((answer.kvs.pop(), revision(&answer)))
    }

    /// One Range.
    pub async fn range(&self, request: RangeRequest, deadline: Instant) -> Result<RangeResponse, Error> {
        let answered = self
            .call(deadline, |mut member| {
                let request = request.clone();
                async move { member.kv.range(request).await }
            })
            .await?;
        if let Some(header) = &answered.answer.header {
            self.cluster.store(header.cluster_id, Ordering::Relaxed);
        }
        Ok(answered.answer)
    }

    /// The id of the store's cluster; 0 before the store was first read.
    pub fn cluster_id(&self) -> u64 {
        self.cluster.load(Ordering::Relaxed)
    }

    /// A part of the keys that begin with `prefix`, in order, and whether there are more.
    pub async fn page(&self, prefix: &str, page: Page<'_>, deadline: Instant) -> Result<RangeResponse, Error> {
        let start = if page.after.is_empty() { prefix.to_owned() } else { format!("{}\0", page.after) };
        let request = RangeRequest {
            key: start.into_bytes().into(),
            range_end: prefix_end(prefix.as_bytes()).into(),
            limit: page.limit,
            revision: page.revision,
            ..RangeRequest::default()
        };
        self.range(request, deadline).await
    }

    /// Every key that begins with `prefix`, all at one revision, given in pages to `each`. Answers that revision.
    pub async fn scan(
        &self,
        prefix: &str,
        at: i64,
        patience: Duration,
        mut each: impl FnMut(Vec<KeyValue>),
    ) -> Result<i64, Error> {
        let mut revision_read = at;
        let mut after = String::new();
        loop {
            let page = Page { after: &after, limit: PAGE, revision: revision_read };
            let answer = self.page(prefix, page, Instant::now() + patience).await?;
            if revision_read == 0 {
                revision_read = revision(&answer);
            }
            let more = answer.more;
            if let Some(last) = answer.kvs.last() {
                after = String::from_utf8_lossy(&last.key).into_owned();
            }
            each(answer.kvs);
            if !more {
                return Ok(revision_read);
            }
        }
    }
}

// === impl Member ===

impl Member {
    fn new(channel: Channel) -> Self {
        let transport = ServiceBuilder::new().layer(ClientTrace::new(Hop::Store)).service(channel);
        Self {
            kv: KvClient::new(transport.clone())
                .max_decoding_message_size(usize::MAX)
                .max_encoding_message_size(usize::MAX),
            watch: WatchClient::new(transport.clone()).max_decoding_message_size(usize::MAX),
            lease: LeaseClient::new(transport.clone()),
            store: StoreClient::new(transport),
        }
    }
}

/// The revision an answer was given at.
pub fn revision(answer: &RangeResponse) -> i64 {
    answer.header.as_ref().map_or(0, |header| header.revision)
}

/// The first key behind all keys that begin with `prefix`.
pub fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

/// Whether another member, or the same one later, may answer.
pub(crate) fn transient(status: &tonic::Status) -> bool {
    match status.code() {
        Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded | Code::Aborted => true,
        // A connection that broke under the call.
        Code::Unknown | Code::Internal => std::error::Error::source(status).is_some(),
        _ => false,
    }
}

/// Whether the member itself is well: the leader was replaced under its call. The next member may be that leader.
fn is_well(status: &tonic::Status) -> bool {
    matches!(
        status.message(),
        "etcdserver: leader changed" | "etcdserver: request timed out, possibly due to previous leader failure"
    )
}

fn refusal(status: tonic::Status) -> Error {
    let message = status.message();
    if message.contains("has been compacted") {
        Error::Compacted
    } else if message.contains("future revision") {
        Error::Future
    } else if message.contains("space exceeded") {
        Error::NoSpace
    } else {
        Error::Refused(Box::new(status))
    }
}

fn tls(config: &Config) -> Result<ClientTlsConfig, Error> {
    let mut tls = ClientTlsConfig::new();
    if let Some(path) = &config.etcd_cafile {
        tls = tls.ca_certificate(Certificate::from_pem(read(path)?));
    }
    if let (Some(cert), Some(key)) = (&config.etcd_certfile, &config.etcd_keyfile) {
        tls = tls.identity(Identity::from_pem(read(cert)?, read(key)?));
    }
    Ok(tls)
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix() {
        assert_eq!(prefix_end(b"/a/"), b"/a0");
        assert_eq!(prefix_end(b"a\xff"), b"b");
        assert_eq!(prefix_end(b"\xff"), b"\0");
        assert_eq!(prefix_end(b""), b"\0");
    }

    /// A member whose process is stopped: its kernel takes connections, and nobody reads.
    async fn silent(scheme: &str) -> (tokio::net::TcpListener, Client) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let config = <Config as clap::Parser>::try_parse_from(["trireme-apiserver", "--etcd-servers", &url]).unwrap();
        (listener, Client::new(&config).unwrap())
    }

    async fn waits_for(client: &Client) -> Duration {
        let begun = Instant::now();
        client.member().kv.range(RangeRequest::default()).await.unwrap_err();
        begun.elapsed()
    }

    #[tokio::test]
    async fn nobody_waits_long_for_a_member_that_is_silent() {
        let (_listener, client) = silent("http").await;
        let waited = waits_for(&client).await;
        assert!(waited >= SILENCE && waited < ATTEMPT, "an open connection: {waited:?}");
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (_listener, client) = silent("https").await;
        let waited = waits_for(&client).await;
        assert!(waited < ATTEMPT, "a new connection: {waited:?}");
    }

    #[test]
    fn a_member_that_tells_of_a_new_leader_is_asked_again() {
        assert!(is_well(&tonic::Status::unavailable("etcdserver: leader changed")));
        assert!(!is_well(&tonic::Status::unavailable("etcdserver: no leader")));
    }
}
