//! TLS of the REST transport.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::config::Config;
use crate::error::Error;

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn bad(what: &str, error: impl std::fmt::Display) -> Error {
    Error::Config(format!("{what}: {error}"))
}

fn certificates(what: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|e| bad(what, e))?;
    if all.is_empty() { Err(Error::Config(format!("{what}: no certificate in it"))) } else { Ok(all) }
}

/// The client's half of TLS as the configuration says.
pub(crate) fn client_config(config: &Config) -> Result<ClientConfig, Error> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|e| bad("TLS", e))?;
    let builder = if config.insecure_skip_tls_verify {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider())))
    } else {
        let mut roots = RootCertStore::empty();
        if let Some(pem) = &config.certificate_authority {
            for certificate in certificates("certificate authority", pem)? {
                roots.add(certificate).map_err(|e| bad("certificate authority", e))?;
            }
        }
        builder.with_root_certificates(roots)
    };
    match &config.identity {
        None => Ok(builder.with_no_client_auth()),
        Some((chain, key)) => {
            let chain = certificates("client certificate", chain)?;
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| bad("client key", e))?;
            builder.with_client_auth_cert(chain, key).map_err(|e| bad("client certificate", e))
        }
    }
}

/// Takes every server for the right one: what `insecure-skip-tls-verify` asks for.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
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
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
