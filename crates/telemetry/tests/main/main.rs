//! Telemetry as a collector sees it. One test: `init` is for a whole process.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod collector;
mod hops;
