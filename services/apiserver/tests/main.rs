//! The API server's behaviours, against a real store, over both doors.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test's helpers fail the test")]

mod bad_input;
mod causes;
mod deletion;
mod doors;
mod failure;
mod guards;
mod harness;
mod health;
mod lists;
mod objects;
mod protobuf;
mod refusals;
mod repair;
mod startup;
mod traces_of_requests;
mod watches;
