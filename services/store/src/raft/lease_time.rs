//! Asking the leader's lessor, wherever the leader is.
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use trireme_proto::raft::v1 as pb;

use super::{Node, REQUEST_TIME};
use crate::error::{Error, Result};
use crate::lease;

impl Node {
    /// The time left on a lease, by the leader's clock, renewed before if wanted. Nothing if it is not there.
    pub(crate) async fn lease_time(&self, lease: i64, renew: bool) -> Result<Option<lease::Time>> {
        let deadline = Instant::now() + REQUEST_TIME;
        loop {
            let leader = self.leader(deadline).await?;
            let time = if leader == self.id() {
                self.lease_time_here(lease, renew).await
            } else {
                self.lease_time_at(leader, lease, renew, deadline).await
            };
            match time {
                Ok(time) => return Ok(time),
                Err(Error::Stopped) => return Err(Error::Stopped),
                Err(_) if Instant::now() < deadline => tokio::time::sleep(Duration::from_millis(25)).await,
                Err(_) => return Err(Error::TimedOut),
            }
        }
    }

    pub(super) async fn lease_time_here(&self, lease: i64, renew: bool) -> Result<Option<lease::Time>> {
        // A leader that was deposed without knowing must not let leases live on.
        self.read_index_here().await?;
        let (reply, time) = oneshot::channel();
        let ask = lease::Ask::Time { lease, renew, reply };
        self.0.leases.send(ask).await.map_err(|_| Error::Stopped)?;
        time.await.map_err(|_| Error::Stopped)?
    }

    async fn lease_time_at(
        &self,
        leader: u64,
        lease: i64,
        renew: bool,
        deadline: Instant,
    ) -> Result<Option<lease::Time>> {
        let mut client = self.client(leader).ok_or(Error::NoLeader)?;
        let ask = client.renew(pb::RenewRequest { cluster_id: self.cluster_id(), lease, look: !renew });
        let answer = self.answered(leader, deadline.min(Instant::now() + Duration::from_secs(2)), ask).await?;
        let answer = answer.map_err(|_| Error::NotLeader)?.into_inner();
        let time = lease::Time { granted: answer.granted_ttl, remaining: answer.remaining_ttl };
        Ok(answer.found.then_some(time))
    }

    /// All leases, those that end first at the front where this member's clock counts.
    pub(crate) async fn leases(&self) -> Result<Vec<i64>> {
        let (reply, leases) = oneshot::channel();
        self.0.leases.send(lease::Ask::All { reply }).await.map_err(|_| Error::Stopped)?;
        leases.await.map_err(|_| Error::Stopped)
    }
}
