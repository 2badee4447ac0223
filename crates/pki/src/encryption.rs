//! The EncryptionConfiguration file: how the API server seals Secrets in the store. A stock API server takes it too.

use std::path::Path;

use base64::Engine as _;
use rand::RngCore as _;

use crate::{
    Error,
    files::{self, Secrecy},
};

/// Writes an `EncryptionConfiguration` with a new AES-256-GCM key named `key1`, unless the file exists.
pub(crate) fn ensure(path: &Path) -> Result<(), Error> {
    if path.exists() {
        return Ok(());
    }
    let mut key = [0_u8; 32];
    rand::rng().fill_bytes(&mut key);
    let secret = base64::engine::general_purpose::STANDARD.encode(key);
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\n\
         kind: EncryptionConfiguration\n\
         resources:\n\
         - resources:\n  - secrets\n\
         \x20 providers:\n\
         \x20 - aesgcm:\n      keys:\n      - name: key1\n        secret: {secret}\n\
         \x20 - identity: {{}}\n"
    );
    files::write(path, text.as_bytes(), Secrecy::Secret)
}
