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
