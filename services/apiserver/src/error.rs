//! What can go wrong inside the API server. Clients see a `Status` instead (see [`Error::status`]).

use std::path::PathBuf;

use trireme_machinery::status::Status;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store did not answer in time; a write may or may not have happened.
    #[error("the store did not answer in time: {0}")]
    StoreTimeout(String),
    /// The store refused.
    #[error("the store refused: {0}")]
    Store(String),
    /// The revision that was asked for is no longer kept.
    #[error("the required revision has been compacted")]
    Compacted,
    /// The revision that was asked for is not there yet.
    #[error("the required revision is a future revision")]
    Future,
    /// The store has no room left.
    #[error("the store's space is exceeded")]
    NoSpace,
    /// A stored value can't be read.
    #[error("stored value of {key}: {why}")]
    Value {
        /// The key.
        key: String,
        /// Why.
        why: String,
    },
    /// A file of the configuration can't be used.
    #[error("{path}: {why}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A flag can't be used.
    #[error("{0}")]
    Flag(String),
    /// The machine, or what the harness needs of it, isn't as it should be.
    #[error(transparent)]
    Service(#[from] trireme_service::Error),
    /// A part of the server has stopped.
    #[error("{0} has stopped")]
    Stopped(&'static str),
}

// === impl Error ===

impl Error {
    /// What a client is told.
    pub fn status(&self) -> Status {
        match self {
            Self::StoreTimeout(why) => {
                tracing::debug!(%why, "the store did not answer in time");
                Status::timeout("request did not complete within requested timeout - context deadline exceeded", 0)
            }
            Self::Compacted => Status::expired("The resourceVersion for the provided list is too old."),
            other => Status::internal(other),
        }
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        error.status()
    }
}
