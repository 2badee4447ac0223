//! Pods: one supervised actor each.
//!
//! [`plan`], [`status`], [`conditions`], [`env`], [`resources`] and the builders of configs are pure. [`worker`] is the
//! actor; [`sync`] is its course: look, plan, act, tell; [`report`] writes statuses to the API server without holding anyone up.

mod act;
pub mod backoff;
pub mod conditions;
pub mod container;
pub mod dns;
pub mod env;
pub mod expand;
pub mod fields;
mod gc;
mod hooks;
pub mod images;
pub mod keyring;
mod kill;
pub(crate) mod leftovers;
pub mod plan;
pub mod pulled;
pub mod qos;
pub mod report;
pub mod resources;
pub mod restart;
pub mod sandbox;
pub mod security;
mod start;
pub mod status;
mod stop;
pub mod sync;
mod termination;
mod trace;
pub mod view;
pub mod worker;
mod written;

/// Whoever is stopped gets at least this long before SIGKILL.
pub const MINIMUM_GRACE_SECONDS: i64 = 2;
