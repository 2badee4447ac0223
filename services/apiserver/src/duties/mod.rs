//! What every replica keeps up, idempotently.

pub mod policy;
