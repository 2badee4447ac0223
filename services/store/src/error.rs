//! What can go wrong, in etcd's words: clients match on these codes and texts.
use tonic::{Code, Status};

/// Every error of the store. Those with a [number](Error::number) can be the outcome of applying a command and travel
/// between members.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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
    /// Flags that do not fit together.
    #[error("{0}")]
    Config(String),
    /// A socket, file or thread failed.
    #[error("{0}")]
    Io(String),
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
        NUMBERED.get(index).cloned().unwrap_or_else(|| Error::Io(format!("unknown error {number} from a member")))
    }

    /// The file `path` is damaged.
    pub fn data(path: &std::path::Path, reason: impl ToString) -> Self {
        Error::Data { path: path.display().to_string(), reason: reason.to_string() }
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
            Error::CorruptCluster => Code::DataLoss,
            Error::Unsupported(_) => Code::Unimplemented,
            Error::Data { .. } | Error::Config(_) | Error::Io(_) => Code::Internal,
        }
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        Status::new(error.code(), error.to_string())
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Error::Io(error.to_string())
    }
}
