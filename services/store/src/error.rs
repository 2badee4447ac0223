//! What can go wrong, in etcd's words: clients match on these codes and texts.
use std::io;
use std::path::Path;
use std::sync::Arc;

use tonic::{Code, Status};

/// What an error came from. Errors are handed to all who wait for the same thing, so they share it.
type Source = Arc<dyn std::error::Error + Send + Sync>;

/// Every error of the store. Those with a [number](Error::number) can be the outcome of applying a command and travel
/// between members.
#[derive(Debug, Clone, thiserror::Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum Error {
    #[error("etcdserver: key is not provided")]
    EmptyKey,
    #[error("etcdserver: key not found")]
    KeyNotFound,
    #[error("etcdserver: value is provided")]
    ValueProvided,
    #[error("etcdserver: lease is provided")]
    LeaseProvided,
    #[error("etcdserver: too many operations in txn request")]
    TooManyOps,
    #[error("etcdserver: duplicate key given in txn request")]
    DuplicateKey,
    #[error("etcdserver: invalid sort option")]
    InvalidSortOption,
    #[error("etcdserver: mvcc: required revision has been compacted")]
    Compacted,
    #[error("etcdserver: mvcc: required revision is a future revision")]
    FutureRevision,
    #[error("etcdserver: mvcc: database space exceeded")]
    NoSpace,
    #[error("etcdserver: corrupt cluster")]
    CorruptCluster,
    #[error("etcdserver: requested lease not found")]
    LeaseNotFound,
    #[error("etcdserver: lease already exists")]
    LeaseExists,
    #[error("etcdserver: too large lease TTL")]
    LeaseTtlTooLarge,
    #[error("etcdserver: request is too large")]
    RequestTooLarge,
    #[error("grpc: received message larger than max ({0} vs. {1})")]
    MessageTooLarge(usize, usize),
    #[error("etcdserver: too many requests")]
    TooManyRequests,
    #[error("etcdserver: member not found")]
    MemberNotFound,
    #[error("etcdserver: given member URLs are invalid")]
    MemberBadUrls,
    #[error("etcdserver: bad leader transferee")]
    BadTransferee,
    #[error("etcdserver: no leader")]
    NoLeader,
    #[error("etcdserver: not leader")]
    NotLeader,
    #[error("etcdserver: leader changed")]
    LeaderChanged,
    #[error("etcdserver: server stopped")]
    Stopped,
    #[error("etcdserver: request timed out")]
    TimedOut,
    #[error("etcdserver: request timed out, possibly due to previous leader failure")]
    LeaderFailed,
    #[error("etcdserver: request timed out, leader transfer took too long")]
    TransferTimedOut,
    #[error("etcdserver: cluster ID mismatch")]
    ClusterMismatch,
    /// The method is known to etcd but has no meaning here.
    #[error("{0}")]
    Unsupported(&'static str),
    /// A file of the data directory is damaged or belongs to something else.
    #[error("{path}: {reason}")]
    Data {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A file of a later version of the store.
    #[error("format {0} is not known here: it is of a later version")]
    UnknownFormat(u32),
    /// Flags that do not fit together.
    #[error("{0}")]
    Config(String),
    /// A file of the data directory cannot be used: the disk fails, it may not be opened, another process holds it.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// A disk or socket failed.
    #[error("{0}")]
    Io(#[source] Arc<io::Error>),
    /// What was read is not what was written: the disk, or who wrote it, is broken. Where the file is known it becomes
    /// [`Error::Data`].
    #[error("{0}")]
    Corrupt(String),
    /// What was read is no message of the kind that it has to be.
    #[error("{what} cannot be read: {source}")]
    Decode {
        /// What was read.
        what: String,
        /// What is wrong with it.
        source: prost::DecodeError,
    },
    /// The consensus library refused or ended.
    #[error("{what}: {source}")]
    Raft {
        /// What was wanted of it.
        what: &'static str,
        /// What it said.
        source: Source,
    },
    /// Another member refused, or was not reached.
    #[error("{}", .0.message())]
    Member(#[source] Arc<Status>),
    /// Another member, or a part of this one, answered something else than it was asked.
    #[error("{0}")]
    Protocol(String),
    /// A part of this member that the others need has ended.
    #[error("{0}")]
    Ended(String),
}

/// The store's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors that applying a command can end in, by their number on the wire. Only ever append.
const NUMBERED: [Error; 10] = [
    Error::EmptyKey,
    Error::KeyNotFound,
    Error::Compacted,
    Error::FutureRevision,
    Error::NoSpace,
    Error::LeaseNotFound,
    Error::LeaseExists,
    Error::LeaseTtlTooLarge,
    Error::CorruptCluster,
    Error::MemberNotFound,
];

impl Error {
    /// The number of an apply error; 0 is no error.
    pub fn number(&self) -> i32 {
        NUMBERED.iter().position(|e| e == self).map_or(-1, |i| i as i32 + 1)
    }

    /// The error of a number other than 0.
    pub fn from_number(number: i32) -> Self {
        let index = usize::try_from(number - 1).unwrap_or(usize::MAX);
        NUMBERED.get(index).cloned().unwrap_or_else(|| Error::Protocol(format!("unknown error {number} from a member")))
    }

    /// The file `path` is damaged, or belongs to something else.
    pub fn data(path: &Path, reason: impl ToString) -> Self {
        Error::Data { path: path.display().to_string(), reason: reason.to_string() }
    }

    /// The file `path` cannot be used.
    pub fn file(path: &Path, source: io::Error) -> Self {
        Error::File { path: path.display().to_string(), source: Arc::new(source) }
    }

    /// The same of the file that was read: what is damaged and what cannot be read stay two things.
    pub(crate) fn of(self, path: &Path) -> Self {
        match self {
            Error::Io(source) => Error::File { path: path.display().to_string(), source },
            other => Error::data(path, other),
        }
    }

    /// What of the kind `what` was read cannot be decoded.
    pub(crate) fn decode(what: impl Into<String>) -> impl FnOnce(prost::DecodeError) -> Self {
        let what = what.into();
        move |source| Error::Decode { what, source }
    }

    /// The consensus library failed at `what`.
    pub(crate) fn raft<E>(what: &'static str) -> impl FnOnce(E) -> Self
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        move |source| Error::Raft { what, source: Arc::new(source) }
    }

    fn code(&self) -> Code {
        match self {
            Error::EmptyKey
            | Error::KeyNotFound
            | Error::ValueProvided
            | Error::LeaseProvided
            | Error::TooManyOps
            | Error::DuplicateKey
            | Error::InvalidSortOption
            | Error::RequestTooLarge
            | Error::MemberBadUrls => Code::InvalidArgument,
            Error::Compacted | Error::FutureRevision | Error::LeaseTtlTooLarge => Code::OutOfRange,
            Error::NoSpace | Error::TooManyRequests | Error::MessageTooLarge(..) => Code::ResourceExhausted,
            Error::LeaseNotFound | Error::MemberNotFound => Code::NotFound,
            Error::LeaseExists | Error::BadTransferee | Error::NotLeader | Error::ClusterMismatch => {
                Code::FailedPrecondition
            }
            Error::NoLeader
            | Error::LeaderChanged
            | Error::Stopped
            | Error::TimedOut
            | Error::LeaderFailed
            | Error::TransferTimedOut => Code::Unavailable,
            Error::CorruptCluster | Error::Data { .. } | Error::Corrupt(_) | Error::Decode { .. } => Code::DataLoss,
            Error::Unsupported(_) => Code::Unimplemented,
            Error::Config(_)
            | Error::UnknownFormat(_)
            | Error::File { .. }
            | Error::Io(_)
            | Error::Raft { .. }
            | Error::Member(_)
            | Error::Protocol(_)
            | Error::Ended(_) => Code::Internal,
        }
    }
}

/// Two errors are one if clients cannot tell them apart.
impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        self.code() == other.code() && self.to_string() == other.to_string()
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        Status::new(error.code(), error.to_string())
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::Io(Arc::new(error))
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Error::Member(Arc::new(status))
    }
}

/// A task on a thread of its own did not come to its end.
impl From<tokio::task::JoinError> for Error {
    fn from(error: tokio::task::JoinError) -> Self {
        Error::Io(Arc::new(error.into()))
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn a_failing_disk_is_not_damaged_data_and_says_what_it_was() {
        let path = Path::new("/data/snap/1.snap");
        let failing = Error::from(io::Error::from_raw_os_error(5)).of(path);
        assert!(matches!(&failing, Error::File { source, .. } if source.raw_os_error() == Some(5)), "{failing:?}");
        assert!(failing.source().is_some() && failing.to_string().starts_with("/data/snap/1.snap: "), "{failing}");
        let damaged = Error::Corrupt("a checksum differs".into()).of(path);
        assert!(matches!(damaged, Error::Data { .. }), "{damaged:?}");
        assert_ne!(Status::from(damaged).code(), Status::from(failing).code());
    }

    #[test]
    fn numbers_come_back_as_they_went() {
        for error in NUMBERED {
            assert_eq!(Error::from_number(error.number()), error);
        }
        assert_eq!(Error::NotLeader.number(), -1);
    }
}
