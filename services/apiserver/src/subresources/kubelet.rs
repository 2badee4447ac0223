//! How a node's kubelet is reached: HTTPS with our client certificate, at the address its Node names.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use trireme_kinds::{Kind, Registry};
use trireme_machinery::status::Status;
use trireme_service::tls::{self, Authorities, Identity};

use crate::auth::user::quoted;
use crate::config::Config;
use crate::error::Error;
use crate::pipeline::Objects;

/// The port of a kubelet that names none.
const DEFAULT_PORT: u16 = 10250;

/// A request's body towards a kubelet.
pub type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// An empty body.
#[must_use]
pub fn empty() -> Body {
    full(Bytes::new())
}

/// A body that is there as a whole.
#[must_use]
pub fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// Connects to kubelets.
pub struct Kubelets {
    objects: Arc<dyn Objects>,
    nodes: Arc<Kind>,
    tls: Arc<ClientConfig>,
    /// For who asked to skip verification.
    unverified: Arc<ClientConfig>,
    /// For what is no kubelet: nobody is verified, and nobody is shown our certificate.
    strangers: Arc<ClientConfig>,
    address_types: Vec<String>,
    patience: Duration,
}

/// Where something is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Whether it speaks TLS.
    pub tls: bool,
    /// Whether it is what somebody wrote into an object, and must not lead to this machine or what is next to it.
    pub foreign: bool,
    /// Whether it is no kubelet, but whatever listens there.
    pub stranger: bool,
}

impl Location {
    /// Host and port as a URL has them.
    #[must_use]
    pub fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl Kubelets {
    /// From the flags. Without a CA kubelets are not verified, as upstream has it.
    pub fn new(objects: Arc<dyn Objects>, registry: &Registry, config: &Config) -> Result<Self, Error> {
        let identity = match (&config.kubelet_client_certificate, &config.kubelet_client_key) {
            (Some(certificate), Some(key)) => Some(Identity::from_files(certificate, key).map_err(Error::Kubelets)?),
            _ => None,
        };
        let unverified = tls::insecure_client_config(identity.as_ref(), &["http/1.1"]).map_err(Error::Kubelets)?;
        let tls = match &config.kubelet_certificate_authority {
            Some(path) => {
                let authorities = Authorities::from_file(path).map_err(Error::Kubelets)?;
                tls::client_config(&authorities, identity.as_ref(), &["http/1.1"]).map_err(Error::Kubelets)?
            }
            None => unverified.clone(),
        };
        let nodes = registry.by_resource("", "v1", "nodes").ok_or_else(|| Error::Kind("nodes".into()))?;
        Ok(Self {
            objects,
            nodes,
            tls,
            unverified,
            strangers: tls::insecure_client_config(None, &["http/1.1"]).map_err(Error::Kubelets)?,
            address_types: config.kubelet_preferred_address_types.clone(),
            patience: config.kubelet_timeout,
        })
    }

    /// Where a node's kubelet listens.
    pub async fn locate(&self, node: &str) -> Result<Location, Status> {
        let stored = self.objects.get(&self.nodes, "", node).await?;
        let value = stored.value();
        let addresses = value["status"]["addresses"].as_array().cloned().unwrap_or_default();
        let by_type = |wanted: &String| addresses.iter().find(|address| address["type"] == wanted.as_str());
        let address = self.address_types.iter().find_map(by_type).and_then(|address| address["address"].as_str());
        let Some(host) = address else {
            let types = self.address_types.join(" ");
            return Err(Status::internal(format!(
                "no preferred addresses found; known addresses: {}; preferred: [{types}]",
                Value::Array(addresses)
            )));
        };
        let port = value.pointer("/status/daemonEndpoints/kubeletEndpoint/Port").and_then(Value::as_u64);
        let port = port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0).unwrap_or(DEFAULT_PORT);
        Ok(Location { host: host.to_owned(), port, tls: true, foreign: false, stranger: false })
    }

    /// Sends one request on a connection of its own, which is closed with the answer's body (or lives on in an upgrade).
    pub async fn send(
        &self,
        location: &Location,
        method: Method,
        path_and_query: &str,
        headers: HeaderMap,
        body: Body,
        verify: bool,
    ) -> Result<Response<Incoming>, Status> {
        let Location { host, port, .. } = location;
        let failed = |what: &str, why: &dyn std::fmt::Display| {
            Status::internal(format!("error dialing backend: {what} {host}:{port}: {why}"))
        };
        let dial = async || -> std::io::Result<Option<TcpStream>> {
            // What is checked is what is dialled: a name may mean something else the next time.
            let addresses: Vec<_> = tokio::net::lookup_host((host.as_str(), *port)).await?.collect();
            if location.foreign && !addresses.iter().all(|address| is_global_unicast(address.ip())) {
                return Ok(None);
            }
            TcpStream::connect(&*addresses).await.map(Some)
        };
        let stream = match timeout(self.patience, dial()).await {
            Ok(Ok(None)) => return Err(Status::bad_request("address not allowed")),
            Ok(Ok(Some(stream))) => stream,
            Ok(Err(why)) => return Err(failed("dial tcp", &why)),
            Err(_) => return Err(failed("dial tcp", &"i/o timeout")),
        };
        let _ = stream.set_nodelay(true);
        let uri: Uri = path_and_query
            .parse()
            .map_err(|why| Status::bad_request(format!("invalid path {}: {why}", quoted(path_and_query))))?;
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        let authority = location.authority().parse().map_err(|why| failed("host", &why))?;
        request.headers_mut().entry(http::header::HOST).or_insert(authority);
        if !location.tls {
            return exchange(TokioIo::new(stream), request).await.map_err(|why| failed("http", &why));
        }
        let name = ServerName::try_from(host.clone()).map_err(|why| failed("tls", &why))?;
        let config = match verify {
            _ if location.stranger => &self.strangers,
            true => &self.tls,
            false => &self.unverified,
        };
        let handshake = TlsConnector::from(config.clone()).connect(name, stream);
        let stream = match timeout(self.patience, handshake).await {
            Ok(done) => done.map_err(|why| failed("tls", &why))?,
            Err(_) => return Err(failed("tls", &"i/o timeout")),
        };
        exchange(TokioIo::new(stream), request).await.map_err(|why| failed("http", &why))
    }
}

/// Whether an address is one that a request may be passed on to: neither this machine nor its link nor a group.
pub(super) fn is_global_unicast(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            !(v4.is_unspecified() || v4.is_broadcast() || v4.is_loopback() || v4.is_multicast() || v4.is_link_local())
        }
        IpAddr::V6(v6) => !(v6.is_unspecified() || v6.is_loopback() || v6.is_multicast() || v6.is_unicast_link_local()),
    }
}

async fn exchange<S>(stream: S, request: Request<Body>) -> Result<Response<Incoming>, hyper::Error>
where
    S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
    // The connection's task ends with the exchange: when the answer's body is read to its end, or dropped.
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection to a kubelet broke");
        }
    });
    sender.send_request(request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_and_its_links_are_not_for_others() {
        for address in [
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "::1",
            "::",
            "fe80::1",
            "ff02::1",
            "::ffff:127.0.0.1",
        ] {
            assert!(!is_global_unicast(address.parse().unwrap()), "{address}");
        }
        for address in ["10.0.0.1", "192.168.1.1", "192.0.2.1", "8.8.8.8", "fd00::1", "2001:db8::1"] {
            assert!(is_global_unicast(address.parse().unwrap()), "{address}");
        }
    }
}
