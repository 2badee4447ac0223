//! The request pipeline: what both doors share.
//!
//! A door turns what came over the wire into a [`Request`], the pipeline authenticates, authorizes, decodes, mutates,
//! validates, admits, persists and audits it, and the door writes the [`Answer`] in its own encoding. Nothing in here
//! knows HTTP or gRPC.

pub mod context;
pub mod contract;
pub mod exchange;
pub mod info;
pub mod stored;

pub use context::Context;
pub use contract::{Companion, Companions, ListScope, Objects, Reader};
pub use exchange::{Answer, Body, ObjectAnswer, ObjectBody, RawAnswer, Request};
pub use info::RequestInfo;
pub use stored::{Stored, TypeMeta};
