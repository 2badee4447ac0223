//! The store as its clients see it: real processes, mutual TLS, `kill -9`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "shown for tests that fail")]

mod cluster;
mod history;
mod single;
mod support;
mod trace;
mod watch;
