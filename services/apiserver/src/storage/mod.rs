//! The store's client: etcd v3 over gRPC with mutual TLS, against our store or a stock etcd.
//!
//! - [`client`]: calls that move to another member when one does not answer, until the request's deadline.
//! - [`keys`]: the `/registry` layout.
//! - [`encryption`]: values that are sealed in the store (Secrets).
//! - [`codec`]: a stored value as a [`Stored`](crate::pipeline::Stored), and back.
//! - [`txn`]: the one way to write: a transaction that compares the versions it was computed from and, for a fenced
//!   writer, its claim. Outcomes of repeated attempts are told apart, so a write happens once.
//! - [`causes`]: the trace context beside a version, on the wire.
//! - [`leases`]: leases of the store for what expires (Events).
//! - [`read_index`]: one question at a time for the revision that a linearizable read has to see.
//! - [`follow`]: the feed of the watch cache out of the store's own Watch.
//! - [`hints`]: the same feed out of the bus, with its gaps read from the store.
//! - [`compactor`]: drops old revisions, one replica at a time.

pub mod causes;
pub mod client;
pub mod codec;
pub mod compactor;
pub mod encryption;
pub mod follow;
pub mod hints;
pub mod keys;
pub mod leases;
pub mod read_index;
pub mod txn;

pub use client::Client;
pub use encryption::Sealing;
pub use txn::{Outcome, Transaction};
