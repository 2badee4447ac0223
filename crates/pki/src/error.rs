//! What can go wrong while making or reading keys and certificates.

use std::path::PathBuf;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A certificate could not be made or signed.
    #[error("certificate of {name}: {source}")]
    Certificate {
        /// Whose certificate.
        name: String,
        /// The library's reason.
        source: rcgen::Error,
    },
    /// A file holds no certificate that can be read.
    #[error("{}: not a certificate: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        reason: String,
    },
}

impl Error {
    pub(crate) fn file(path: &std::path::Path, source: std::io::Error) -> Self {
        Self::File { path: path.to_owned(), source }
    }

    pub(crate) fn certificate(name: &str, source: rcgen::Error) -> Self {
        Self::Certificate { name: name.to_owned(), source }
    }
}
