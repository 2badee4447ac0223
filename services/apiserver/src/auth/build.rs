//! From flags to the two judges.

use std::path::Path;
use std::sync::Arc;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use trireme_kinds::Registry;

use super::authenticator::Authenticator;
use super::authorizer::{Authorizer, Mode};
use super::certificate::CertificateAuthority;
use super::front_proxy::FrontProxy;
use super::node::NodeAuthorizer;
use super::rbac::Rbac;
use super::token_file::TokenFile;
use crate::config::Config;
use crate::duties::policy;
use crate::error::Error;
use crate::pipeline::Reader;
use crate::tokens::{ServiceAccountTokens, SigningKey, VerifyingKey};

/// Who judges requests.
#[derive(Clone)]
pub struct Parts {
    /// Who asks.
    pub authenticator: Authenticator,
    /// Whether they may.
    pub authorizer: Authorizer,
}

/// Builds both from the flags. All objects come from `reader`.
pub fn build(config: &Config, reader: &Arc<dyn Reader>, registry: &Registry) -> Result<Parts, Error> {
    let rules = policy::node_rules();
    let node = Arc::new(NodeAuthorizer::new(reader.clone(), registry, rules));
    let rbac = Rbac::new(reader.clone(), registry).ok_or_else(|| Error::Kind("roles or of their bindings".into()))?;
    let modes = Mode::parse(&config.authorization_mode.join(",")).map_err(Error::Flag)?;
    let authorizer = Authorizer::new(modes, node, Arc::new(rbac));

    let mut authenticator = Authenticator { anonymous: config.anonymous_auth, ..Authenticator::default() };
    if let Some(path) = &config.client_ca_file {
        authenticator.certificates = Some(authority(path)?);
    }
    if let Some(path) = &config.requestheader_client_ca_file {
        authenticator.front_proxy = Some(Arc::new(FrontProxy {
            authority: authority(path)?,
            allowed_names: config.requestheader_allowed_names.clone(),
            username_headers: config.requestheader_username_headers.clone(),
            uid_headers: config.requestheader_uid_headers.clone(),
            group_headers: config.requestheader_group_headers.clone(),
            extra_prefixes: config.requestheader_extra_headers_prefix.clone(),
        }));
    }
    if let Some(path) = &config.token_auth_file {
        authenticator.tokens = Arc::new(TokenFile::load(path).map_err(Error::Flag)?);
    }
    authenticator.audiences = audiences(config);
    let keys = verifying_keys(config)?;
    if !keys.is_empty() {
        let issuers = config.service_account_issuer.clone();
        let tokens = ServiceAccountTokens::new(reader.clone(), registry, keys, issuers, audiences(config));
        authenticator.service_accounts = tokens.map(Arc::new);
    }
    Ok(Parts { authenticator, authorizer })
}

/// The API server's own audiences: those it was given, else its issuers.
#[must_use]
pub fn audiences(config: &Config) -> Vec<String> {
    if config.api_audiences.is_empty() { config.service_account_issuer.clone() } else { config.api_audiences.clone() }
}

/// The key that signs service account tokens.
pub fn signing_key(config: &Config) -> Result<Option<SigningKey>, Error> {
    let Some(path) = &config.service_account_signing_key_file else { return Ok(None) };
    let key = SigningKey::from_pem(&read(path)?).map_err(|why| Error::File { path: path.clone(), why })?;
    Ok(Some(key))
}

/// The keys that verify service account tokens; the signing key is one of them.
pub fn verifying_keys(config: &Config) -> Result<Vec<VerifyingKey>, Error> {
    let mut keys: Vec<VerifyingKey> = Vec::new();
    for path in config.service_account_key_file.iter().chain(&config.service_account_signing_key_file) {
        let found = VerifyingKey::all_from_pem(&read(path)?).map_err(|why| Error::File { path: path.clone(), why })?;
        for key in found {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    Ok(keys)
}

/// The certificates of a PEM file.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let text = read(path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    certificates.map_err(|why| Error::File { path: path.to_owned(), why: format!("{why:?}") })
}

fn authority(path: &Path) -> Result<CertificateAuthority, Error> {
    CertificateAuthority::new(&certificates(path)?).map_err(|why| Error::File { path: path.to_owned(), why })
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}
