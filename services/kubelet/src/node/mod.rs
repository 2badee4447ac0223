//! The node's own object: registered, renewed by a Lease, kept true.

mod info;
pub mod lease;
mod machine;
mod news;
mod pressure;
mod register;
pub mod runtime;
mod status;

pub use machine::discover;
pub use register::Registration;
