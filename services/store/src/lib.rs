//! The Raft store: etcd v3 gRPC API over openraft, MVCC, watch, leases, snapshots.
