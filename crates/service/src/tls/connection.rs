//! TLS under tonic, with our own rustls configurations: a server's incoming connections and a client's channel.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tonic::transport::server::Connected;
use tonic::transport::{Channel, Endpoint, Uri};

use super::Peer;
use crate::Error;
use crate::newest::Newest;

/// How long a client may take for its handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How many handshakes are under way at a time.
const HANDSHAKES: usize = 256;
/// How long a connection attempt may take.
const CONNECT: Duration = Duration::from_secs(5);
/// A connection without traffic is asked for a sign of life this often.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// A server's side of a connection; plain TCP when there is no TLS configuration.
#[derive(Debug)]
pub struct Connection {
    stream: Transport,
    info: ConnectInfo,
}

#[derive(Debug)]
enum Transport {
    Plain(TcpStream),
    Tls(Box<tokio_rustls::server::TlsStream<TcpStream>>),
}

/// Who is at the other end; in the extensions of every request of a tonic server that is fed by [`incoming`].
#[derive(Clone, Debug, Default)]
pub struct ConnectInfo {
    /// Its address.
    pub remote: Option<SocketAddr>,
    /// Its certificate chain, as sent; verified only as far as the server's `ClientAuth` says.
    pub chain: Arc<Vec<CertificateDer<'static>>>,
    /// The subject of its certificate, if it has one.
    pub peer: Option<Arc<Peer>>,
}

/// The connections of a listener: see [`incoming`].
#[derive(Debug)]
pub struct Incoming {
    connections: mpsc::Receiver<io::Result<Connection>>,
    task: tokio::task::JoinHandle<()>,
}

/// Accepts connections for tonic's `serve_with_incoming`, with handshakes done side by side, so that a slow client
/// delays no other; of too many at a time the oldest is given up. Without a TLS configuration they are plain.
#[must_use]
pub fn incoming(listener: TcpListener, tls: Option<Arc<ServerConfig>>) -> Incoming {
    let (sender, connections) = mpsc::channel(64);
    let task = tokio::spawn(async move {
        let mut handshakes = Newest::new(HANDSHAKES);
        loop {
            let (stream, remote) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let (sender, tls) = (sender.clone(), tls.clone());
            if sender.is_closed() {
                return;
            }
            handshakes.spawn(async move {
                match tokio::time::timeout(HANDSHAKE, accept(stream, remote, tls)).await {
                    // The server may be gone by now.
                    Ok(Ok(connection)) => drop(sender.send(Ok(connection)).await),
                    Ok(Err(error)) => tracing::debug!(%remote, %error, "TLS handshake failed"),
                    Err(_) => tracing::debug!(%remote, "no TLS handshake in time"),
                }
            });
        }
    });
    Incoming { connections, task }
}

async fn accept(stream: TcpStream, remote: SocketAddr, tls: Option<Arc<ServerConfig>>) -> io::Result<Connection> {
    stream.set_nodelay(true)?;
    let mut info = ConnectInfo { remote: Some(remote), ..ConnectInfo::default() };
    let Some(tls) = tls else {
        return Ok(Connection { stream: Transport::Plain(stream), info });
    };
    let stream = TlsAcceptor::from(tls).accept(stream).await?;
    let chain: Vec<_> = stream
        .get_ref()
        .1
        .peer_certificates()
        .unwrap_or_default()
        .iter()
        .cloned()
        .map(CertificateDer::into_owned)
        .collect();
    info.peer = chain.first().and_then(|cert| Peer::from_certificate(cert).ok()).map(Arc::new);
    info.chain = Arc::new(chain);
    Ok(Connection { stream: Transport::Tls(Box::new(stream)), info })
}

/// A tonic channel to `address` (`https://host:port`, or plain `http://`), which connects when first used and again when
/// the connection is lost. `name` is checked against the server's certificate instead of the address's host.
///
/// # Errors
/// When the address or the name is malformed, or it is `https` and there is no TLS configuration.
pub fn channel(address: &str, tls: Option<Arc<ClientConfig>>, name: Option<&str>) -> Result<Channel, Error> {
    let bad = |reason: String| Error::Address { address: address.to_owned(), reason };
    let with_scheme = if address.contains("://") {
        address.to_owned()
    } else {
        format!("{}://{address}", if tls.is_some() { "https" } else { "http" })
    };
    let uri: Uri =
        with_scheme.parse().map_err(|error: tonic::codegen::http::uri::InvalidUri| bad(error.to_string()))?;
    let host = uri.host().ok_or_else(|| bad("has no host".to_owned()))?.trim_matches(['[', ']']).to_owned();
    let secure = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let tls = if secure {
        let config = tls.ok_or_else(|| bad("is https, but there is no CA to trust".to_owned()))?;
        let name = name.unwrap_or(&host).to_owned();
        let name = ServerName::try_from(name).map_err(|error| bad(error.to_string()))?;
        Some((TlsConnector::from(config), name))
    } else {
        None
    };
    // Our connector does the TLS, so for tonic it is plain.
    let endpoint = Endpoint::from_shared(format!("http://{}", uri.authority().map_or(host.as_str(), |a| a.as_str())))
        .map_err(|error| bad(error.to_string()))?
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(4 << 20)
        .initial_connection_window_size(8 << 20);
    let connector = tower::service_fn(move |_: Uri| {
        let (host, tls) = (host.clone(), tls.clone());
        async move {
            tokio::time::timeout(CONNECT, connect(&host, port, tls))
                .await
                .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no connection in time")))
        }
    });
    Ok(endpoint.connect_with_connector_lazy(connector))
}

async fn connect(
    host: &str,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
) -> io::Result<TokioIo<Box<dyn Duplex>>> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    let stream: Box<dyn Duplex> = match tls {
        Some((connector, name)) => Box::new(connector.connect(name, stream).await?),
        None => Box::new(stream),
    };
    Ok(TokioIo::new(stream))
}

/// A byte stream in both directions.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

// === impl Incoming ===

impl Stream for Incoming {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.connections.poll_recv(context)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.task.abort();
    }
}

// === impl Connection ===

impl Connection {
    /// Who is at the other end.
    #[must_use]
    pub fn info(&self) -> &ConnectInfo {
        &self.info
    }
}

impl Connected for Connection {
    type ConnectInfo = ConnectInfo;

    fn connect_info(&self) -> ConnectInfo {
        self.info.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Transport::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Transport::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Transport::Plain(stream) => Pin::new(stream).poll_write(context, buffer),
            Transport::Tls(stream) => Pin::new(stream).poll_write(context, buffer),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Transport::Plain(stream) => Pin::new(stream).poll_write_vectored(context, buffers),
            Transport::Tls(stream) => Pin::new(stream).poll_write_vectored(context, buffers),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Transport::Plain(stream) => stream.is_write_vectored(),
            Transport::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Transport::Plain(stream) => Pin::new(stream).poll_flush(context),
            Transport::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Transport::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Transport::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
