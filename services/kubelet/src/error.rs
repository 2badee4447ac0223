//! The one error type of the kubelet.

use std::path::{Path, PathBuf};

/// What can go wrong here. Texts end up in events and container statuses, so they say what a user can act on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A flag or the configuration file.
    #[error("{0}")]
    Config(String),
    /// Nobody, or somebody who speaks another protocol, answers at the runtime's endpoint.
    #[error(
        "no usable container runtime at {endpoint}: {reason}. The kubelet needs a runtime that serves CRI v1 there \
         (containerd 1.6 or newer, CRI-O 1.26 or newer); start it or name its socket with --container-runtime-endpoint"
    )]
    Runtime {
        /// The endpoint as it was configured.
        endpoint: String,
        /// What was seen.
        reason: String,
        /// Somebody is there, so there is no point in waiting.
        answers: bool,
    },
    /// A call that the runtime refused.
    #[error("{}", .status.message())]
    Cri {
        /// Name of the call.
        call: &'static str,
        /// The runtime's answer.
        status: Box<tonic::Status>,
    },
    /// A file or folder of this node.
    #[error("{action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The API server has no such object.
    #[error("{0}")]
    NotFound(String),
    /// The object changed since it was read.
    #[error("{0}")]
    Conflict(String),
    /// There is one by that name.
    #[error("{0}")]
    Exists(String),
    /// The API server will not take it, now or later.
    #[error("{0}")]
    Refused(String),
    /// The API server is busy, or could not be reached.
    #[error("{0}")]
    Api(String),
    /// Something in a Pod that cannot be done on this node; the text is the user's.
    #[error("{0}")]
    Pod(String),
    /// The work was called off because the Pod is to be stopped, or the kubelet is.
    #[error("context canceled")]
    Cancelled,
}

/// Results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of the file system.
    pub fn io(action: &'static str, path: impl AsRef<Path>, source: std::io::Error) -> Self {
        Self::Io { action, path: path.as_ref().to_owned(), source }
    }

    /// As gRPC's own errors are written, for the events that show them so.
    pub fn with_code(&self) -> String {
        match self {
            Self::Cri { status, .. } => {
                let code = match status.code() {
                    tonic::Code::Cancelled => "Canceled".to_owned(),
                    code => format!("{code:?}"),
                };
                format!("rpc error: code = {code} desc = {}", status.message())
            }
            other => other.to_string(),
        }
    }

    /// Does the runtime or the API server say that there is no such thing?
    pub fn is_not_found(&self) -> bool {
        match self {
            Self::Cri { status, .. } => status.code() == tonic::Code::NotFound,
            Self::NotFound(_) => true,
            _ => false,
        }
    }
}
