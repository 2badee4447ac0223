//! TLS for servers and clients: identities and authorities from files that are read again when they change.

mod authorities;
mod connection;
mod identity;
mod peer;
mod reload;

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, ServerConfig};

pub use authorities::Authorities;
pub use connection::{ConnectInfo, Connection, Incoming, channel, incoming};
pub use identity::Identity;
pub use peer::Peer;
pub use rustls::pki_types::CertificateDer;

use crate::Error;

/// Protocols offered in a handshake: gRPC.
pub const ALPN_H2: &[&str] = &["h2"];
/// Protocols offered in a handshake: HTTPS.
pub const ALPN_HTTP: &[&str] = &["h2", "http/1.1"];

/// What a server wants of its clients' certificates.
#[derive(Clone, Debug)]
pub enum ClientAuth {
    /// Nothing.
    None,
    /// Asks for one and takes any, even one that it can't verify, so that the answer can be a proper 401:
    /// the server checks it with [`Authorities::verify_client`].
    Request,
    /// One that these authorities signed, or none.
    Optional(Authorities),
    /// One that these authorities signed.
    Required(Authorities),
}

/// A server's configuration.
///
/// # Errors
/// When the identity or the authorities can't be used.
pub fn server_config(identity: &Identity, clients: &ClientAuth, alpn: &[&str]) -> Result<Arc<ServerConfig>, Error> {
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let mut config = match clients {
        ClientAuth::None => builder.with_no_client_auth(),
        ClientAuth::Request => builder.with_client_cert_verifier(authorities::any_client(&provider())),
        ClientAuth::Optional(authorities) => builder.with_client_cert_verifier(authorities.client_verifier(false)),
        ClientAuth::Required(authorities) => builder.with_client_cert_verifier(authorities.client_verifier(true)),
    }
    .with_cert_resolver(identity.server_resolver());
    config.alpn_protocols = protocols(alpn);
    Ok(Arc::new(config))
}

/// A client's configuration: it trusts servers of `authorities`, and shows `identity` when asked.
///
/// # Errors
/// When either can't be used.
pub fn client_config(
    authorities: &Authorities,
    identity: Option<&Identity>,
    alpn: &[&str],
) -> Result<Arc<ClientConfig>, Error> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(authorities.server_verifier());
    let mut config = match identity {
        Some(identity) => builder.with_client_cert_resolver(identity.client_resolver()),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = protocols(alpn);
    Ok(Arc::new(config))
}

/// A client's configuration that trusts any server: only for what Kubernetes has `insecure-skip-tls-verify` for.
///
/// # Errors
/// When the identity can't be used.
pub fn insecure_client_config(identity: Option<&Identity>, alpn: &[&str]) -> Result<Arc<ClientConfig>, Error> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(authorities::any_server(&provider()));
    let mut config = match identity {
        Some(identity) => builder.with_client_cert_resolver(identity.client_resolver()),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = protocols(alpn);
    Ok(Arc::new(config))
}

fn provider() -> Arc<CryptoProvider> {
    CryptoProvider::get_default().cloned().unwrap_or_else(|| Arc::new(rustls::crypto::ring::default_provider()))
}

fn protocols(alpn: &[&str]) -> Vec<Vec<u8>> {
    alpn.iter().map(|name| name.as_bytes().to_vec()).collect()
}
