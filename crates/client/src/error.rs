//! What can go wrong between a component and the API server.

use std::sync::Arc;

use trireme_machinery::status::{Status, cause};

/// What an error came from. Errors are handed to all who wait for the same thing, so they share it.
pub(crate) type Source = Arc<dyn std::error::Error + Send + Sync>;

/// What may become a [`Source`]: an error, or words where nobody else's error is behind it.
type IntoSource = Box<dyn std::error::Error + Send + Sync>;

/// The error of every call of this crate.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The API server answered with a Status.
    #[error("{0}")]
    Api(Box<Status>),
    /// No connection, or it broke before the answer came. Of a write the outcome is unknown.
    #[error("cannot reach {endpoint}: {}", whole(.source))]
    Unreachable {
        /// Where the call went.
        endpoint: String,
        /// What the transport said.
        source: Source,
    },
    /// A stream ended that should have gone on.
    #[error("the watch stream ended: {}", whole(.0))]
    Disconnected(#[source] Source),
    /// An answer is not what the protocol says.
    #[error("cannot read {what}: {source}")]
    Decode {
        /// What was read.
        what: String,
        /// What is wrong with it.
        source: Source,
    },
    /// A request cannot be written down.
    #[error("cannot write {what}: {source}")]
    Encode {
        /// What was to be written.
        what: String,
        /// What is wrong with it.
        source: Source,
    },
    /// The configuration (kubeconfig, certificates, flags) cannot be used.
    #[error("{0}")]
    Config(String),
    /// The claim of the shard was lost: nothing was sent.
    #[error("claim {0} is not held any more")]
    ClaimLost(String),
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Error::Api(Box::new(status))
    }
}

impl Error {
    /// The Status the API server answered with, if it answered.
    #[must_use]
    pub fn status(&self) -> Option<&Status> {
        match self {
            Error::Api(status) => Some(status),
            _ => None,
        }
    }

    /// The HTTP code of the answer, if there was one.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        self.status().map(Status::code)
    }

    /// The object does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(Status::is_not_found)
    }

    /// An object of that name exists.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(Status::is_already_exists)
    }

    /// The object changed since it was read, or a precondition does not hold.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(Status::is_conflict)
    }

    /// The object was refused as invalid.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.status().is_some_and(Status::is_invalid)
    }

    /// The caller may not do that.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.status().is_some_and(Status::is_forbidden)
    }

    /// The resourceVersion asked for is not kept any more: list again.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.status().is_some_and(Status::is_gone)
    }

    /// Too many requests, too busy, or an eviction that a budget does not allow now.
    #[must_use]
    pub fn is_too_many_requests(&self) -> bool {
        self.status().is_some_and(Status::is_too_many_requests)
    }

    /// The namespace is being deleted, so nothing can be created in it.
    #[must_use]
    pub fn is_namespace_terminating(&self) -> bool {
        self.has_cause(cause::NAMESPACE_TERMINATING)
    }

    /// The worker lost the claim under which it wrote.
    #[must_use]
    pub fn is_claim_lost(&self) -> bool {
        matches!(self, Error::ClaimLost(_)) || self.has_cause(cause::CLAIM_LOST)
    }

    /// The details of the answer name this cause.
    #[must_use]
    pub fn has_cause(&self, cause: &str) -> bool {
        self.status().is_some_and(|s| s.has_cause(cause))
    }

    /// Nobody knows whether the write happened: repeat the same request until the answer is known.
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        match self {
            Error::Unreachable { .. } | Error::Disconnected(_) => true,
            Error::Api(status) => matches!(status.code(), 500 | 502 | 503 | 504),
            _ => false,
        }
    }

    /// Seconds the server asks to wait before the next try.
    #[must_use]
    pub fn retry_after(&self) -> Option<u64> {
        self.status()?.retry_after_seconds().and_then(|s| u64::try_from(s).ok())
    }

    /// A stream ended that should have gone on.
    pub fn disconnected(source: impl Into<IntoSource>) -> Self {
        Error::Disconnected(source.into().into())
    }

    pub(crate) fn decode(what: impl Into<String>, source: impl Into<IntoSource>) -> Self {
        Error::Decode { what: what.into(), source: source.into().into() }
    }

    pub(crate) fn encode(what: impl Into<String>, source: impl Into<IntoSource>) -> Self {
        Error::Encode { what: what.into(), source: source.into().into() }
    }

    pub(crate) fn unreachable(endpoint: impl Into<String>, source: impl Into<IntoSource>) -> Self {
        Error::Unreachable { endpoint: endpoint.into(), source: source.into().into() }
    }
}

/// An error of a transport with all that is behind it: alone it says little ("client error").
pub(crate) fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::io;

    use super::*;

    #[test]
    fn what_is_behind_an_error_stays_with_it() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let error = Error::unreachable("https://x", refused);
        let source = error.source().unwrap().downcast_ref::<Source>().unwrap();
        assert_eq!(source.downcast_ref::<io::Error>().unwrap().kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(error.to_string(), "cannot reach https://x: connection refused");
        assert_eq!(Error::decode("a list", "no list").to_string(), "cannot read a list: no list");
    }
}
