//! Keys out of PEM files.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_SHA256, RsaKeyPair, UnparsedPublicKey,
};
use rustls_pki_types::pem::{PemObject as _, SectionKind};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, SubjectPublicKeyInfo};
use x509_parser::public_key::{PublicKey, RSAPublicKey};

/// `SubjectPublicKeyInfo` of a P-256 key, up to the point.
const P256_SPKI: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// `AlgorithmIdentifier` of P-256 keys.
const P256_ALGORITHM: &[u8] = &[
    0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03,
    0x01, 0x07,
];
/// `AlgorithmIdentifier` of RSA keys.
const RSA_ALGORITHM: &[u8] =
    &[0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];

/// How a key signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// RSA PKCS#1 v1.5 with SHA-256.
    Rs256,
}

impl Algorithm {
    /// Its name in a JWT.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Rs256 => "RS256",
        }
    }
}

/// A key that verifies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyingKey {
    /// The algorithm it belongs to.
    pub algorithm: Algorithm,
    /// Its id: the hash of its DER form.
    pub id: String,
    /// P-256: the point; RSA: PKCS#1.
    public: Vec<u8>,
}

/// A key that signs.
pub struct SigningKey {
    pair: Pair,
    public: VerifyingKey,
}

enum Pair {
    Ec(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.public.id).finish_non_exhaustive()
    }
}

impl SigningKey {
    /// The first private key of a PEM file.
    pub fn from_pem(text: &[u8]) -> Result<Self, String> {
        for (kind, der) in sections(text)? {
            if let Some(pair) = private(kind, &der) {
                return pair.map(Self::new);
            }
        }
        Err("no private key in the file".into())
    }

    fn new(pair: Pair) -> Self {
        let public = match &pair {
            Pair::Ec(pair) => VerifyingKey::p256(pair.public_key().as_ref()),
            Pair::Rsa(pair) => VerifyingKey::rsa(pair.public_key().as_ref()),
        };
        Self { pair, public }
    }

    /// The key that verifies what this one signs.
    #[must_use]
    pub fn verifying(&self) -> &VerifyingKey {
        &self.public
    }

    /// Signs a message.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Ec(pair) => {
                let signature = pair.sign(&random, message).map_err(|_| "signing failed")?;
                Ok(signature.as_ref().to_vec())
            }
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).map_err(|_| "signing failed")?;
                Ok(signature)
            }
        }
    }
}

impl VerifyingKey {
    /// Every key of a PEM file; of a private key, its public half.
    pub fn all_from_pem(text: &[u8]) -> Result<Vec<Self>, String> {
        let mut keys = Vec::new();
        for (kind, der) in sections(text)? {
            match private(kind, &der) {
                Some(pair) => keys.push(SigningKey::new(pair?).public),
                None => keys.extend(public(kind, &der)?),
            }
        }
        if keys.is_empty() { Err("no key in the file".into()) } else { Ok(keys) }
    }

    fn p256(point: &[u8]) -> Self {
        let spki = [P256_SPKI, point].concat();
        Self { algorithm: Algorithm::Es256, id: key_id(&spki), public: point.to_vec() }
    }

    fn rsa(pkcs1: &[u8]) -> Self {
        let bits = [&[0u8], pkcs1].concat();
        let spki = der(0x30, &[RSA_ALGORITHM, &der(0x03, &bits)].concat());
        Self { algorithm: Algorithm::Rs256, id: key_id(&spki), public: pkcs1.to_vec() }
    }

    /// Whether `signature` is this key's over `message`.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self.algorithm {
            Algorithm::Es256 => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.public).verify(message, signature)
            }
            Algorithm::Rs256 => {
                UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &self.public).verify(message, signature)
            }
        }
        .is_ok()
    }

    /// The key as a JSON Web Key.
    #[must_use]
    pub fn jwk(&self) -> Option<Value> {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let (id, alg) = (&self.id, self.algorithm.name());
        match self.algorithm {
            Algorithm::Es256 => {
                let (x, y) = self.public.get(1..)?.split_at_checked(32)?;
                Some(
                    json!({"use": "sig", "kty": "EC", "kid": id, "crv": "P-256", "alg": alg, "x": text(x), "y": text(y)}),
                )
            }
            Algorithm::Rs256 => {
                let (_, key) = RSAPublicKey::from_der(&self.public).ok()?;
                let trim = |bytes: &[u8]| text(&bytes[bytes.iter().take_while(|b| **b == 0).count()..]);
                let (n, e) = (trim(key.modulus), trim(key.exponent));
                Some(json!({"use": "sig", "kty": "RSA", "kid": id, "alg": alg, "n": n, "e": e}))
            }
        }
    }
}

fn sections(text: &[u8]) -> Result<Vec<(SectionKind, Vec<u8>)>, String> {
    <(SectionKind, Vec<u8>)>::pem_slice_iter(text).collect::<Result<_, _>>().map_err(|e| format!("PEM: {e:?}"))
}

/// The key pair of a section; `None` if the section holds no private key.
fn private(kind: SectionKind, key: &[u8]) -> Option<Result<Pair, String>> {
    let random = SystemRandom::new();
    let ec = |pkcs8: &[u8]| EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &random).map(Pair::Ec);
    let pair = match kind {
        SectionKind::PrivateKey => ec(key).or_else(|_| RsaKeyPair::from_pkcs8(key).map(Pair::Rsa)),
        // SEC 1: the content of a PKCS#8 envelope.
        SectionKind::EcPrivateKey => {
            let body = [&[0x02, 0x01, 0x00], P256_ALGORITHM, &der(0x04, key)].concat();
            ec(&der(0x30, &body))
        }
        SectionKind::RsaPrivateKey => RsaKeyPair::from_der(key).map(Pair::Rsa),
        _ => return None,
    };
    Some(pair.map_err(|e| format!("private key: {e} (P-256 and RSA keys can be used)")))
}

fn public(kind: SectionKind, key: &[u8]) -> Result<Option<VerifyingKey>, String> {
    let spki = match kind {
        SectionKind::PublicKey => key.to_vec(),
        SectionKind::Certificate => {
            let (_, certificate) = x509_parser::parse_x509_certificate(key).map_err(|e| e.to_string())?;
            certificate.public_key().raw.to_vec()
        }
        _ => return Ok(None),
    };
    let (_, parsed) = SubjectPublicKeyInfo::from_der(&spki).map_err(|e| e.to_string())?;
    match parsed.parsed().map_err(|e| e.to_string())? {
        PublicKey::EC(point) if point.data().len() == 65 => Ok(Some(VerifyingKey::p256(point.data()))),
        PublicKey::RSA(_) => Ok(Some(VerifyingKey::rsa(&parsed.subject_public_key.data))),
        _ => Err("only P-256 and RSA keys can be used".into()),
    }
}

fn key_id(spki: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(spki))
}

/// One DER element.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match content.len() {
        short @ 0..0x80 => out.push(u8::try_from(short).unwrap_or_default()),
        long => {
            let bytes = long.to_be_bytes();
            let bytes = &bytes[bytes.iter().take_while(|b| **b == 0).count()..];
            out.push(0x80 | u8::try_from(bytes.len()).unwrap_or_default());
            out.extend_from_slice(bytes);
        }
    }
    out.extend_from_slice(content);
    out
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use ring::signature::EcdsaKeyPair;

    /// A fresh P-256 key in PEM.
    pub(crate) fn pem_key() -> String {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        let text = base64::engine::general_purpose::STANDARD.encode(pkcs8.as_ref());
        format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n")
    }

    #[test]
    fn signs_and_verifies() {
        let pem = pem_key();
        let signing = SigningKey::from_pem(pem.as_bytes()).unwrap();
        let verifying = VerifyingKey::all_from_pem(pem.as_bytes()).unwrap();
        assert_eq!(verifying, [signing.verifying().clone()]);
        let signature = signing.sign(b"message").unwrap();
        assert!(verifying[0].verifies(b"message", &signature));
        assert!(!verifying[0].verifies(b"another", &signature));
        let jwk = verifying[0].jwk().unwrap();
        assert_eq!((jwk["kty"].as_str(), jwk["alg"].as_str()), (Some("EC"), Some("ES256")));
    }

    #[test]
    fn der_lengths() {
        assert_eq!(der(0x04, &[1; 3])[..2], [0x04, 3]);
        assert_eq!(der(0x04, &[1; 200])[..3], [0x04, 0x81, 200]);
        assert_eq!(der(0x04, &[1; 300])[..4], [0x04, 0x82, 1, 44]);
    }
}
