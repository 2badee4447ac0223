//! The whole, as users meet it: real kubectl against an instance of its own, real containers on containerd.
//!
//! Every test brings up what it needs in a temporary state directory. They need root and what `cargo xtask setup`
//! installs; `cargo xtask e2e` runs them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on ends")]

mod apply;
mod bare;
mod bus;
mod containers;
mod faults;
mod history;
mod kubectl;
mod life;
mod pages;
mod storage;
mod store_members;
mod support;
mod trace;
