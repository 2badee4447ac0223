//! The namespaces of the system.

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

const NAMESPACES: [&str; 4] = ["kube-system", "kube-public", "kube-node-lease", "default"];

/// The duty.
pub struct Namespaces {
    objects: Arc<dyn Objects>,
    kind: Arc<Kind>,
}

impl Namespaces {
    /// Keeps the namespaces up.
    pub fn new(around: &Surroundings) -> Result<Self, Error> {
        Ok(Self { objects: around.objects.clone(), kind: around.kind("", "namespaces")? })
    }
}

#[async_trait]
impl Duty for Namespaces {
    fn check(&self) -> &'static str {
        "poststarthook/start-system-namespaces-controller"
    }

    fn rhythm(&self) -> Duration {
        Duration::from_secs(60)
    }

    async fn run(&self) -> Result<(), Status> {
        let wanted = NAMESPACES.iter().map(|name| {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            (self.kind.clone(), object)
        });
        ensure_all(&self.objects, self.check(), wanted.collect(), |_, _| {}).await
    }
}
