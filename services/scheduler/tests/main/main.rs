//! The scheduler's behaviours.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests: a failure is to be loud")]

mod situations;
