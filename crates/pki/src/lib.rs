//! Keys and certificates: the authorities of a cluster and every identity in it.
//!
//! A cluster has three authorities, apart from each other so that a key of one opens nothing of the other
//! (DESIGN 5, Identities):
//!
//! | file | signs |
//! |---|---|
//! | `ca.crt` | the API server, components, kubelets, users |
//! | `store-ca.crt` | store members, the API server as their client, the operator |
//! | `front-proxy-ca.crt` | the API server towards aggregated API servers |
//!
//! Names follow Kubernetes' PKI conventions (`system:kube-scheduler`, `system:node:<name>` in `system:nodes`,
//! `system:masters`), so upstream's RBAC defaults hold. A directory is filled idempotently: what exists and is still
//! good is kept; a certificate that ends within thirty days or lacks a wanted address is issued anew with its key kept.
//!
//! Invariants: private keys are written with mode 0600, each file atomically; nothing here talks to a network.

mod authority;
mod encryption;
mod error;
mod files;
mod identity;
mod kubeconfig;
mod layout;

pub use authority::Authority;
pub use error::Error;
pub use identity::{AuthorityName, Identity, Usage};
pub use kubeconfig::{Credentials, Kubeconfig};
pub use layout::{Pair, Pki};
