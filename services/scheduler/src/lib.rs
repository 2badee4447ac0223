//! The scheduler: finds a node for every pod that has none.
//!
//! The core is pure: a [`snapshot`] of the cluster and a pod go in, a node or a [`diagnosis`] comes out. [`plugins`]
//! decide (filters which nodes will do, scores which is best), [`algorithm`] asks them, [`preemption`] says who would
//! have to go. What waits is in the [`queue`], what is known and what was just placed in the [`cache`]; both are
//! plain data too.
//!
//! Actors: one scheduling actor (`driver`) owns queue and cache. It hears informers and its own tasks, tries one pod at a
//! time, and never waits for the network: bindings and messages to people are written by tasks that report back.
//!
//! Invariants:
//! - Of several schedulers one schedules: the holder of the claim, once its informers have seen the claim. All its writes
//!   are fenced. Losing the claim pauses.
//! - A pod takes its room in the cache before its binding is written, and gives it back if that fails, so two pods never
//!   get the same room.
//! - A pod that found no node is tried again when something happened that may help, and after five minutes in any case.
//!
//! Not here yet: volumes (a pod with claims is placed as if it had none), extenders, profiles, resizing in place.

pub mod algorithm;
pub mod cache;
mod config;
pub mod diagnosis;
mod driver;
mod error;
pub mod framework;
pub mod hints;
pub mod model;
pub mod plugins;
pub mod preemption;
pub mod queue;
pub mod snapshot;
#[cfg(test)]
mod testing;

pub use config::Config;
pub use error::Error;

use trireme_client::{Claim, Client, Clock, Tasks, claims};
use trireme_service::Context;
use trireme_service::health::Scope;

/// Runs the scheduler until it is asked to end.
pub async fn run(context: Context, config: Config) -> Result<(), Error> {
    let client = Client::new(trireme_client::Config::from_args(&config.client, "kube-scheduler")?)?;
    let tasks = Tasks::from(context.tasks.clone());
    let reachable = context.health.flag("apiserver", Scope::Ready);
    reachable.fail("the API server was not reached yet");
    context.serve_secure_pages(&config.serving, config.secure_port).await?;

    let host_name = trireme_service::hostname()?;
    let settings = claims::Settings::single("trireme-scheduler-0", host_name.clone()).duration(config.claim_duration);
    let claim = Claim::start(&client, settings, &tasks);
    driver::Scheduler::start(driver::Parts {
        client: client.clone(),
        claim,
        clock: Clock::system(),
        tasks: tasks.clone(),
        scheduler_name: config.scheduler_name,
        host_name,
        trace_window: config.trace_window,
    });
    let reached = context.shutdown.run_until_cancelled(client.wait_until_reachable()).await;
    if reached.is_some() {
        reachable.pass();
    }
    context.shutdown.cancelled().await;
    Ok(())
}
