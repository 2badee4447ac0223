//! The object model of Kubernetes, pure: metadata, names, selectors, quantities, patches, schemas, Status.
//!
//! Objects travel as [`serde_json::Value`]; nothing here does any I/O, keeps any state or knows any kind. What is
//! true of every object is here; what is true of one kind is in `trireme-kinds`.
//!
//! - [`gvk`], [`meta`], [`tree`]: what an object is and its metadata.
//! - [`names`], [`labels`], [`fields`], [`quantity`], [`int_or_string`], [`time`], [`duration`]: small languages inside
//!   objects.
//! - [`schema`]: what the fields of a kind are, and what follows from that alone.
//! - [`codec`], [`patch`]: bodies that come in, whole or as a change.
//! - [`shard`]: which slice of the keys an object is in.
//! - [`placement`]: on which nodes a pod may be.
//! - [`path`], [`field`], [`status`]: what is wrong, where, and how it is said.
//!
//! Invariants: a message that a client can see is Kubernetes' own, letter by letter ([`go`] prints values as Go
//! does); no input, however broken, makes this crate panic.

pub mod codec;
pub mod duration;
pub mod error;
pub mod field;
pub mod fields;
pub mod go;
pub mod gvk;
pub mod int_or_string;
pub mod labels;
pub mod meta;
pub mod names;
pub mod ownership;
pub mod patch;
pub mod path;
pub mod placement;
pub mod quantity;
pub mod schema;
pub mod shard;
pub mod status;
pub mod time;
pub mod tree;

pub use error::Error;
