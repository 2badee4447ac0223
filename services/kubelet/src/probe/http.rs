//! GET, for probes and lifecycle hooks.

use super::check::{Failure, connect, port};
use crate::error::{Error, Result};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Container, HTTPGetAction};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

const MAX_BODY: usize = 10 << 10;
const MAX_REDIRECTS: usize = 10;

/// Where to GET.
#[derive(Debug, Clone)]
pub struct Target {
    url: url::Url,
    headers: Vec<(String, String)>,
}

impl Target {
    /// Reads an httpGet; `ip` is the Pod's.
    pub fn of(get: &HTTPGetAction, container: &Container, ip: &str) -> Result<Self> {
        let scheme = get.scheme.as_deref().unwrap_or("HTTP").to_lowercase();
        let host = get.host.as_deref().filter(|host| !host.is_empty()).unwrap_or(ip);
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let path = get.path.as_deref().unwrap_or_default();
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let text = format!("{scheme}://{host}:{}{path}", port(&get.port, container)?);
        let url = url::Url::parse(&text).map_err(|error| Error::Pod(format!("{text}: {error}")))?;
        let headers =
            get.http_headers.iter().flatten().map(|header| (header.name.clone(), header.value.clone())).collect();
        Ok(Self { url, headers })
    }
}

/// 2xx and 3xx are good; redirects on the same host are followed.
pub async fn probe(target: &Target, timeout: Duration) -> Result<(), Failure> {
    let late = || {
        Failure::Failed(format!(
            "Get \"{}\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
            target.url
        ))
    };
    tokio::time::timeout(timeout, follow(target, timeout)).await.unwrap_or_else(|_| Err(late()))
}

/// For hooks: the status code does not matter more than that it is one of success.
pub async fn get(target: &Target, timeout: Duration) -> Result<(), String> {
    probe(target, timeout).await.map_err(|failure| match failure {
        Failure::Failed(text) | Failure::Errored(text) => text,
    })
}

async fn follow(target: &Target, timeout: Duration) -> Result<(), Failure> {
    let mut url = target.url.clone();
    for _ in 0..MAX_REDIRECTS {
        let (status, location) = once(&url, &target.headers, timeout)
            .await
            .map_err(|error| Failure::Failed(format!("Get \"{url}\": {error}")))?;
        let next = location.and_then(|location| url.join(&location).ok());
        match (status.as_u16(), next) {
            (301 | 302 | 303 | 307 | 308, Some(next)) if next.host_str() == target.url.host_str() => url = next,
            (200..=399, _) => return Ok(()),
            (code, _) => return Err(Failure::Failed(format!("HTTP probe failed with statuscode: {code}"))),
        }
    }
    Err(Failure::Failed(format!("Get \"{url}\": stopped after {MAX_REDIRECTS} redirects")))
}

async fn once(
    url: &url::Url,
    headers: &[(String, String)],
    timeout: Duration,
) -> Result<(http::StatusCode, Option<String>), String> {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let port = url.port_or_known_default().unwrap_or(80);
    let stream = connect(host, port, timeout).await?;
    if url.scheme() != "https" {
        return exchange(TokioIo::new(stream), url, headers).await;
    }
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    let stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    exchange(TokioIo::new(stream.map_err(|error| error.to_string())?), url, headers).await
}

async fn exchange<S>(
    io: TokioIo<S>,
    url: &url::Url,
    headers: &[(String, String)],
) -> Result<(http::StatusCode, Option<String>), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(io).await.map_err(|error| error.to_string())?;
    let connection = tokio::spawn(connection);
    let mut request = http::Request::get(&url[url::Position::BeforePath..]);
    let named = |name: &str| headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
    if !named("host") {
        request = request.header("Host", &url[url::Position::BeforeHost..url::Position::AfterPort]);
    }
    if !named("user-agent") {
        request = request.header("User-Agent", "kube-probe/1.37");
    }
    if !named("accept") {
        request = request.header("Accept", "*/*");
    }
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.header("Connection", "close").body(Empty::<bytes::Bytes>::new());
    let answer = sender.send_request(request.map_err(|error| error.to_string())?).await;
    let answer = answer.map_err(|error| error.to_string())?;
    let status = answer.status();
    let location = answer.headers().get("location").and_then(|value| value.to_str().ok()).map(str::to_owned);
    // The container should not see its answer cut off; what it has to say beyond a few KiB is not read.
    drop(Limited::new(answer.into_body(), MAX_BODY).collect().await);
    connection.abort();
    Ok((status, location))
}

/// A probe asks whether the container answers, not who it is.
#[derive(Debug)]
struct AnyCertificate(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    async fn serve(answers: &'static [&'static str]) -> u16 {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = [0; 1024];
                let _ = stream.read(&mut head).await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        port
    }

    fn target(port: u16) -> Target {
        Target { url: format!("http://127.0.0.1:{port}/x").parse().unwrap(), headers: Vec::new() }
    }

    #[tokio::test]
    async fn codes_and_redirects() {
        let second = Duration::from_secs(5);
        let ok = serve(&[
            "HTTP/1.1 302 Found\r\nLocation: /y\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 204 No Content\r\n\r\n",
        ])
        .await;
        probe(&target(ok), second).await.unwrap();
        let bad = serve(&["HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"]).await;
        let failure = probe(&target(bad), second).await.unwrap_err();
        assert_eq!(failure, Failure::Failed("HTTP probe failed with statuscode: 503".into()));
        let failure = probe(&target(bad), second).await.unwrap_err();
        let text = format!("Get \"http://127.0.0.1:{bad}/x\": dial tcp 127.0.0.1:{bad}: connect: connection refused");
        assert_eq!(failure, Failure::Failed(text));
    }
}
