//! The node's Lease: the sign that it lives.

use crate::api::Nodes;
use crate::error::{Error, Result};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use k8s_openapi::jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use trireme_client::context::untraced;

/// Renews the Lease four times within its duration, for ever. Losing it is no reason to stop: Pods go on running.
pub async fn keep(nodes: Arc<dyn Nodes>, node: String, seconds: i32) {
    let period = Duration::from_secs(seconds.unsigned_abs().into()) / 4;
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut last: Option<Lease> = None;
    loop {
        ticks.tick().await;
        let mut pause = Duration::from_millis(100);
        // Within a period there is time for more than one try.
        let deadline = tokio::time::Instant::now() + period;
        loop {
            let renewed = untraced(renew(&*nodes, &node, seconds, last.take())).await;
            match renewed {
                Ok(lease) => {
                    last = Some(lease);
                    break;
                }
                Err(error) => tracing::info!(%error, "the node's lease was not renewed"),
            }
            if tokio::time::Instant::now() + pause > deadline {
                break;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(7));
        }
    }
}

async fn renew(nodes: &dyn Nodes, node: &str, seconds: i32, last: Option<Lease>) -> Result<Lease> {
    let known = match last {
        Some(last) => Some(last),
        None => match nodes.lease(node).await {
            Ok(lease) => Some(lease),
            Err(Error::NotFound(_)) => None,
            Err(error) => return Err(error),
        },
    };
    let spec = LeaseSpec {
        holder_identity: Some(node.to_owned()),
        lease_duration_seconds: Some(seconds),
        renew_time: Some(MicroTime(Timestamp::now())),
        ..LeaseSpec::default()
    };
    match known {
        Some(mut lease) => {
            lease.spec = Some(spec);
            if lease.metadata.owner_references.as_ref().is_none_or(Vec::is_empty) {
                lease.metadata.owner_references = owner(nodes, node).await;
            }
            nodes.update_lease(&lease).await
        }
        None => {
            let metadata = ObjectMeta {
                name: Some(node.to_owned()),
                namespace: Some("kube-node-lease".into()),
                owner_references: owner(nodes, node).await,
                ..ObjectMeta::default()
            };
            nodes.create_lease(&Lease { metadata, spec: Some(spec) }).await
        }
    }
}

/// With its Node the Lease is to go.
async fn owner(nodes: &dyn Nodes, node: &str) -> Option<Vec<OwnerReference>> {
    let object = nodes.get(node).await.ok()?;
    Some(vec![OwnerReference {
        api_version: "v1".into(),
        kind: "Node".into(),
        name: node.to_owned(),
        uid: object.metadata.uid?,
        ..OwnerReference::default()
    }])
}
