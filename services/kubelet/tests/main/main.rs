//! The kubelet against a real containerd, without an API server.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "the log of a kubelet that failed a test")]

mod cri;
mod node;
mod refused;
mod standalone;
