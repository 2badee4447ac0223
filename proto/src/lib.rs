//! The gRPC protocols of Trireme, compiled from the `.proto` files beside this crate.
//!
//! Public protocols (etcd v3, CRI v1) are written down only as far as this project speaks them: message names and
//! field numbers are facts of the protocol, the words are ours.
#![allow(missing_docs, clippy::large_enum_variant, clippy::doc_markdown)]

/// The API server's gRPC door.
pub mod resources {
    /// Version 1.
    pub mod v1 {
        tonic::include_proto!("trireme.resources.v1");
    }
}

/// etcd v3: versions of keys and their events.
pub mod mvccpb {
    tonic::include_proto!("mvccpb");
}

/// etcd v3: the client API.
pub mod etcdserverpb {
    tonic::include_proto!("etcdserverpb");
}

/// Packages that the etcd modules refer to by path.
pub mod trireme {
    /// The store's own protocol.
    pub mod store {
        /// Version 1.
        pub mod v1 {
            tonic::include_proto!("trireme.store.v1");
        }
    }
    /// Between members of the store.
    pub mod raft {
        /// Version 1.
        pub mod v1 {
            tonic::include_proto!("trireme.raft.v1");
        }
    }
}

pub use trireme::{raft, store};

/// CRI v1, the seam between a kubelet and a container runtime.
pub mod runtime {
    /// Version 1.
    pub mod v1 {
        tonic::include_proto!("runtime.v1");
    }
}
