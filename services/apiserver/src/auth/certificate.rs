//! Client certificates: CN is the user, O are the groups.
//!
//! The TLS layer asks for a certificate and checks that the client holds its key, no more
//! ([`ClientAuth::Request`](trireme_service::tls::ClientAuth::Request)); the chain is judged per request here. So a foreign or expired certificate gets a 401 with a Status, not an alert.

use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::{CertificateDer, UnixTime};
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::user::{UserInfo, extra};

/// The attribute of a subject that names the user's UID.
const UID_OID: &str = "1.3.6.1.4.1.57683.2";

/// Judges chains against the CAs of `--client-ca-file`.
#[derive(Clone)]
pub struct CertificateAuthority {
    verifier: Arc<dyn ClientCertVerifier>,
}

impl CertificateAuthority {
    /// Trusts these CA certificates for client certificates.
    pub fn new(roots: &[CertificateDer<'static>]) -> Result<Self, String> {
        let mut store = RootCertStore::empty();
        for root in roots {
            store.add(root.clone()).map_err(|e| format!("client CA certificate: {e}"))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(store), provider)
            .build()
            .map_err(|e| format!("client CA certificates: {e}"))?;
        Ok(Self { verifier })
    }

    /// Checks that the chain leads to a CA, is valid now and is meant for clients.
    pub fn verify(&self, chain: &[CertificateDer<'_>]) -> Result<(), String> {
        let [leaf, intermediates @ ..] = chain else { return Err("no certificate".into()) };
        self.verifier.verify_client_cert(leaf, intermediates, now()).map(|_| ()).map_err(|e| e.to_string())
    }

    /// The user that the chain proves.
    pub fn authenticate(&self, chain: &[CertificateDer<'_>]) -> Result<UserInfo, String> {
        self.verify(chain)?;
        let leaf = chain.first().ok_or("no certificate")?;
        user_of(leaf)
    }
}

/// The identity in a certificate's subject. It says nothing of whether to believe it.
pub fn user_of(certificate: &CertificateDer<'_>) -> Result<UserInfo, String> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|e| e.to_string())?;
    let subject = parsed.subject();
    let name = subject.iter_common_name().next().and_then(|cn| cn.as_str().ok()).unwrap_or_default();
    if name.is_empty() {
        return Err("the certificate's subject has no common name".into());
    }
    let groups = subject.iter_organization().filter_map(|o| o.as_str().ok()).map(str::to_owned).collect();
    let uid = subject.iter_attributes().find(|a| a.attr_type().to_id_string() == UID_OID);
    let uid = uid.and_then(|a| a.as_str().ok()).unwrap_or_default().to_owned();
    let id = format!("X509SHA256={}", hex::encode(Sha256::digest(certificate.as_ref())));
    let extra = [(extra::CREDENTIAL_ID.to_owned(), vec![id])].into();
    Ok(UserInfo { name: name.to_owned(), uid, groups, extra })
}

fn now() -> UnixTime {
    let now = jiff::Timestamp::now().as_second();
    UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now).unwrap_or_default()))
}
