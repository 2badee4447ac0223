//! The priority classes of the system.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use trireme_kinds::Kind;
use trireme_machinery::status::Status;

use super::ensure::ensure_all;
use super::{Duty, Surroundings};
use crate::error::Error;
use crate::pipeline::Objects;

const CLASSES: [(&str, i64, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

/// The duty.
pub struct PriorityClasses {
    objects: Arc<dyn Objects>,
    kind: Arc<Kind>,
}

impl PriorityClasses {
    /// Keeps the classes up.
    pub fn new(around: &Surroundings) -> Result<Self, Error> {
        Ok(Self { objects: around.objects.clone(), kind: around.kind("scheduling.k8s.io", "priorityclasses")? })
    }
}

#[async_trait]
impl Duty for PriorityClasses {
    fn check(&self) -> &'static str {
        "poststarthook/scheduling/bootstrap-system-priority-classes"
    }

    fn rhythm(&self) -> Duration {
        Duration::from_secs(300)
    }

    async fn run(&self) -> Result<(), Status> {
        let wanted = CLASSES.iter().map(|(name, value, description)| {
            let object = json!({
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
                "description": description,
            });
            (self.kind.clone(), object)
        });
        ensure_all(&self.objects, self.check(), wanted.collect(), |_, _| {}).await
    }
}
