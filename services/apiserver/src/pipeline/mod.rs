//! The request pipeline: what both doors share.
//!
//! A door turns what came over the wire into a [`Request`], the pipeline authenticates, authorizes, decodes, mutates,
//! validates, admits, persists and audits it, and the door writes the [`Answer`] in its own encoding. Nothing in here
//! knows HTTP or gRPC.

pub mod audit;
mod causes;
pub mod context;
pub mod contract;
mod create;
pub mod decode;
mod delete;
mod delete_body;
mod dispatch;
pub mod engine;
pub mod exchange;
mod fence;
pub mod info;
pub mod limit;
mod mutation;
pub mod options;
mod ownership;
mod patch;
mod persist;
mod read;
mod serve;
pub mod stored;
mod text;
mod update;
mod warm;
mod watch;

pub use context::Context;
pub use contract::{Companion, Companions, Documents, Handler, ListScope, Objects, Reader};
pub use engine::Engine;
pub use exchange::{Answer, Body, ObjectAnswer, ObjectBody, RawAnswer, Request};
pub use info::RequestInfo;
pub(crate) use mutation::{answer, dedup_owners, match_namespace};
pub(crate) use ownership::track_answered;
pub(crate) use patch::apply_patch;
pub use read::ListAnswer;
pub(crate) use serve::PANICKED;
pub use serve::Served;
pub use stored::{Stored, TypeMeta};
pub(crate) use text::Text;
pub(crate) use update::check_place;
pub use watch::{WatchItem, Watcher};
