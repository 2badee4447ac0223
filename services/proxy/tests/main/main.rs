//! The proxy: scripts against golden ones, and real traffic through real rules.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod golden;
mod machine;
mod objects;
mod traffic;
