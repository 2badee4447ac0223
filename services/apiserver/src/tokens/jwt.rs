//! The compact form of a signed token: `header.claims.signature`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::keys::{SigningKey, VerifyingKey};

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: String,
    /// Extensions that whoever reads the token has to understand; we know none.
    #[serde(default)]
    crit: Option<Vec<String>>,
}

/// Signs claims.
pub fn encode(claims: &impl Serialize, key: &SigningKey) -> Result<String, String> {
    let public = key.verifying();
    let header = json!({"alg": public.algorithm.name(), "kid": public.id}).to_string();
    let claims = serde_json::to_string(claims).map_err(|e| e.to_string())?;
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = key.sign(message.as_bytes())?;
    Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// The claims, without asking whether to believe them.
pub fn peek<T: DeserializeOwned>(token: &str) -> Option<T> {
    part(token.split('.').nth(1)?)
}

/// The claims of a token that one of `keys` signed.
pub fn decode<T: DeserializeOwned>(token: &str, keys: &[VerifyingKey]) -> Result<T, String> {
    let (message, signature) = token.rsplit_once('.').ok_or("not a signed token")?;
    let (header, claims) = message.split_once('.').ok_or("not a signed token")?;
    let header: Header = part(header).ok_or("the token's header can't be read")?;
    if header.crit.as_ref().is_some_and(|names| !names.is_empty()) {
        return Err("the token needs an extension that is not supported".into());
    }
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| "the token's signature can't be read")?;
    let candidates = keys.iter().filter(|key| key.algorithm.name() == header.alg);
    // A key id only saves work: without one every key is tried.
    let mut candidates = candidates.filter(|key| header.kid.is_empty() || key.id == header.kid);
    if !candidates.any(|key| key.verifies(message.as_bytes(), &signature)) {
        return Err("invalid signature, no keys found".into());
    }
    part(claims).ok_or_else(|| "the token's claims can't be read".into())
}

fn part<T: DeserializeOwned>(encoded: &str) -> Option<T> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(encoded).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::keys::tests::pem_key;
    use serde_json::Value;

    #[test]
    fn only_the_signer_is_believed() {
        let key = SigningKey::from_pem(pem_key().as_bytes()).unwrap();
        let other = SigningKey::from_pem(pem_key().as_bytes()).unwrap();
        let token = encode(&json!({"sub": "a"}), &key).unwrap();
        assert_eq!(decode::<Value>(&token, &[key.verifying().clone()]).unwrap()["sub"], "a");
        assert!(decode::<Value>(&token, &[other.verifying().clone()]).is_err());
        let forged = token.replacen('.', "x.", 1);
        assert!(decode::<Value>(&forged, &[key.verifying().clone()]).is_err());
        assert!(decode::<Value>("nope", &[]).is_err());
    }

    #[test]
    fn what_must_be_understood_is_not_passed_over() {
        let key = SigningKey::from_pem(pem_key().as_bytes()).unwrap();
        let keys = [key.verifying().clone()];
        let signed = |crit: Value| {
            let header = json!({"alg": key.verifying().algorithm.name(), "crit": crit}).to_string();
            let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode("{}"));
            let signature = key.sign(message.as_bytes()).unwrap();
            format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
        };
        assert!(decode::<Value>(&signed(json!(["exp2"])), &keys).is_err());
        assert!(decode::<Value>(&signed(json!("exp2")), &keys).is_err());
        assert!(decode::<Value>(&signed(Value::Null), &keys).is_ok());
    }
}
