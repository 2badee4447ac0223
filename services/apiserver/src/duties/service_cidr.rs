//! The ranges of Services, as the ServiceCIDR `kubernetes`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use trireme_kinds::Kind;
use trireme_machinery::status::Status;
use trireme_machinery::time;

use super::ensure::ensure;
use super::services::Allocator;
use super::{Duty, Surroundings};
use crate::error::Error;
use crate::pipeline::{Context, Objects};

const NAME: &str = "kubernetes";

/// The duty.
pub struct ServiceCidr {
    objects: Arc<dyn Objects>,
    kind: Arc<Kind>,
    ranges: Vec<String>,
}

impl ServiceCidr {
    /// Publishes the ranges of the flags.
    pub fn new(around: &Surroundings, allocator: &Allocator) -> Result<Self, Error> {
        Ok(Self {
            objects: around.objects.clone(),
            kind: around.kind("networking.k8s.io", "servicecidrs")?,
            ranges: allocator.ranges().iter().map(ToString::to_string).collect(),
        })
    }
}

#[async_trait]
impl Duty for ServiceCidr {
    fn check(&self) -> &'static str {
        "poststarthook/start-kubernetes-service-cidr-controller"
    }

    fn rhythm(&self) -> Duration {
        Duration::from_secs(60)
    }

    async fn run(&self) -> Result<(), Status> {
        let object = json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "ServiceCIDR",
            "metadata": {"name": NAME},
            "spec": {"cidrs": self.ranges},
        });
        ensure(self.objects.as_ref(), self.check(), &self.kind, &object, |_| {}).await?;
        let context = Context::internal(self.check());
        let mut change = |value: &mut Value| {
            let ready = value["status"]["conditions"].as_array().into_iter().flatten();
            if ready.into_iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True") {
                return Ok(());
            }
            value["status"]["conditions"] = json!([{
                "type": "Ready",
                "status": "True",
                "lastTransitionTime": time::format(context.now),
                "message": "Kubernetes default Service CIDR is ready",
                "reason": "",
            }]);
            Ok(())
        };
        self.objects.update(&context, &self.kind, "", NAME, "status", &mut change).await.map(|_| ())
    }
}
