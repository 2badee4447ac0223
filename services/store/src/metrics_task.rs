//! Numbers that are looked up rather than counted, under etcd's names.
use std::time::Duration;

use crate::raft::Node;

/// Runs until the node is gone.
pub(crate) async fn run(node: Node, quota: usize) {
    let mut ticks = tokio::time::interval(Duration::from_secs(2));
    loop {
        ticks.tick().await;
        let (view, standing) = (node.view(), node.standing());
        let state = &view.state;
        let flag = |set: bool| f64::from(u8::from(set));
        metrics::gauge!("etcd_server_has_leader").set(flag(standing.leader.is_some()));
        metrics::gauge!("etcd_server_is_leader").set(flag(standing.leads));
        metrics::gauge!("etcd_server_proposals_applied_total").set(view.applied as f64);
        metrics::gauge!("etcd_server_proposals_committed_total").set(node.committed() as f64);
        metrics::gauge!("etcd_server_quota_backend_bytes").set(quota as f64);
        metrics::gauge!("etcd_mvcc_db_total_size_in_bytes").set((state.size() + node.log_bytes()) as f64);
        metrics::gauge!("etcd_mvcc_db_total_size_in_use_in_bytes").set(state.live_size() as f64);
        metrics::gauge!("etcd_debugging_mvcc_keys_total").set(state.keys() as f64);
        metrics::gauge!("trireme_store_versions").set(state.versions() as f64);
        metrics::gauge!("etcd_debugging_mvcc_current_revision").set(state.revision as f64);
        metrics::gauge!("etcd_debugging_mvcc_compact_revision").set(state.compacted.max(0) as f64);
        metrics::gauge!("etcd_debugging_lease_total").set(state.leases.len() as f64);
    }
}
