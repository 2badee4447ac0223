//! What can go wrong with the bus.

/// An error of the bus. An unreachable server is none: the bus is then silent, and comes back by itself.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server's address or credentials can't be used.
    #[error("NATS {address:?}: {reason}")]
    Nats {
        /// As it was given.
        address: String,
        /// What is wrong.
        reason: String,
    },
    /// The client's task is gone: the process is ending.
    #[error("the bus is closed")]
    Closed,
}
