//! `/healthz` for everybody, at `--healthz-bind-address` and `--healthz-port`: what a supervisor on the node asks.
//!
//! It says no more than upstream's does, that the process answers. Several kubelets may share a machine, and only one of
//! them gets the usual port; as with upstream that stops nobody, and is tried again.

use crate::server::text;
use actix_web::{App, HttpServer, web};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Pause after the address could not be had.
const RETRY: Duration = Duration::from_secs(5);

/// Serves until it is dropped; without a port it serves nothing. To be called inside an actix system.
pub async fn serve(address: IpAddr, port: u16) {
    if port == 0 {
        return;
    }
    let address = SocketAddr::from((address, port));
    let mut told = false;
    loop {
        let server = HttpServer::new(|| {
            let ok = || async { text(200, "ok") };
            App::new().route("/healthz", web::get().to(ok)).route("/healthz/ping", web::get().to(ok))
        });
        match server.workers(1).disable_signals().shutdown_timeout(1).bind(address) {
            Ok(server) => {
                tracing::debug!(%address, "healthz");
                if let Err(error) = server.run().await {
                    tracing::warn!(%address, %error, "the healthz server ended");
                }
            }
            Err(error) if !std::mem::replace(&mut told, true) => {
                tracing::warn!(%address, %error, "no healthz there; see --healthz-port");
            }
            Err(_) => {}
        }
        tokio::time::sleep(RETRY).await;
    }
}
