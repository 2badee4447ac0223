//! The REST door: HTTPS with client certificates and bearer tokens, HTTP/1.1 and HTTP/2.
//!
//! It turns HTTP into a [`Request`](crate::pipeline::Request), lets the pipeline serve it and writes the answer in the
//! form the client accepts. Everything that is the same at the gRPC door is in the pipeline.
//!
//! - [`accept`]: which form (JSON, YAML, Table, metadata alone) the client gets.
//! - [`request`]: from HTTP to a request, with its body bounded; [`held`], for bodies that nobody reads to their end.
//! - [`encode`]: objects and lists as bytes, without parsing what the cache has encoded.
//! - [`respond`]: statuses, headers, compression.
//! - [`stream`], for watches.

pub mod accept;
mod encode;
mod held;
mod request;
mod respond;
mod server;
mod stream;

pub(crate) use held::held;
pub(crate) use request::wants_websocket;
pub use server::{Connect, Door};
