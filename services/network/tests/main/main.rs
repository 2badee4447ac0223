//! The agent on nodes made of network namespaces, with the real CNI plugins. Needs root.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod agent;
mod machine;
mod routes;
