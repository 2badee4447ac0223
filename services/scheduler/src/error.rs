//! What keeps the scheduler from starting.

/// What keeps the scheduler from starting.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server cannot be reached with what the flags say.
    #[error(transparent)]
    Client(#[from] trireme_client::Error),
    /// The pages cannot be served.
    #[error(transparent)]
    Service(#[from] trireme_service::Error),
}
