//! Values that are sealed in the store, by an upstream EncryptionConfiguration.
//!
//! A sealed value is `k8s:enc:aesgcm:v1:<key name>:`, a nonce of 12 bytes and the AES-GCM ciphertext; the key in the
//! store is authenticated with it, so that a value can't be moved to another key.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use bytes::Bytes;
use rand::RngCore as _;
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::Deserialize;
use trireme_machinery::gvk::GroupResource;

use crate::error::{Error, ValueError};

const AES_GCM: &str = "k8s:enc:aesgcm:v1:";
const SEALED: &[u8] = b"k8s:enc:";

/// Which resources are sealed, and with what.
#[derive(Debug, Clone, Default)]
pub struct Sealing {
    resources: HashMap<String, Arc<[Provider]>>,
}

#[derive(Debug)]
enum Provider {
    Identity,
    AesGcm(Vec<Key>),
}

#[derive(Debug)]
struct Key {
    prefix: String,
    key: LessSafeKey,
}

#[derive(Deserialize)]
struct Configuration {
    kind: String,
    resources: Vec<Rule>,
}

#[derive(Deserialize)]
struct Rule {
    resources: Vec<String>,
    providers: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct KeyList {
    keys: Vec<NamedKey>,
}

#[derive(Deserialize)]
struct NamedKey {
    name: String,
    secret: String,
}

// === impl Sealing ===

impl Sealing {
    /// Reads an EncryptionConfiguration.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|why| Error::File { path: path.to_owned(), why })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let configuration: Configuration = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        if configuration.kind != "EncryptionConfiguration" {
            return Err(format!("kind is {:?}, not EncryptionConfiguration", configuration.kind));
        }
        let mut resources = HashMap::new();
        for rule in configuration.resources {
            let providers = rule.providers.iter().map(provider).collect::<Result<Vec<_>, _>>()?;
            let providers: Arc<[Provider]> = providers.into();
            for resource in rule.resources {
                // The first rule that names a resource counts.
                resources.entry(resource).or_insert_with(|| providers.clone());
            }
        }
        Ok(Self { resources })
    }

    fn providers(&self, resource: &GroupResource) -> Option<&[Provider]> {
        let wildcard = format!("*.{}", resource.group);
        [resource.to_string().as_str(), wildcard.as_str(), "*.*"]
            .into_iter()
            .find_map(|name| self.resources.get(name))
            .map(|providers| &**providers)
    }

    /// Seals a value for its key in the store.
    pub fn seal(&self, resource: &GroupResource, store_key: &str, value: Bytes) -> Result<Bytes, Error> {
        match self.providers(resource).and_then(<[Provider]>::first) {
            Some(Provider::AesGcm(keys)) => match keys.first() {
                Some(key) => key.seal(store_key, &value),
                None => Ok(value),
            },
            Some(Provider::Identity) | None => Ok(value),
        }
    }

    /// Opens a value of the store. One that is not sealed passes as it is.
    pub fn open(&self, resource: &GroupResource, store_key: &str, value: Bytes) -> Result<Bytes, Error> {
        if !value.starts_with(SEALED) {
            return Ok(value);
        }
        let keys = self.providers(resource).into_iter().flatten().filter_map(|provider| match provider {
            Provider::AesGcm(keys) => Some(keys),
            Provider::Identity => None,
        });
        for key in keys.flatten() {
            if let Some(sealed) = value.strip_prefix(key.prefix.as_bytes())
                && let Some(opened) = key.open(store_key, sealed)
            {
                return Ok(opened);
            }
        }
        Err(Error::Value { key: store_key.to_owned(), source: ValueError::Sealed })
    }
}

// === impl Key ===

impl Key {
    fn new(named: &NamedKey) -> Result<Self, String> {
        let secret = base64::engine::general_purpose::STANDARD
            .decode(&named.secret)
            .map_err(|error| format!("key {}: {error}", named.name))?;
        let algorithm = match secret.len() {
            16 => &AES_128_GCM,
            32 => &AES_256_GCM,
            other => return Err(format!("key {}: a secret of {other} bytes; 16 or 32 are needed", named.name)),
        };
        let key = UnboundKey::new(algorithm, &secret).map_err(|_| format!("key {}: not a key", named.name))?;
        Ok(Self { prefix: format!("{AES_GCM}{}:", named.name), key: LessSafeKey::new(key) })
    }

    fn seal(&self, store_key: &str, value: &[u8]) -> Result<Bytes, Error> {
        let mut nonce = [0u8; NONCE_LEN];
        rand::rng().fill_bytes(&mut nonce);
        let mut text = value.to_vec();
        self.key
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(store_key.as_bytes()), &mut text)
            .map_err(|_| Error::Value { key: store_key.to_owned(), source: ValueError::Unsealable })?;
        Ok([self.prefix.as_bytes(), &nonce, &text].concat().into())
    }

    fn open(&self, store_key: &str, sealed: &[u8]) -> Option<Bytes> {
        let (nonce, text) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut text = text.to_vec();
        let length = self.key.open_in_place(nonce, Aad::from(store_key.as_bytes()), &mut text).ok()?.len();
        text.truncate(length);
        Some(text.into())
    }
}

fn provider(value: &serde_json::Value) -> Result<Provider, String> {
    if value.get("identity").is_some() {
        return Ok(Provider::Identity);
    }
    if let Some(list) = value.get("aesgcm") {
        let list: KeyList = serde_json::from_value(list.clone()).map_err(|error| format!("aesgcm: {error}"))?;
        if list.keys.is_empty() {
            return Err("aesgcm: no keys".to_owned());
        }
        return Ok(Provider::AesGcm(list.keys.iter().map(Key::new).collect::<Result<_, _>>()?));
    }
    let name = value.as_object().and_then(|map| map.keys().next()).map_or("", String::as_str);
    Err(format!("provider {name:?} is not supported; aesgcm and identity are"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIGURATION: &str = "
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - aesgcm:
      keys:
      - name: key1
        secret: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=
  - identity: {}
";

    #[test]
    fn secrets_are_sealed_and_bound_to_their_key() {
        let sealing = Sealing::parse(CONFIGURATION).unwrap();
        let secrets = GroupResource::new("", "secrets");
        let sealed = sealing.seal(&secrets, "/registry/secrets/a/b", Bytes::from("{}")).unwrap();
        assert!(sealed.starts_with(b"k8s:enc:aesgcm:v1:key1:"));
        assert!(!sealed.windows(2).any(|pair| pair == b"{}"));
        assert_eq!(sealing.open(&secrets, "/registry/secrets/a/b", sealed.clone()).unwrap(), "{}");
        assert!(sealing.open(&secrets, "/registry/secrets/a/c", sealed).is_err());
    }

    #[test]
    fn what_is_not_named_is_not_sealed() {
        let sealing = Sealing::parse(CONFIGURATION).unwrap();
        let maps = GroupResource::new("", "configmaps");
        assert_eq!(sealing.seal(&maps, "/k", Bytes::from("{}")).unwrap(), "{}");
        // A value from before encryption was configured.
        assert_eq!(sealing.open(&GroupResource::new("", "secrets"), "/k", Bytes::from("{}")).unwrap(), "{}");
    }

    #[test]
    fn unknown_providers_are_refused() {
        let text = CONFIGURATION.replace("identity: {}", "kms: {}");
        assert!(Sealing::parse(&text).unwrap_err().contains("\"kms\""));
    }
}
