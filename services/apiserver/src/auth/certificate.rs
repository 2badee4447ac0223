//! Client certificates: CN is the user, O are the groups, as [`Peer`] reads them.
//!
//! The TLS layer asks for a certificate and checks that the client holds its key, no more
//! ([`ClientAuth::Request`](trireme_service::tls::ClientAuth::Request)); the chain is judged per request here. So a foreign or expired certificate gets a 401 with a Status, not an alert.

use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::{CertificateDer, UnixTime};
use trireme_service::tls::Peer;

use super::user::{UserInfo, extra};

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
    let peer = Peer::from_certificate(certificate).map_err(|e| e.to_string())?;
    if peer.common_name.is_empty() {
        return Err("the certificate's subject has no common name".into());
    }
    let extra = [(extra::CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={}", peer.fingerprint)])].into();
    Ok(UserInfo { name: peer.common_name, uid: peer.uid.unwrap_or_default(), groups: peer.organizations, extra })
}

fn now() -> UnixTime {
    let now = jiff::Timestamp::now().as_second();
    UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use rustls_pki_types::pem::PemObject as _;

    use super::*;

    /// `openssl req -x509 -subj /CN=alice/O=ops/CN=admin`
    const TWO_NAMES: &str = "\
-----BEGIN CERTIFICATE-----
MIIBtDCCAVmgAwIBAgIURRF4sf04yJvfAP+jV2eq43SaqkEwCgYIKoZIzj0EAwIw
LjEOMAwGA1UEAwwFYWxpY2UxDDAKBgNVBAoMA29wczEOMAwGA1UEAwwFYWRtaW4w
IBcNMjYxMjAxMTY0NTU0WhgPMjEyNjExMDcxNjQ1NTRaMC4xDjAMBgNVBAMMBWFs
aWNlMQwwCgYDVQQKDANvcHMxDjAMBgNVBAMMBWFkbWluMFkwEwYHKoZIzj0CAQYI
KoZIzj0DAQcDQgAEoiRTEYn9zZMTAq4XXxNfIWrqjgRSyyiVhzzsFXvhgqzxuQL8
1KO2I2niiXZqFlhG4vA+e0ufWvEfwpRCl4sEXaNTMFEwHQYDVR0OBBYEFD4gTfj7
YZwlRBL0if58neXdV9a4MB8GA1UdIwQYMBaAFD4gTfj7YZwlRBL0if58neXdV9a4
MA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSQAwRgIhALkghvIht0fMY/L1
2qzHl4YsLNsJ7fVBCfiumFzJzXGiAiEA3QW79+OFUU2/7Ubk6i7brOOr73PwCm19
8JwbEIPpyDQ=
-----END CERTIFICATE-----
";

    #[test]
    fn a_certificates_holder_is_the_same_as_at_every_door() {
        let certificate = CertificateDer::from_pem_slice(TWO_NAMES.as_bytes()).unwrap();
        let user = user_of(&certificate).unwrap();
        assert_eq!((user.name.as_str(), user.groups.as_slice()), ("admin", &["ops".to_owned()][..]));
        assert_eq!(user.name, Peer::from_certificate(&certificate).unwrap().common_name);
        let mut nameless = certificate.to_vec();
        // CN (2.5.4.3) becomes C (2.5.4.6), which is no name.
        while let Some(at) = nameless.windows(3).position(|window| window == [0x55, 4, 3]) {
            nameless[at + 2] = 6;
        }
        assert!(user_of(&CertificateDer::from(nameless)).is_err());
    }
}
