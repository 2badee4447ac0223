//! How others verify our tokens: `/.well-known/openid-configuration` and `/openid/v1/jwks`.

use serde_json::{Value, json};

use super::keys::VerifyingKey;

/// Where the keys are served.
pub const JWKS_PATH: &str = "/openid/v1/jwks";
/// Where the discovery document is served.
pub const CONFIGURATION_PATH: &str = "/.well-known/openid-configuration";
/// The media type of a key set.
pub const JWKS_TYPE: &str = "application/jwk-set+json";

/// The discovery document of an issuer.
#[must_use]
pub fn configuration(issuer: &str, jwks_uri: &str, keys: &[VerifyingKey]) -> Value {
    let mut algorithms: Vec<&str> = keys.iter().map(|key| key.algorithm.name()).collect();
    algorithms.sort_unstable();
    algorithms.dedup();
    json!({
        "issuer": issuer,
        "jwks_uri": jwks_uri,
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": algorithms,
    })
}

/// The key set.
#[must_use]
pub fn key_set(keys: &[VerifyingKey]) -> Value {
    json!({ "keys": keys.iter().filter_map(VerifyingKey::jwk).collect::<Vec<_>>() })
}
