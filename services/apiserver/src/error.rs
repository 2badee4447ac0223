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
    #[error("the store refused: {:?}: {}", .0.code(), .0.message())]
    Refused(#[source] Box<tonic::Status>),
    /// A server of the store has no usable address.
    #[error("--etcd-servers {url}: {source}")]
    Server {
        /// As it was given.
        url: String,
        /// Why not.
        source: tonic::transport::Error,
    },
    /// The store ended a watch with an error.
    #[error("the store's watch broke: {0}")]
    Watch(#[source] Box<tonic::Status>),
    /// The store cancelled a watch, and said why.
    #[error("the store cancelled the watch: {0}")]
    WatchCancelled(String),
    /// The store ended a watch without a word.
    #[error("the store's watch ended")]
    WatchEnded,
    /// A transaction failed whose comparisons hold.
    #[error("a transaction failed without a reason")]
    Unexplained,
    /// The bus can't be used.
    #[error("the bus: {0}")]
    Bus(#[from] trireme_bus::Error),
    /// The revision that was asked for is no longer kept.
    #[error("the required revision has been compacted")]
    Compacted,
    /// The revision that was asked for is not there yet.
    #[error("the required revision is a future revision")]
    Future,
    /// The store has no room left.
    #[error("the store's space is exceeded")]
    NoSpace,
    /// A stored value can't be read, or one to be stored not be sealed.
    #[error("stored value of {key}: {source}")]
    Value {
        /// The key.
        key: String,
        /// Why.
        source: ValueError,
    },
    /// What a read would have to show could not be read when it came.
    #[error("stored value of {key}: {why}")]
    Unreadable {
        /// The key.
        key: String,
        /// Why, as it was told then.
        why: String,
    },
    /// A file of the configuration can't be read.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file of the configuration does not hold what it should.
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
    /// The registry lacks a kind that the server itself needs.
    #[error("the kind of {0} is missing")]
    Kind(String),
    /// Kubelets can't be spoken to.
    #[error("TLS towards kubelets: {0}")]
    Kubelets(#[source] trireme_service::Error),
    /// The machine, or what the harness needs of it, isn't as it should be.
    #[error(transparent)]
    Service(#[from] trireme_service::Error),
    /// A part of the server has stopped.
    #[error("{0} has stopped")]
    Stopped(&'static str),
}

/// What is wrong with a stored value.
#[derive(Debug, thiserror::Error)]
pub enum ValueError {
    /// It is no JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// It is no protobuf.
    #[error(transparent)]
    Protobuf(#[from] trireme_machinery::Error),
    /// It is of another kind than its key says.
    #[error("it is a {kind} of {api_version}")]
    Kind {
        /// Its kind.
        kind: String,
        /// The version of it.
        api_version: String,
    },
    /// It does not fit its kind.
    #[error("{0}")]
    Misfit(#[source] Box<Status>),
    /// It is sealed, and nobody can open it.
    #[error("it is sealed with a key that is not configured")]
    Sealed,
    /// It can't be sealed.
    #[error("it can't be sealed")]
    Unsealable,
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
