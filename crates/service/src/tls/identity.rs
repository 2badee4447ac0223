//! A certificate and its key.

use std::path::Path;
use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::reload::{Reloading, inline, read};
use super::{Peer, provider};
use crate::Error;

/// A certificate chain and its key, read again when their files change. Clones share it.
#[derive(Clone)]
pub struct Identity {
    key: Arc<Reloading<CertifiedKey>>,
}

impl Identity {
    /// From PEM files.
    ///
    /// # Errors
    /// When they can't be read, or the key is not the certificate's.
    pub fn from_files(cert: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Self, Error> {
        let (cert, key) = (cert.as_ref().to_owned(), key.as_ref().to_owned());
        let files = vec![cert.clone(), key.clone()];
        let key = Reloading::new(files, move || certified_key(&cert, &read(&cert)?, &key, &read(&key)?))?;
        Ok(Self { key })
    }

    /// From PEM data, as a kubeconfig has it.
    ///
    /// # Errors
    /// When it is malformed, or the key is not the certificate's.
    pub fn from_pem(cert: &[u8], key: &[u8]) -> Result<Self, Error> {
        let (cert, key) = (cert.to_vec(), key.to_vec());
        let key = Reloading::new(Vec::new(), move || certified_key(&inline(), &cert, &inline(), &key))?;
        Ok(Self { key })
    }

    /// Who it says to be.
    ///
    /// # Errors
    /// When the certificate can't be understood.
    pub fn subject(&self) -> Result<Peer, Error> {
        let key = self.key.get();
        let cert = key.cert.first().ok_or_else(|| Error::Certificate("none in the chain".to_owned()))?;
        Peer::from_certificate(cert)
    }

    pub(super) fn server_resolver(&self) -> Arc<dyn ResolvesServerCert> {
        Arc::new(Resolver(Arc::clone(&self.key)))
    }

    pub(super) fn client_resolver(&self) -> Arc<dyn ResolvesClientCert> {
        Arc::new(Resolver(Arc::clone(&self.key)))
    }
}

fn certified_key(cert_path: &Path, cert: &[u8], key_path: &Path, key: &[u8]) -> Result<CertifiedKey, Error> {
    let bad = |path: &Path, reason: String| Error::Content { path: path.to_owned(), reason };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(cert)
        .collect::<Result<_, _>>()
        .map_err(|error| bad(cert_path, format!("no PEM certificate: {error}")))?;
    if chain.is_empty() {
        return Err(bad(cert_path, "holds no PEM certificate".to_owned()));
    }
    let key =
        PrivateKeyDer::from_pem_slice(key).map_err(|error| bad(key_path, format!("no PEM private key: {error}")))?;
    CertifiedKey::from_der(chain, key, &provider()).map_err(|error| bad(key_path, error.to_string()))
}

struct Resolver(Arc<Reloading<CertifiedKey>>);

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.get())
    }
}

impl ResolvesClientCert for Resolver {
    fn resolve(&self, _hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.get())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity")
    }
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Resolver")
    }
}
