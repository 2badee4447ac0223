//! The pod network of a node.
//!
//! Waits until the Node has a range of addresses, then gives the container runtime a CNI configuration (a bridge of its
//! own, addresses by host-local, ports of the host by portmap), routes the other nodes' ranges to them, masquerades what
//! leaves the pods' ranges, and lets the kernel forward.
//!
//! [`plan`] is pure: from the cluster's nodes to what this node's network should be. [`system`] looks at the machine and
//! changes what differs. Actors: an informer of Nodes, and one task, the [`agent`], which alone changes the network. It
//! wakes when a Node changes, and every `--sync-period` to undo what others changed.
//!
//! Invariants:
//! - The CNI configuration appears last, when Pods that get a network can use it, and whole.
//! - Routes and rules of others are left alone; ours stay when the process ends. `--cleanup` ([`cleanup`]) removes them.
//! - Nodes reach each other at their InternalIP without a router between them; there is no encapsulation.

pub mod agent;
pub mod cleanup;
mod config;
mod error;
pub mod plan;
mod run;
pub mod system;

pub use config::Args;
pub use error::Error;
pub use run::run;
