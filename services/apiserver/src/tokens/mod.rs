//! Service account tokens: signed, verified, issued, and their keys published.
//!
//! A token is a JWT (ES256; RS256 keys of other clusters are taken too) bound to a service account and mostly to a Pod,
//! Secret or Node: it is worth nothing once that object is gone. Nothing is kept: a token is judged by its signature,
//! its times and the objects in the watch cache.
//!
//! | module | concern |
//! |---|---|
//! | [`keys`] | PEM keys, key ids, signing and verifying |
//! | [`jwt`] | the three parts of a token |
//! | [`claims`] | what is in it |
//! | [`verify`] | whose it is, and whether it still counts |
//! | [`issue`] | `POST …/serviceaccounts/<name>/token` |
//! | [`publish`] | OpenID discovery and the JSON Web Key Set |

pub mod claims;
pub mod issue;
pub mod jwt;
pub mod keys;
pub mod publish;
pub mod verify;

pub use issue::Issuer;
pub use keys::{SigningKey, VerifyingKey};
pub use verify::ServiceAccountTokens;
