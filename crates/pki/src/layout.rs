//! The directory that holds a cluster's keys and certificates.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use rand::RngCore as _;

use crate::{
    Authority, AuthorityName, Error, Identity,
    authority::key,
    encryption,
    files::{self, Secrecy},
};

/// A certificate and its key, PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate.
    pub cert: PathBuf,
    /// The key, PKCS#8.
    pub key: PathBuf,
}

/// A directory of keys and certificates, and the authorities to issue more.
#[derive(Debug)]
pub struct Pki {
    dir: PathBuf,
    authorities: [Authority; 3],
}

impl Pki {
    /// Opens `dir`, making what is missing: the authorities, the keys that sign service account tokens (ES256), the
    /// key that seals Secrets, and the administrator's token.
    ///
    /// # Errors
    /// A file that cannot be read or written, or that holds something else than it should.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        fs::create_dir_all(dir).map_err(|e| Error::file(dir, e))?;
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).map_err(|e| Error::file(dir, e))?;
        let dir = dir.canonicalize().map_err(|e| Error::file(dir, e))?;
        let [cluster, store, front_proxy] = AuthorityName::ALL;
        let authorities =
            [Authority::open(&dir, cluster)?, Authority::open(&dir, store)?, Authority::open(&dir, front_proxy)?];
        let pki = Self { dir, authorities };
        let signing = key(&pki.service_account_key())?;
        files::write(&pki.service_account_public_key(), signing.public_key_pem().as_bytes(), Secrecy::Public)?;
        encryption::ensure(&pki.encryption_config())?;
        pki.ensure_admin_token()?;
        Ok(pki)
    }

    /// The certificate and key of `identity`, issued if they are missing or no longer good.
    ///
    /// # Errors
    /// A file that cannot be read or written, or a name that cannot be certified.
    pub fn issue(&self, identity: &Identity) -> Result<Pair, Error> {
        self.authority(identity.authority).issue(&self.dir, identity)?;
        Ok(Pair {
            cert: self.dir.join(format!("{}.crt", identity.file)),
            key: self.dir.join(format!("{}.key", identity.file)),
        })
    }

    /// One of the authorities.
    #[must_use]
    pub fn authority(&self, name: AuthorityName) -> &Authority {
        let [cluster, store, front_proxy] = &self.authorities;
        match name {
            AuthorityName::Cluster => cluster,
            AuthorityName::Store => store,
            AuthorityName::FrontProxy => front_proxy,
        }
    }

    /// File of an authority's certificate.
    #[must_use]
    pub fn authority_file(&self, name: AuthorityName) -> PathBuf {
        self.dir.join(format!("{}.crt", name.file()))
    }

    /// Private key that signs service account tokens, PKCS#8 of a P-256 key.
    #[must_use]
    pub fn service_account_key(&self) -> PathBuf {
        self.dir.join("sa.key")
    }

    /// Its public half.
    #[must_use]
    pub fn service_account_public_key(&self) -> PathBuf {
        self.dir.join("sa.pub")
    }

    /// The EncryptionConfiguration of the API server.
    #[must_use]
    pub fn encryption_config(&self) -> PathBuf {
        self.dir.join("encryption.yaml")
    }

    /// The static token file of the API server: `admin` of `system:masters`.
    #[must_use]
    pub fn token_file(&self) -> PathBuf {
        self.dir.join("tokens.csv")
    }

    /// The administrator's bearer token.
    ///
    /// # Errors
    /// The token file cannot be read.
    pub fn admin_token(&self) -> Result<String, Error> {
        let path = self.token_file();
        let text = fs::read_to_string(&path).map_err(|e| Error::file(&path, e))?;
        Ok(text.split(',').next().unwrap_or_default().to_owned())
    }

    fn ensure_admin_token(&self) -> Result<(), Error> {
        let path = self.token_file();
        if path.exists() {
            return Ok(());
        }
        let mut bytes = [0_u8; 24];
        rand::rng().fill_bytes(&mut bytes);
        let token: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        files::write(&path, format!("{token},admin,admin,\"system:masters\"\n").as_bytes(), Secrecy::Secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_opening_keeps_everything() {
        let dir = tempfile::tempdir().unwrap();
        let read = |f: &str| fs::read(dir.path().join(f)).unwrap();
        let member = Identity::store_member("s1", &["10.0.0.1".into()]);
        Pki::open(dir.path()).unwrap().issue(&member).unwrap();
        let before: Vec<_> = ["ca.crt", "sa.key", "tokens.csv", "encryption.yaml", "store-s1.crt"].map(read).into();
        Pki::open(dir.path()).unwrap().issue(&member).unwrap();
        let after: Vec<_> = ["ca.crt", "sa.key", "tokens.csv", "encryption.yaml", "store-s1.crt"].map(read).into();
        assert_eq!(before, after);
    }

    #[test]
    fn a_new_address_gets_a_new_certificate_with_the_same_key() {
        let dir = tempfile::tempdir().unwrap();
        let pki = Pki::open(dir.path()).unwrap();
        let first = pki.issue(&Identity::store_member("s1", &[])).unwrap();
        let (cert, key) = (fs::read(&first.cert).unwrap(), fs::read(&first.key).unwrap());
        pki.issue(&Identity::store_member("s1", &["10.0.0.9".into()])).unwrap();
        assert_ne!(cert, fs::read(&first.cert).unwrap());
        assert_eq!(key, fs::read(&first.key).unwrap());
    }

    #[test]
    fn secrets_are_readable_by_their_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        Pki::open(dir.path()).unwrap();
        for f in ["ca.key", "store-ca.key", "front-proxy-ca.key", "sa.key", "tokens.csv", "encryption.yaml"] {
            let mode = fs::metadata(dir.path().join(f)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{f}");
        }
    }

    #[test]
    fn a_client_carries_kubernetes_names() {
        let dir = tempfile::tempdir().unwrap();
        let pair = Pki::open(dir.path()).unwrap().issue(&Identity::kubelet("n1")).unwrap();
        let pem = fs::read(&pair.cert).unwrap();
        let (_, block) = x509_parser::pem::parse_x509_pem(&pem).unwrap();
        assert_eq!(block.parse_x509().unwrap().subject().to_string(), "CN=system:node:n1, O=system:nodes");
    }
}
