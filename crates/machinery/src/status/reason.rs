//! The machine's word for why a request failed.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! reasons {
    ($($name:ident),* $(,)?) => {
        /// The machine's word for why a request failed.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(from = "String", into = "String")]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "the names are Kubernetes' reasons, letter by letter")]
        pub enum Reason {
            /// No reason was given.
            #[default]
            Unknown,
            $($name,)*
            /// One that Kubernetes 1.37 does not list.
            Other(String),
        }

        impl Reason {
            /// The reason as it travels.
            pub fn as_str(&self) -> &str {
                match self {
                    Self::Unknown => "",
                    $(Self::$name => stringify!($name),)*
                    Self::Other(other) => other,
                }
            }
        }

        impl From<String> for Reason {
            fn from(text: String) -> Self {
                match text.as_str() {
                    "" => Self::Unknown,
                    $(stringify!($name) => Self::$name,)*
                    _ => Self::Other(text),
                }
            }
        }
    };
}

reasons!(
    Unauthorized,
    Forbidden,
    NotFound,
    AlreadyExists,
    Conflict,
    Gone,
    Invalid,
    ServerTimeout,
    StoreReadError,
    Timeout,
    TooManyRequests,
    BadRequest,
    MethodNotAllowed,
    NotAcceptable,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    InternalError,
    Expired,
    ServiceUnavailable,
);

// === impl Reason ===

impl Reason {
    pub(super) fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }

    /// Whether Kubernetes lists it.
    pub(super) fn is_listed(&self) -> bool {
        !matches!(self, Self::Unknown | Self::Other(_))
    }
}

impl From<Reason> for String {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Other(other) => other,
            listed => listed.as_str().to_owned(),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
