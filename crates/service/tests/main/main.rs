//! The harness from the outside.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod actors;
mod certificates;
mod page;
mod process;
mod serving;
mod task;
