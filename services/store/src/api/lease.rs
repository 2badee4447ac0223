//! Lease.
use std::pin::Pin;

use futures::Stream;
use rand::Rng;
use tonic::{Request, Response, Status, Streaming};
use trireme_proto::etcdserverpb::lease_server::Lease;
use trireme_proto::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseLeasesRequest,
    LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse, LeaseStatus, LeaseTimeToLiveRequest,
    LeaseTimeToLiveResponse,
};
use trireme_proto::raft::v1::LeaseRevoke;
use trireme_proto::raft::v1::command::Op;

use super::Api;
use crate::error::{Error, Result};

/// The longest TTL, in seconds.
const MAX_TTL: i64 = 9_000_000_000;

#[tonic::async_trait]
impl Lease for Api {
    async fn lease_grant(&self, request: Request<LeaseGrantRequest>) -> Result<Response<LeaseGrantResponse>, Status> {
        let mut request = request.into_inner();
        if request.ttl > MAX_TTL {
            return Err(Error::LeaseTtlTooLarge.into());
        }
        request.ttl = request.ttl.max(self.settings.min_ttl);
        while request.id == 0 {
            request.id = rand::rng().random_range(1..i64::MAX);
        }
        let (id, ttl) = (request.id, request.ttl);
        let reply = self.node.propose(Op::LeaseGrant(request)).await?;
        Ok(Response::new(LeaseGrantResponse { header: self.header(reply.revision), id, ttl, error: String::new() }))
    }

    async fn lease_revoke(
        &self,
        request: Request<LeaseRevokeRequest>,
    ) -> Result<Response<LeaseRevokeResponse>, Status> {
        let revoke = LeaseRevoke { id: request.into_inner().id, ..Default::default() };
        let reply = self.node.propose(Op::LeaseRevoke(revoke)).await?;
        Ok(Response::new(LeaseRevokeResponse { header: self.header(reply.revision) }))
    }

    type LeaseKeepAliveStream = Pin<Box<dyn Stream<Item = Result<LeaseKeepAliveResponse, Status>> + Send>>;

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        let (api, mut requests) = (self.clone(), request.into_inner());
        let answers = async_stream::try_stream! {
            while let Some(request) = requests.message().await? {
                let time = api.node.lease_time(request.id, true).await?;
                let ttl = time.map_or(0, |t| t.remaining);
                yield LeaseKeepAliveResponse { header: api.header_now(), id: request.id, ttl };
            }
        };
        Ok(Response::new(Box::pin(answers)))
    }

    async fn lease_time_to_live(
        &self,
        request: Request<LeaseTimeToLiveRequest>,
    ) -> Result<Response<LeaseTimeToLiveResponse>, Status> {
        let request = request.into_inner();
        let time = self.node.lease_time(request.id, false).await?;
        let view = self.view(false).await?;
        let header = self.header(view.state.revision);
        let lease = view.state.leases.get(&request.id);
        let (Some(time), Some(lease)) = (time, lease) else {
            let gone = LeaseTimeToLiveResponse { header, id: request.id, ttl: -1, ..Default::default() };
            return Ok(Response::new(gone));
        };
        let keys = if request.keys { lease.keys.iter().cloned().collect() } else { Vec::new() };
        let answer =
            LeaseTimeToLiveResponse { header, id: request.id, ttl: time.remaining, granted_ttl: time.granted, keys };
        Ok(Response::new(answer))
    }

    async fn lease_leases(
        &self,
        _request: Request<LeaseLeasesRequest>,
    ) -> Result<Response<LeaseLeasesResponse>, Status> {
        let leases = self.node.leases().await?.into_iter().map(|id| LeaseStatus { id }).collect();
        Ok(Response::new(LeaseLeasesResponse { header: self.header_now(), leases }))
    }
}
