//! What a service is given by its harness.

use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::health::Health;
use crate::pages;
use crate::tasks::{OnPanic, Tasks};
use crate::{CommonArgs, Error};

/// The surroundings of a running service. Clones share them.
#[derive(Clone, Debug)]
pub struct Context {
    /// The service's name: apiserver, store, …
    pub name: &'static str,
    /// The shared flags.
    pub args: CommonArgs,
    /// Cancelled when the process is to end; the service then returns from its main future.
    pub shutdown: CancellationToken,
    /// The service's health checks.
    pub health: Health,
    /// The service's background tasks.
    pub tasks: Tasks,
}

impl Context {
    /// A context outside of [`crate::run_main`], for tests that run a service in their own process.
    #[must_use]
    pub fn new(name: &'static str, args: CommonArgs) -> Self {
        let shutdown = CancellationToken::new();
        Self { name, args, health: Health::new(shutdown.clone()), tasks: Tasks::new(shutdown.clone()), shutdown }
    }

    /// Serves the pages of [`pages`] in the background, at `--health-bind-address` or else at `address`, over TLS when it is
    /// given. An empty address or `0` serves none. Says where it listens.
    ///
    /// # Errors
    /// When the address cannot be listened at.
    pub async fn serve_pages(&self, address: &str, tls: Option<pages::Tls>) -> Result<Option<SocketAddr>, Error> {
        let address = self.args.health_bind_address.as_deref().unwrap_or(address);
        if address.is_empty() || address == "0" {
            return Ok(None);
        }
        let failed = |source| Error::Listen { address: address.to_owned(), source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let local = listener.local_addr().map_err(failed)?;
        let server = pages::serve(listener, tls, self.health.clone(), self.shutdown.clone());
        self.tasks.spawn("pages", OnPanic::Log, server);
        Ok(Some(local))
    }
}
