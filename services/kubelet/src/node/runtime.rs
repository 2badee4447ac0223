//! Is the runtime well? Asked every few seconds, and often while the network is not up yet.

use crate::cri::Cri;
use crate::host::{Features, Network};
use std::time::Duration;
use tokio::sync::watch;
use trireme_proto::runtime::v1 as pb;

const WELL: Duration = Duration::from_secs(5);
const NOT_WELL: Duration = Duration::from_millis(200);

/// What the runtime says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// It answers and is ready.
    pub runtime: Result<(), String>,
    /// Pods can get addresses.
    pub network: Network,
}

impl Default for Condition {
    fn default() -> Self {
        let unknown = "container runtime status check may not have completed yet".to_owned();
        Self { runtime: Err(unknown.clone()), network: Err(unknown) }
    }
}

/// The task that asks.
pub async fn ask(
    cri: Cri,
    told: watch::Sender<Condition>,
    network: watch::Sender<Network>,
    can: watch::Sender<Features>,
) {
    loop {
        let condition = match cri.status().await {
            Ok(answer) => {
                publish(&can, features(&answer));
                read(&answer.status.unwrap_or_default())
            }
            Err(error) => {
                let down = format!("container runtime is down: {error}");
                Condition { runtime: Err(down.clone()), network: Err(down) }
            }
        };
        let well = condition.runtime.is_ok() && condition.network.is_ok();
        publish(&network, condition.network.clone());
        publish(&told, condition);
        tokio::time::sleep(if well { WELL } else { NOT_WELL }).await;
    }
}

/// What the runtime says that it can do.
pub fn features(answer: &pb::StatusResponse) -> Features {
    let is_below = |handler: &&pb::RuntimeHandler| handler.features.is_some_and(|can| can.recursive_read_only_mounts);
    Features {
        groups_policy: answer.features.is_some_and(|can| can.supplemental_groups_policy),
        read_only_below: answer.runtime_handlers.iter().filter(is_below).map(|handler| handler.name.clone()).collect(),
    }
}

fn publish<T: PartialEq>(sender: &watch::Sender<T>, value: T) {
    sender.send_if_modified(|known| {
        let news = *known != value;
        *known = value;
        news
    });
}

fn read(status: &pb::RuntimeStatus) -> Condition {
    let find = |name: &str| match status.conditions.iter().find(|condition| condition.r#type == name) {
        Some(condition) if condition.status => Ok(()),
        Some(condition) => Err(format!("{name}=false reason:{} message:{}", condition.reason, condition.message)),
        None => Err(format!("{name}=false reason: message:")),
    };
    Condition {
        runtime: find("RuntimeReady").map_err(|why| format!("container runtime not ready: {why}")),
        network: find("NetworkReady").map_err(|why| format!("container runtime network not ready: {why}")),
    }
}
