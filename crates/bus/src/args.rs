//! The flags by which a service reaches the bus.

use std::path::PathBuf;

use crate::transport::NatsOptions;

/// How to reach the NATS servers; the store and the API servers take the same flags.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct BusArgs {
    /// NATS servers, by comma; without them API servers follow the store's own Watch
    #[arg(long, value_name = "URL,…")]
    pub nats_url: Option<String>,
    /// CA of the NATS servers; with it the connection must be TLS
    #[arg(long, value_name = "FILE")]
    pub nats_ca_file: Option<PathBuf>,
    /// Our certificate towards the NATS servers
    #[arg(long, value_name = "FILE", requires = "nats_key_file")]
    pub nats_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "nats_cert_file")]
    pub nats_key_file: Option<PathBuf>,
    /// Credentials of a NATS account
    #[arg(long, value_name = "FILE")]
    pub nats_creds_file: Option<PathBuf>,
}

impl BusArgs {
    /// The options for a client of this name; none where no server is named.
    ///
    /// Whoever can publish on the bus puts objects into API servers' caches, roles among them. So a server that asks nobody
    /// who he is gets a warning in the log.
    #[must_use]
    pub fn options(&self, name: impl Into<String>) -> Option<NatsOptions> {
        let address = self.nats_url.clone()?;
        let identity = self.nats_cert_file.clone().zip(self.nats_key_file.clone());
        if identity.is_none() && self.nats_creds_file.is_none() && !address.contains('@') {
            tracing::warn!(
                "the NATS server is reached without credentials: whoever else reaches it can put objects into the API \
                 servers' caches"
            );
        }
        Some(NatsOptions {
            address,
            name: name.into(),
            ca_file: self.nats_ca_file.clone(),
            identity,
            credentials_file: self.nats_creds_file.clone(),
        })
    }
}
