//! Cluster. Members are fixed when the cluster is founded; changing them is refused.
use futures::future::join_all;
use tonic::{Request, Response, Status};
use trireme_proto::etcdserverpb as pb;
use trireme_proto::etcdserverpb::cluster_server::Cluster;

use super::Api;
use crate::error::Error;

const FIXED: Error = Error::Unsupported("etcdserver: this store's members are fixed");

impl Api {
    async fn members(&self) -> Vec<pb::Member> {
        let described = self.node.members().into_iter().map(|(id, member)| async move {
            let member = if id == self.node.id() {
                self.node.me().clone()
            } else {
                // Where clients reach a member only it knows; one that does not answer is shown without.
                self.node.describe(id, &member).await.unwrap_or(member)
            };
            pb::Member {
                id,
                name: member.name,
                peer_ur_ls: member.peer_urls,
                client_ur_ls: member.client_urls,
                is_learner: false,
            }
        });
        join_all(described).await
    }

    fn known(&self, id: u64) -> Result<(), Error> {
        if self.node.members().contains_key(&id) { Ok(()) } else { Err(Error::MemberNotFound) }
    }
}

#[tonic::async_trait]
impl Cluster for Api {
    async fn member_add(
        &self,
        request: Request<pb::MemberAddRequest>,
    ) -> Result<Response<pb::MemberAddResponse>, Status> {
        if request.into_inner().peer_ur_ls.is_empty() {
            return Err(Error::MemberBadUrls.into());
        }
        Err(FIXED.into())
    }

    async fn member_remove(
        &self,
        request: Request<pb::MemberRemoveRequest>,
    ) -> Result<Response<pb::MemberRemoveResponse>, Status> {
        self.known(request.into_inner().id)?;
        Err(FIXED.into())
    }

    async fn member_update(
        &self,
        request: Request<pb::MemberUpdateRequest>,
    ) -> Result<Response<pb::MemberUpdateResponse>, Status> {
        self.known(request.into_inner().id)?;
        Err(FIXED.into())
    }

    async fn member_list(
        &self,
        request: Request<pb::MemberListRequest>,
    ) -> Result<Response<pb::MemberListResponse>, Status> {
        if request.into_inner().linearizable {
            self.node.read_index().await?;
        }
        // Like etcd's, this header has no revision.
        Ok(Response::new(pb::MemberListResponse { header: self.header(0), members: self.members().await }))
    }

    async fn member_promote(
        &self,
        request: Request<pb::MemberPromoteRequest>,
    ) -> Result<Response<pb::MemberPromoteResponse>, Status> {
        self.known(request.into_inner().id)?;
        Err(FIXED.into())
    }
}
