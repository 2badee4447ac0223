//! The consensus library's types, and how they go over the wire and into files.
use std::sync::Arc;

use bytes::Bytes;
use openraft::{CommittedLeaderId, EntryPayload, LeaderId, Membership, StoredMembership};
use serde::{Deserialize, Serialize};
use trireme_proto::raft::v1 as pb;

use crate::error::{Error, Result};

openraft::declare_raft_types!(
    /// What the store instantiates the library with.
    pub(crate) TypeConfig:
        D = Batch,
        R = Outcomes,
        NodeId = u64,
        Node = Member,
        Entry = openraft::Entry<TypeConfig>,
        SnapshotData = tokio::fs::File,
);

pub(crate) type LogId = openraft::LogId<u64>;
pub(crate) type Vote = openraft::Vote<u64>;
pub(crate) type Entry = openraft::Entry<TypeConfig>;
pub(crate) type SnapshotMeta = openraft::SnapshotMeta<u64, Member>;
pub(crate) type StorageError = openraft::StorageError<u64>;
pub(crate) type Raft = openraft::Raft<TypeConfig>;

/// A member of the cluster, as all of them know it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    /// Its `--name`.
    pub name: String,
    /// Where other members reach it.
    pub peer_urls: Vec<String>,
    /// Where clients reach it.
    pub client_urls: Vec<String>,
}

/// A command on its way into the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Proposal {
    /// The trace context of the proposing span; empty if the write is not traced.
    pub(crate) traceparent: Arc<str>,
    /// An encoded `Command`.
    pub(crate) command: Bytes,
}

/// Commands that are written to the log together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Batch(pub(crate) Arc<[Proposal]>);

/// What applying a batch gave, one outcome a command. It never leaves the process.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcomes {
    #[serde(skip)]
    pub(crate) each: Vec<Result<pb::Reply>>,
}

// === conversions ===

pub(crate) fn log_id_to_proto(id: &LogId) -> pb::LogId {
    let leader = pb::Leader { term: id.leader_id.term, node_id: id.leader_id.node_id };
    pb::LogId { leader: Some(leader), index: id.index }
}

pub(crate) fn log_id_from_proto(id: pb::LogId) -> LogId {
    let leader = id.leader.unwrap_or_default();
    LogId::new(CommittedLeaderId::new(leader.term, leader.node_id), id.index)
}

pub(crate) fn vote_to_proto(vote: &Vote) -> pb::Vote {
    let leader = pb::Leader { term: vote.leader_id.term, node_id: vote.leader_id.node_id };
    pb::Vote { leader: Some(leader), committed: vote.committed }
}

pub(crate) fn vote_from_proto(vote: pb::Vote) -> Vote {
    let leader = vote.leader.unwrap_or_default();
    Vote { leader_id: LeaderId::new(leader.term, leader.node_id), committed: vote.committed }
}

fn membership_to_proto(membership: &Membership<u64, Member>) -> pb::Membership {
    let configs = membership.get_joint_config().iter().map(|ids| pb::Ids { ids: ids.iter().copied().collect() });
    let nodes = membership.nodes().map(|(id, m)| pb::Node {
        id: *id,
        name: m.name.clone(),
        peer_urls: m.peer_urls.clone(),
        client_urls: m.client_urls.clone(),
    });
    pb::Membership { configs: configs.collect(), nodes: nodes.collect() }
}

fn membership_from_proto(membership: pb::Membership) -> Membership<u64, Member> {
    let configs = membership.configs.into_iter().map(|c| c.ids.into_iter().collect()).collect();
    let nodes: std::collections::BTreeMap<u64, Member> = membership
        .nodes
        .into_iter()
        .map(|n| (n.id, Member { name: n.name, peer_urls: n.peer_urls, client_urls: n.client_urls }))
        .collect();
    Membership::new(configs, nodes)
}

pub(crate) fn stored_membership_to_proto(stored: &StoredMembership<u64, Member>) -> pb::StoredMembership {
    pb::StoredMembership {
        log_id: stored.log_id().as_ref().map(log_id_to_proto),
        membership: Some(membership_to_proto(stored.membership())),
    }
}

pub(crate) fn stored_membership_from_proto(stored: pb::StoredMembership) -> StoredMembership<u64, Member> {
    StoredMembership::new(
        stored.log_id.map(log_id_from_proto),
        stored.membership.map(membership_from_proto).unwrap_or_default(),
    )
}

pub(crate) fn proposal_to_proto(proposal: &Proposal) -> pb::Proposal {
    pb::Proposal { traceparent: proposal.traceparent.to_string(), command: proposal.command.clone() }
}

pub(crate) fn proposal_from_proto(proposal: pb::Proposal) -> Proposal {
    Proposal { traceparent: proposal.traceparent.into(), command: proposal.command }
}

pub(crate) fn entry_to_proto(entry: &Entry) -> pb::Entry {
    let payload = match &entry.payload {
        EntryPayload::Blank => None,
        EntryPayload::Normal(batch) => {
            Some(pb::entry::Payload::Batch(pb::Batch { proposals: batch.0.iter().map(proposal_to_proto).collect() }))
        }
        EntryPayload::Membership(membership) => Some(pb::entry::Payload::Membership(membership_to_proto(membership))),
    };
    pb::Entry { log_id: Some(log_id_to_proto(&entry.log_id)), payload }
}

pub(crate) fn entry_from_proto(entry: pb::Entry) -> Result<Entry> {
    let log_id =
        entry.log_id.map(log_id_from_proto).ok_or_else(|| Error::Corrupt("a log entry without its id".into()))?;
    let payload = match entry.payload {
        None => EntryPayload::Blank,
        Some(pb::entry::Payload::Batch(batch)) => {
            EntryPayload::Normal(Batch(batch.proposals.into_iter().map(proposal_from_proto).collect()))
        }
        Some(pb::entry::Payload::Membership(membership)) => EntryPayload::Membership(membership_from_proto(membership)),
    };
    Ok(Entry { log_id, payload })
}

pub(crate) fn meta_to_proto(meta: &SnapshotMeta) -> pb::SnapshotMeta {
    pb::SnapshotMeta {
        last_log_id: meta.last_log_id.as_ref().map(log_id_to_proto),
        last_membership: Some(stored_membership_to_proto(&meta.last_membership)),
        snapshot_id: meta.snapshot_id.clone(),
    }
}

pub(crate) fn meta_from_proto(meta: pb::SnapshotMeta) -> SnapshotMeta {
    SnapshotMeta {
        last_log_id: meta.last_log_id.map(log_id_from_proto),
        last_membership: meta.last_membership.map(stored_membership_from_proto).unwrap_or_default(),
        snapshot_id: meta.snapshot_id,
    }
}

/// Bytes an entry takes, about.
pub(crate) fn entry_size(entry: &Entry) -> usize {
    match &entry.payload {
        EntryPayload::Normal(batch) => batch.0.iter().map(|p| p.command.len() + 96).sum(),
        _ => 256,
    }
}
