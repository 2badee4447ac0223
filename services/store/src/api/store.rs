//! Our own service.
use tonic::{Request, Response, Status};
use trireme_proto::store::v1::store_server::Store;
use trireme_proto::store::v1::{ReadIndexRequest, ReadIndexResponse};

use super::Api;

#[tonic::async_trait]
impl Store for Api {
    async fn read_index(&self, _request: Request<ReadIndexRequest>) -> Result<Response<ReadIndexResponse>, Status> {
        let (raft_index, _) = self.node.read_index().await?;
        let view = self.node.view();
        Ok(Response::new(ReadIndexResponse {
            revision: view.state.revision,
            raft_index,
            term: self.node.standing().term,
            cluster_id: self.node.cluster_id(),
            incarnation: view.state.incarnation.to_string(),
        }))
    }
}
