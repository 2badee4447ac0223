//! Kubeconfig files (client.config.k8s.io v1): one cluster, one user.

use std::path::{Path, PathBuf};

use base64::Engine as _;

use crate::{
    Error,
    files::{self, Secrecy},
};

/// How the user of a kubeconfig proves who it is.
#[derive(Clone)]
pub enum Credentials {
    /// A bearer token.
    Token(String),
    /// A client certificate, named by absolute path so that it may be renewed in place.
    Certificate {
        /// PEM file of the certificate.
        cert: PathBuf,
        /// PEM file of the key.
        key: PathBuf,
    },
}

impl std::fmt::Debug for Credentials {
    /// Which proof it is, and nothing of a token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Token(_) => f.write_str("Token"),
            Self::Certificate { cert, key } => {
                f.debug_struct("Certificate").field("cert", cert).field("key", key).finish()
            }
        }
    }
}

/// What a kubeconfig says.
#[derive(Debug, Clone)]
pub struct Kubeconfig {
    /// Name of cluster and context.
    pub cluster: String,
    /// `https://host:port` of the API server.
    pub server: String,
    /// The authority's certificate, PEM; embedded.
    pub authority: String,
    /// Name of the user.
    pub user: String,
    /// The user's proof.
    pub credentials: Credentials,
}

impl Kubeconfig {
    /// Writes it to `path`, readable by its owner only.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        files::write(path, self.to_string().as_bytes(), Secrecy::Secret)
    }
}

impl std::fmt::Display for Kubeconfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { cluster, server, authority, user, credentials } = self;
        let authority = base64::engine::general_purpose::STANDARD.encode(authority);
        writeln!(f, "apiVersion: v1\nkind: Config\nclusters:\n- name: {cluster}\n  cluster:")?;
        writeln!(f, "    server: {server}\n    certificate-authority-data: {authority}")?;
        writeln!(f, "users:\n- name: {user}\n  user:")?;
        match credentials {
            Credentials::Token(token) => writeln!(f, "    token: {token}")?,
            Credentials::Certificate { cert, key } => {
                writeln!(f, "    client-certificate: {}\n    client-key: {}", cert.display(), key.display())?;
            }
        }
        writeln!(f, "contexts:\n- name: {cluster}\n  context:\n    cluster: {cluster}\n    user: {user}")?;
        writeln!(f, "current-context: {cluster}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_written_and_not_shown() {
        let config = Kubeconfig {
            cluster: "c".to_owned(),
            server: "https://s".to_owned(),
            authority: String::new(),
            user: "u".to_owned(),
            credentials: Credentials::Token("hidden".to_owned()),
        };
        assert!(config.to_string().contains("hidden"));
        assert!(!format!("{config:?}").contains("hidden"));
    }
}
