//! The store: keeps the cluster's data on 1, 3 or 5 members and speaks etcd's v3 API.
//!
//! A write becomes a command, goes through the Raft log, and is applied by every member in the same order; it is
//! acknowledged when a majority has it on disk and it is applied. Each version of a key is kept with its causes until it
//! is compacted. Any member serves; those that do not lead hand writes to the leader.
//!
//! # Who owns what
//!
//! | task | owns | is reached by |
//! |---|---|---|
//! | raft core (library) | term, votes, membership, replication | the library's queue, behind `raft::Node` |
//! | apply (library's, our `Machine`) | the state; publishes views and revisions | committed entries |
//! | `store-wal` (thread) | the log's files: one frame, one fsync for all writes that wait | a queue |
//! | proposer | commands that wait: makes one log entry of them | a bounded queue; full means "too many requests" |
//! | read-index | reads that wait: one round to the members for all of them | a bounded queue |
//! | lessor | deadlines of leases, on the leader | a bounded queue; reads views |
//! | watch stream, one each | its watches and how far they are | its client's requests; reads views and revisions |
//! | publisher | what goes out on the bus, on the leader | reads revisions; its queue drops |
//! | snapshots | when a snapshot is due | reads the log's size |
//!
//! # Invariants
//!
//! - Nothing is acknowledged before it is on the disks of a majority.
//! - A `raft::View` never changes, and only the apply task makes one: reads take no lock that a write waits for.
//! - A proposal whose fate is not known is never tried again; its client is told so.
//! - A slow watcher, reader or bus holds up nobody: what it misses it reads from a view.
//! - No type of the consensus library leaves `raft`.
#![deny(missing_docs)]

mod api;
mod config;
mod data_dir;
mod error;
mod lease;
mod metrics_task;
mod mvcc;
mod publish;
mod raft;
mod serve;
mod trace;

pub use config::Config;
pub use error::{Error, Result};
pub use serve::run;
