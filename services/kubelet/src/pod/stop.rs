//! The end of a Pod on this node.

use super::report::{Report, Target};
use super::sync::{Course, Desired, Life, Next};
use super::view;
use super::{container, gc, kill, leftovers};
use crate::cri::state::PodState;
use crate::error::{Error, Result};
use crate::probe::{Results, Watchers};
use tracing::Instrument as _;

impl Life {
    /// A Pod that ends: by its deletion, or because all of it is done.
    pub(super) async fn stop(&mut self, desired: &Desired, results: &Results) -> Result<Next> {
        let pod = &desired.pod;
        let host = self.host.clone();
        if self.course != Course::Stopped {
            self.course = Course::Stopping;
            let state = self.observe(pod).await?;
            if state.alive().next().is_some() || state.sandboxes.iter().any(|sandbox| sandbox.ready) {
                let span = self.trace.span(pod);
                self.tell(desired, self.status(pod, &state, results, true), &state);
                self.kill_all(desired, &state).instrument(span).await?;
            }
            let state = self.observe(pod).await?;
            if state.alive().next().is_some() {
                return Err(Error::Pod("containers still run after they were stopped".into()));
            }
            self.watchers = Watchers::default();
            if desired.rejected.is_none() {
                self.tell(desired, self.status(pod, &state, &Results::default(), true), &state);
            }
            let (torn, gone) = (host.clone(), pod.clone());
            blocking(move || {
                torn.volumes.tear_down(view::uid(&gone))?;
                torn.cgroups.remove(&gone)
            })
            .await?;
            self.course = Course::Stopped;
        }
        if !desired.must_stop() {
            // It ran to its end: it is kept for its logs and its exit codes until somebody deletes it.
            return Ok(Next::default());
        }
        let state = self.observe(pod).await?;
        gc::everything(&host.cri, &state).await?;
        let logs = container::log_directory(&host.config.pod_log_dir, pod);
        let links = host.config.container_log_links.clone();
        blocking(move || {
            if let Some(links) = links {
                leftovers::remove(&leftovers::links_into(&links, &logs));
            }
            match std::fs::remove_dir_all(&logs) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    tracing::info!(%error, path = %logs.display(), "logs were not removed");
                }
                _ => {}
            }
            Ok(())
        })
        .await?;
        if !desired.gone
            && let Some(target) = Target::of(desired)
        {
            let (status, span) = (self.previous.clone(), self.trace.span(pod));
            let (written, number) = (self.written.clone(), self.written.next());
            host.reporter.send(Report { target, status, span, delete: true, written, number });
        }
        Ok(Next { after: None, finished: true })
    }

    /// Stops all containers; starts anew with less time when the grace period is made shorter meanwhile.
    async fn kill_all(&mut self, desired: &Desired, state: &PodState) -> Result<()> {
        let host = self.host.clone();
        let mut watching = self.desired.clone();
        let mut desired = desired.clone();
        // A Pod that is done, but for a sidecar, has the grace of its spec.
        let mut grace = desired.grace();
        loop {
            let shorter = watching.wait_for(|newer| newer.must_stop() && newer.grace() < grace);
            tokio::select! {
                outcome = kill::pod(&host, &desired.pod, state, Some(grace)) => return outcome,
                newer = shorter => {
                    let Ok(newer) = newer else { return Err(Error::Cancelled) };
                    grace = newer.grace();
                    desired = newer.clone();
                }
            }
        }
    }
}

/// Does what may take long on the disk (whole trees go) where no other Pod waits for it.
async fn blocking(work: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|error| Err(Error::Pod(format!("what is left of the Pod was not removed: {error}"))))
}
