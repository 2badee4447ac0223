//! Is the runtime well? Asked every few seconds, and often while the network is not up yet.

use crate::cri::Cri;
use crate::host::Network;
use std::time::Duration;
use tokio::sync::watch;

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
pub async fn ask(cri: Cri, told: watch::Sender<Condition>, network: watch::Sender<Network>) {
    loop {
        let condition = match cri.status().await {
            Ok(answer) => read(&answer.status.unwrap_or_default()),
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

fn publish<T: PartialEq>(sender: &watch::Sender<T>, value: T) {
    sender.send_if_modified(|known| {
        let news = *known != value;
        *known = value;
        news
    });
}

fn read(status: &trireme_proto::runtime::v1::RuntimeStatus) -> Condition {
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
