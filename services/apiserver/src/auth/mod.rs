//! Who asks, and whether they may.
//!
//! *Authentication* turns what a connection and its headers prove into a [`UserInfo`]: a front proxy's headers, a client
//! certificate, a bearer token (static file, then service account), else the anonymous user. Credentials that were
//! presented and prove nothing are refused with 401; only their absence makes a caller anonymous.
//!
//! *Authorization* asks, in order, the privileged group, the Node authorizer and RBAC; the first that has an opinion
//! decides. All of them read the watch cache through immutable snapshots, so that a decision costs no I/O and no lock.
//!
//! | module | concern |
//! |---|---|
//! | [`user`] | the identity and the well-known names |
//! | [`authenticator`] | the order of credentials |
//! | [`certificate`], [`token_file`], [`front_proxy`] | one credential each (service accounts live in [`crate::tokens`]) |
//! | [`impersonation`] | acting as someone else, in upstream's five modes |
//! | [`attributes`], [`authorizer`] | the question, the chain that answers it, and the 403 text |
//! | [`rbac`], [`node`] | the two authorizers with rules |
//! | [`escalation`] | nobody grants what they do not hold |
//! | [`build`] | all of it from the flags |
//! | [`reviews`] | the same questions as API objects |

pub mod attributes;
pub mod authenticator;
pub mod authorizer;
pub mod build;
pub mod certificate;
pub mod escalation;
pub mod front_proxy;
pub mod impersonation;
pub mod node;
pub mod rbac;
mod review_selectors;
pub mod reviews;
pub mod token_file;
pub mod user;

pub use attributes::{Attributes, Decision, FieldEquals, Verdict};
pub use authenticator::{Authenticated, Authenticator, Credentials};
pub use authorizer::{Authorizer, forbidden};
pub use build::{Parts, build};
pub use user::UserInfo;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
