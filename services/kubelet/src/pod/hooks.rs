//! Lifecycle hooks: after a container started, and before it is stopped.
//!
//! An exec hook has no time limit of its own, as upstream's has none (`lifecycle.handlerRunner` passes 0). A preStop
//! hook has the Pod's grace period, from its caller. A postStart hook that hangs holds its Pod's worker: the container
//! is up but the Pod makes no progress, until the hook ends, its container does, or the Pod is deleted, which drops the
//! sync that waits here. Upstream's pod worker is held in the same way, and its sync's context is cancelled then too.

use crate::cri::Cri;
use crate::probe::{Check, http};
use k8s_openapi::api::core::v1::{Container, LifecycleHandler};
use std::time::Duration;

/// A single GET; upstream has no limit here either, but nobody waits longer than that for the answer to one.
const GET: Duration = Duration::from_secs(30);

/// Runs a hook to its end.
pub(super) async fn run(
    cri: &Cri,
    container: &Container,
    container_id: &str,
    ip: &str,
    handler: &LifecycleHandler,
) -> Result<(), String> {
    if let Some(exec) = &handler.exec {
        let command = exec.command.clone().unwrap_or_default();
        return match cri.exec_sync(container_id, &command, Duration::ZERO).await {
            Ok(answer) if answer.exit_code == 0 => Ok(()),
            Ok(answer) => Err(format!(
                "Exec lifecycle hook ({command:?}) for Container \"{}\" failed - error: command '{}' exited with {}: {}{}, message: \"{}\"",
                container.name,
                command.join(" "),
                answer.exit_code,
                String::from_utf8_lossy(&answer.stdout),
                String::from_utf8_lossy(&answer.stderr),
                String::from_utf8_lossy(&answer.stdout),
            )),
            Err(error) => Err(error.to_string()),
        };
    }
    if let Some(get) = &handler.http_get {
        let target = http::Target::of(get, container, ip).map_err(|error| error.to_string())?;
        return http::get(&target, GET).await;
    }
    if let Some(sleep) = &handler.sleep {
        tokio::time::sleep(Duration::from_secs(sleep.seconds.max(0).unsigned_abs())).await;
        return Ok(());
    }
    if let Some(tcp) = &handler.tcp_socket {
        let host = tcp.host.clone().filter(|host| !host.is_empty()).unwrap_or_else(|| ip.to_owned());
        let port = crate::probe::port(&tcp.port, container).map_err(|error| error.to_string())?;
        let check = Check::Tcp(host, port);
        return check.run(cri, container_id, GET).await.map_err(|failure| format!("{failure:?}"));
    }
    Err(format!("invalid handler: {handler:?}"))
}
