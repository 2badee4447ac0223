//! The client port: etcd's services and our own.
mod auth;
mod cluster;
mod kv;
mod lease;
mod maintenance;
mod store;
mod watch;

use tonic::service::Routes;
use trireme_proto::etcdserverpb as etcd;
use trireme_proto::store::v1::store_server::StoreServer;

use crate::raft::{Node, View};

/// The largest request that is taken, as etcd's default.
pub(crate) const MAX_REQUEST: usize = 3 << 19;
/// The largest message that etcd's transport takes.
const TRANSPORT_LIMIT: usize = MAX_REQUEST + (512 << 10);
/// What a message may hold here: up to this a request that is too large gets etcd's own answer.
const MAX_MESSAGE: usize = 16 << 20;

/// What the services need to know beside the node.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Bytes of all versions from which on writes are refused.
    pub quota: usize,
    /// How often an idle watch that asked for it is told how far it is.
    pub progress_interval: std::time::Duration,
    /// The shortest TTL of a lease, in seconds.
    pub min_ttl: i64,
}

/// A handle to all services of the client port.
#[derive(Clone)]
struct Api {
    node: Node,
    settings: Settings,
}

impl Api {
    /// A header with this revision.
    fn header(&self, revision: i64) -> Option<etcd::ResponseHeader> {
        Some(etcd::ResponseHeader {
            cluster_id: self.node.cluster_id(),
            member_id: self.node.id(),
            revision,
            raft_term: self.node.standing().term,
        })
    }

    /// A header with the newest revision of this member.
    fn header_now(&self) -> Option<etcd::ResponseHeader> {
        self.header(self.node.view().state.revision)
    }

    /// A view that shows all that was committed when the call came; or, if that is enough, this member's newest.
    async fn view(&self, serializable: bool) -> crate::error::Result<std::sync::Arc<View>> {
        if !serializable {
            self.node.read_index().await?;
        }
        Ok(self.node.view())
    }
}

/// The services of the client port.
pub(crate) fn routes(node: Node, settings: Settings) -> Routes {
    let api = Api { node, settings };
    let mut routes = Routes::default();
    macro_rules! add {
        ($server:path) => {
            routes = routes.add_service(
                <$server>::new(api.clone())
                    .max_decoding_message_size(MAX_MESSAGE)
                    .max_encoding_message_size(usize::MAX),
            );
        };
    }
    add!(etcd::kv_server::KvServer<Api>);
    add!(etcd::watch_server::WatchServer<Api>);
    add!(etcd::lease_server::LeaseServer<Api>);
    add!(etcd::cluster_server::ClusterServer<Api>);
    add!(etcd::maintenance_server::MaintenanceServer<Api>);
    add!(etcd::auth_server::AuthServer<Api>);
    add!(StoreServer<Api>);
    routes.prepare()
}
