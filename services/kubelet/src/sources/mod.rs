//! Where Pods come from: the API server and manifests of this node.

pub mod api;
pub mod file;
