//! How a cluster begins, and who leads it then.
use std::time::Duration;

use trireme_proto::raft::v1 as pb;
use trireme_proto::raft::v1::command::Op;

use super::Node;
use crate::error::{Error, Result};

impl Node {
    /// Begins a new cluster, if this member was never part of one.
    pub(crate) async fn initialize(&self) -> Result<()> {
        let raft = self.raft();
        if raft.is_initialized().await.map_err(Error::raft("whether there is a cluster"))? {
            return Ok(());
        }
        match raft.initialize(self.0.settings.members.clone()).await {
            Ok(()) => Ok(()),
            // The leader was quicker.
            Err(_) if raft.is_initialized().await.unwrap_or_default() => Ok(()),
            Err(error) => Err(Error::raft("the cluster cannot begin")(error)),
        }
    }

    /// Says who leads when that changes.
    pub(super) async fn tell_leaders(self) {
        let mut metrics = self.raft().metrics();
        let mut known = (None, 0);
        loop {
            let Ok(now) = metrics.wait_for(|m| (m.current_leader, m.current_term) != known).await.map(|m| {
                let name = |id: u64| m.membership_config.membership().get_node(&id).map(|node| node.name.clone());
                (m.current_leader, m.current_term, m.current_leader.and_then(name))
            }) else {
                return;
            };
            if let Some(leader) = &now.2 {
                metrics::counter!("etcd_server_leader_changes_seen_total").increment(1);
                tracing::info!(leader, term = now.1, "there is a leader");
            } else if known.0.is_some() {
                tracing::warn!(term = now.1, "there is no leader");
            }
            known = (now.0, now.1);
        }
    }

    /// Names the history when it begins.
    pub(super) async fn found(self) {
        let mut views = self.0.outlet.views.clone();
        loop {
            if !views.borrow_and_update().state.incarnation.is_empty() {
                return;
            }
            if self.standing().leads {
                let incarnation = uuid::Uuid::new_v4().to_string();
                let _ = self.propose(Op::Founding(pb::Founding { incarnation })).await;
            }
            let _ = tokio::time::timeout(Duration::from_millis(200), views.changed()).await;
        }
    }
}
