//! Probes: is a container started, alive, ready?
//!
//! Each probe of a running container is one task (`Watcher`), which owns its counters and reports a result only when
//! it changes. The Pod's worker starts and ends the tasks after every sync and owns the [`Results`].

mod check;
pub mod http;
mod watcher;

pub(crate) use check::port;
pub use check::{Check, Failure};
pub use watcher::{Report, Watchers};

use std::collections::HashMap;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Has it started? Until then the others wait.
    Startup,
    /// May it get traffic?
    Readiness,
    /// Must it be restarted?
    Liveness,
}

impl Kind {
    /// As events name it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Readiness => "Readiness",
            Self::Liveness => "Liveness",
        }
    }
}

/// A result that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The runtime's id of the container.
    pub container_id: String,
    /// Of which probe.
    pub kind: Kind,
    /// Success, by the probe's thresholds.
    pub success: bool,
}

/// What the probes of a Pod have found so far; no entry: nothing yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Results {
    known: HashMap<(String, Kind), bool>,
}

impl Results {
    /// Keeps a result; says whether it is news.
    pub fn set(&mut self, outcome: Outcome) -> bool {
        self.known.insert((outcome.container_id, outcome.kind), outcome.success) != Some(outcome.success)
    }

    /// Forgets containers that are gone.
    pub fn retain(&mut self, alive: impl Fn(&str) -> bool) {
        self.known.retain(|(id, _), _| alive(id));
    }

    fn get(&self, id: &str, kind: Kind) -> Option<bool> {
        self.known.get(&(id.to_owned(), kind)).copied()
    }

    /// Of the startup probe.
    pub fn startup(&self, id: &str) -> Option<bool> {
        self.get(id, Kind::Startup)
    }

    /// Of the readiness probe.
    pub fn readiness(&self, id: &str) -> Option<bool> {
        self.get(id, Kind::Readiness)
    }

    /// Of the liveness probe.
    pub fn liveness(&self, id: &str) -> Option<bool> {
        self.get(id, Kind::Liveness)
    }
}
