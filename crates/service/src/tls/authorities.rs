//! Certificate authorities: whom a server or a client believes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};

use super::reload::{Reloading, inline, read};
use super::{Peer, provider};
use crate::Error;

/// A bundle of authorities, read again when its file changes. Clones share it.
#[derive(Clone)]
pub struct Authorities {
    made: Arc<Reloading<Made>>,
}

/// What is made of a bundle.
struct Made {
    clients: Arc<dyn ClientCertVerifier>,
    servers: Arc<WebPkiServerVerifier>,
    pem: Vec<u8>,
}

impl Authorities {
    /// From a PEM file.
    ///
    /// # Errors
    /// When it can't be read or holds no certificate.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path: PathBuf = path.as_ref().to_owned();
        let made = Reloading::new(vec![path.clone()], move || Made::new(&path, read(&path)?))?;
        Ok(Self { made })
    }

    /// From PEM data.
    ///
    /// # Errors
    /// When it holds no certificate.
    pub fn from_pem(pem: &[u8]) -> Result<Self, Error> {
        let pem = pem.to_vec();
        let made = Reloading::new(Vec::new(), move || Made::new(&inline(), pem.clone()))?;
        Ok(Self { made })
    }

    /// The bundle as it is now.
    #[must_use]
    pub fn pem(&self) -> Vec<u8> {
        self.made.get().pem.clone()
    }

    /// Checks a client's certificate (first of `chain`; the others are intermediates), and says who it is.
    ///
    /// # Errors
    /// When it is not signed by one of the authorities, not valid now, or not for clients.
    pub fn verify_client(&self, chain: &[CertificateDer<'_>]) -> Result<Peer, Error> {
        let (cert, intermediates) =
            chain.split_first().ok_or_else(|| Error::Certificate("none was given".to_owned()))?;
        self.made
            .get()
            .clients
            .verify_client_cert(cert, intermediates, UnixTime::now())
            .map_err(|error| Error::Certificate(error.to_string()))?;
        Peer::from_certificate(cert)
    }

    pub(super) fn client_verifier(&self, mandatory: bool) -> Arc<dyn ClientCertVerifier> {
        Arc::new(Clients { made: Arc::clone(&self.made), mandatory })
    }

    pub(super) fn server_verifier(&self) -> Arc<dyn ServerCertVerifier> {
        Arc::new(Servers { made: Arc::clone(&self.made) })
    }
}

impl Made {
    fn new(path: &Path, pem: Vec<u8>) -> Result<Self, Error> {
        let bad = |reason: String| Error::Content { path: path.to_owned(), reason };
        let mut roots = RootCertStore::empty();
        for cert in CertificateDer::pem_slice_iter(&pem) {
            let cert = cert.map_err(|error| bad(format!("no PEM certificate: {error}")))?;
            roots.add(cert).map_err(|error| bad(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(bad("holds no PEM certificate".to_owned()));
        }
        let roots = Arc::new(roots);
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), provider())
            .build()
            .map_err(|error| bad(error.to_string()))?;
        let servers = WebPkiServerVerifier::builder_with_provider(roots, provider())
            .build()
            .map_err(|error| bad(error.to_string()))?;
        Ok(Self { clients, servers, pem })
    }
}

impl std::fmt::Debug for Authorities {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authorities")
    }
}

/// Verifies clients by the bundle as it is at the handshake.
struct Clients {
    made: Arc<Reloading<Made>>,
    mandatory: bool,
}

impl ClientCertVerifier for Clients {
    fn client_auth_mandatory(&self) -> bool {
        self.mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // No hints: a client with one certificate sends it, whatever the bundle is by then.
        &[]
    }

    fn verify_client_cert(
        &self,
        cert: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.made.get().clients.verify_client_cert(cert, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.made.get().clients.verify_tls12_signature(message, cert, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.made.get().clients.verify_tls13_signature(message, cert, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.made.get().clients.supported_verify_schemes()
    }
}

/// Verifies servers by the bundle as it is at the handshake.
struct Servers {
    made: Arc<Reloading<Made>>,
}

impl ServerCertVerifier for Servers {
    fn verify_server_cert(
        &self,
        cert: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.made.get().servers.verify_server_cert(cert, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.made.get().servers.verify_tls12_signature(message, cert, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.made.get().servers.verify_tls13_signature(message, cert, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.made.get().servers.supported_verify_schemes()
    }
}

/// Takes any certificate, after checking that its key signed the handshake.
struct Any {
    provider: Arc<CryptoProvider>,
}

pub(super) fn any_client(provider: &Arc<CryptoProvider>) -> Arc<dyn ClientCertVerifier> {
    Arc::new(Any { provider: Arc::clone(provider) })
}

pub(super) fn any_server(provider: &Arc<CryptoProvider>) -> Arc<dyn ServerCertVerifier> {
    Arc::new(Any { provider: Arc::clone(provider) })
}

impl ClientCertVerifier for Any {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _cert: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl ServerCertVerifier for Any {
    fn verify_server_cert(
        &self,
        _cert: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        ClientCertVerifier::verify_tls12_signature(self, message, cert, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        ClientCertVerifier::verify_tls13_signature(self, message, cert, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ClientCertVerifier::supported_verify_schemes(self)
    }
}

impl std::fmt::Debug for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clients").field("mandatory", &self.mandatory).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Servers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Servers")
    }
}

impl std::fmt::Debug for Any {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Any")
    }
}
