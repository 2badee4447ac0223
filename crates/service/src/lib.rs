//! The harness that every service runs in.
//!
//! - [`parse`] reads flags and an optional configuration file; [`CommonArgs`] are the flags that all services share.
//! - [`run_main`] makes the process: a tokio runtime with few threads under an actix system, TLS provider, telemetry,
//!   signals, and an orderly end with a deadline. A service gets a [`Context`].
//! - [`tasks::Tasks`] runs named background tasks and says what a panic in one of them means.
//! - [`actor`] runs supervised actors: a panic in a handler costs the message, not the actor.
//! - [`health::Health`] holds named checks; [`pages`] serves them with metrics and recent spans.
//! - [`ServingArgs`] are the flags of a service that serves nothing but its pages.
//! - [`tls`] reads certificates, watches their files, and says who a peer is.
//!
//! Invariants:
//! - A process ends by returning from `main`, never by exiting: spans are sent and files are closed first.
//! - An actor's address is valid for as long as anyone holds it, through any number of panics.
//! - Every queue made here is bounded.

pub mod actor;
pub mod args;
mod context;
mod error;
pub mod health;
mod host;
mod memory;
mod newest;
pub mod pages;
mod process;
mod run;
mod serving;
pub mod tasks;
pub mod tls;

pub use args::{CommonArgs, parse};
pub use context::Context;
pub use error::Error;
pub use host::hostname;
pub use run::{Harness, complain, run_main};
pub use serving::ServingArgs;
pub use tokio_util::sync::CancellationToken;
