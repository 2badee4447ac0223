//! Waiting until a process serves.

use std::{
    os::unix::net::UnixStream,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;
use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use tokio::net::TcpStream;

use crate::{
    process::{self, POLL, Process, Ready},
    state::State,
};

/// One attempt may take this long.
const ATTEMPT: Duration = Duration::from_secs(2);

/// Waits until `process` serves, at most `patience`. It may wait for one of `started` itself: if one of those ends,
/// that one is at fault.
///
/// # Errors
/// One of them ended, or `process` does not serve in time: with the last lines of its log.
pub(crate) async fn wait(
    process: &Process,
    started: &[&Process],
    state: &State,
    patience: Duration,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + patience;
    loop {
        let attempt = tokio::time::timeout(ATTEMPT, serves(&process.ready)).await;
        let said = match attempt {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(e)) => format!("{e:#}"),
            Err(_) => "no answer".to_owned(),
        };
        for started in started {
            if process::pid(state, &started.name)?.is_none() {
                let log = state.log(&started.name);
                bail!("{} ended; the end of {}:\n{}", started.name, log.display(), started.last_words(state));
            }
        }
        if Instant::now() >= deadline {
            bail!(
                "{} does not serve after {} s ({said}); the end of {}:\n{}",
                process.name,
                patience.as_secs(),
                state.log(&process.name).display(),
                process.last_words(state)
            );
        }
        tokio::time::sleep(POLL).await;
    }
}

async fn serves(ready: &Ready) -> anyhow::Result<()> {
    match ready {
        Ready::Tcp(port) => TcpStream::connect(("127.0.0.1", *port)).await.map(|_| ()).map_err(Into::into),
        Ready::Socket(path) => UnixStream::connect(path).map(|_| ()).map_err(Into::into),
        Ready::Http(address, port) => {
            let stream = TcpStream::connect((*address, *port)).await?;
            get(TokioIo::new(stream), "", "/readyz").await.map(|_| ())
        }
        Ready::Https(port, authority) => get_https(*port, authority, "", "/readyz").await.map(|_| ()),
    }
}

/// `GET https://127.0.0.1:port/path` under an authority, with a bearer token unless it is empty.
///
/// # Errors
/// No connection, a certificate of another authority, or a status other than 2xx.
pub(crate) async fn get_https(port: u16, authority: &Path, token: &str, path: &str) -> anyhow::Result<Bytes> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority).context("authority")?)?;
    let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let name = ServerName::try_from("127.0.0.1")?;
    let stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    get(TokioIo::new(stream), token, path).await
}

async fn get<T>(io: T, token: &str, path: &str) -> anyhow::Result<Bytes>
where
    T: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await?;
    let driver = tokio::spawn(connection);
    let mut request = http::Request::get(path).header("host", "localhost");
    if !token.is_empty() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    driver.abort();
    if !status.is_success() {
        bail!("{path}: {status}: {}", String::from_utf8_lossy(&body));
    }
    Ok(body)
}
