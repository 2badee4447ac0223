//! What can go wrong in the harness.

use std::path::PathBuf;

/// An error of the harness, with what is needed to mend it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that is needed cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A file does not hold what it should.
    #[error("{path}: {reason}", path = path.display())]
    Content {
        /// The file; `<inline>` for data that came with a configuration.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A certificate is not accepted.
    #[error("certificate: {0}")]
    Certificate(String),
    /// The TLS library refuses the configuration.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// An address cannot be listened at.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// Why not.
        source: std::io::Error,
    },
    /// An address is malformed.
    #[error("address {address:?}: {reason}")]
    Address {
        /// As it was given.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Telemetry cannot be set up.
    #[error(transparent)]
    Telemetry(#[from] trireme_telemetry::Error),
    /// The runtime cannot be made.
    #[error("runtime: {0}")]
    Runtime(std::io::Error),
}
