//! The gRPC door: Kubernetes verbs on resources over mutual TLS, for the components of the cluster.
//!
//! It shares the pipeline with the REST door. Objects travel as Kubernetes JSON, as the cache has them; each comes with
//! its revision and its cause.

mod convert;
mod server;
mod watch;

pub use server::Door;
