//! The whole, as users meet it: real kubectl against an instance of its own, real containers on containerd.
//!
//! Every test brings up what it needs in a temporary state directory. They need root and what `cargo xtask setup`
//! installs; `cargo xtask e2e` runs them.

mod apply;
mod support;
