//! Pods that the API server has bound to this node.

use crate::manager::{Births, FromApi, Manager};
use trireme_client::{Change, Client, Informer, Tasks};
use trireme_service::actor::Address;

use k8s_openapi::api::core::v1::Pod;

/// Follows the Pods of the node and tells the manager; tells all of them again to a manager that was made anew.
pub async fn follow(client: Client, node: String, tasks: Tasks, manager: Address<Manager>, mut births: Births) {
    let informer = Informer::<Pod>::builder(&client).fields(format!("spec.nodeName={node}")).start(&tasks);
    loop {
        births.mark_unchanged();
        tokio::select! {
            () = tell(&informer, &manager) => return,
            changed = births.changed() => {
                if changed.is_err() { return }
            }
        }
    }
}

async fn tell(informer: &Informer<Pod>, manager: &Address<Manager>) {
    let mut events = informer.subscribe();
    let synced = async {
        informer.synced().await;
        // Some of these may not have been told as additions yet, and the manager must not take theirs for orphans.
        send(manager, FromApi::Synced(informer.store().list())).await;
    };
    let events = async {
        while let Some(event) = events.recv().await {
            let message = match event.change {
                Change::Added(pod) | Change::Updated { new: pod, .. } => FromApi::Pod { pod, cause: event.cause },
                Change::Deleted(pod) => FromApi::Gone { pod, cause: event.cause },
            };
            send(manager, message).await;
        }
    };
    tokio::join!(synced, events);
}

async fn send(manager: &Address<Manager>, message: FromApi) {
    if let Err(error) = manager.send(message).await {
        tracing::error!(%error, "the manager lost a Pod's change");
    }
}
