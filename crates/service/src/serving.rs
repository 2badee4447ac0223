//! The pages of a service that serves nothing else, where upstream's component has its secure port.
//!
//! With a certificate they are served over HTTPS at every address: health for all, metrics and spans for clients that an
//! authority vouches for. Without one they are served in the clear, and only to this machine.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use crate::tls::{self, Authorities, ClientAuth, Identity};
use crate::{Context, Error, pages};

/// The server of the pages speaks no other.
const ALPN: &[&str] = &["http/1.1"];

/// Where the pages are and who may see them: upstream's flags.
#[derive(Clone, Debug, Default, Args)]
pub struct ServingArgs {
    /// Address of the pages; by default all with a certificate, and 127.0.0.1 without
    #[arg(long, value_name = "IP")]
    pub bind_address: Option<IpAddr>,
    /// Certificate of the pages; without it they are served in the clear and to this machine only
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub tls_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_private_key_file: Option<PathBuf>,
    /// Metrics and spans are for clients with a certificate of this authority; without it, for nobody over HTTPS
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,
}

impl ServingArgs {
    fn tls(&self) -> Result<Option<pages::Tls>, Error> {
        let (Some(cert), Some(key)) = (&self.tls_cert_file, &self.tls_private_key_file) else { return Ok(None) };
        let clients = match &self.client_ca_file {
            Some(file) => ClientAuth::Optional(Authorities::from_file(file)?),
            None => ClientAuth::None,
        };
        let config = tls::server_config(&Identity::from_files(cert, key)?, &clients, ALPN)?;
        Ok(Some(pages::Tls { config, private: true }))
    }

    fn address(&self, secure: bool) -> Result<IpAddr, Error> {
        match self.bind_address {
            Some(address) if !secure && !address.is_loopback() => Err(Error::Address {
                address: address.to_string(),
                reason: "--bind-address needs --tls-cert-file and --tls-private-key-file: without them the pages are \
                         served at loopback addresses only"
                    .to_owned(),
            }),
            Some(address) => Ok(address),
            None if secure => Ok(Ipv4Addr::UNSPECIFIED.into()),
            None => Ok(Ipv4Addr::LOCALHOST.into()),
        }
    }
}

impl Context {
    /// Serves the pages in the background as the flags say, at this port (0: nowhere), unless `--health-bind-address` says
    /// where. Says where it listens.
    ///
    /// # Errors
    /// When the flags contradict each other, a file can't be used, or the address can't be listened at.
    pub async fn serve_secure_pages(&self, args: &ServingArgs, port: u16) -> Result<Option<SocketAddr>, Error> {
        let tls = args.tls()?;
        let address = SocketAddr::new(args.address(tls.is_some())?, port);
        let address = if port == 0 { String::new() } else { address.to_string() };
        self.serve_pages(&address, tls).await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn without_a_certificate_only_this_machine_sees_the_pages() {
        let at = |address: Option<&str>| ServingArgs {
            bind_address: address.map(|address| address.parse().unwrap()),
            ..ServingArgs::default()
        };
        assert!(at(None).address(false).unwrap().is_loopback());
        assert!(at(Some("::1")).address(false).unwrap().is_loopback());
        assert!(matches!(at(Some("0.0.0.0")).address(false), Err(Error::Address { .. })));
        assert!(at(None).address(true).unwrap().is_unspecified());
        assert_eq!(at(Some("10.0.0.1")).address(true).unwrap().to_string(), "10.0.0.1");
    }
}
