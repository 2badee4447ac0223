//! The behaviours of the crate, in one binary.

#![allow(clippy::result_large_err, reason = "Status is the error of every API call")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, reason = "a test that panics has failed")]

mod golden;
mod table;
mod validation;
