//! The watch event bus: what the store's leader applied, told to the API servers as it happens.
//!
//! The bus is a hint and the store is the truth: a message may be lost, late, doubled or out of order, and the reader of
//! the bus notices. So nothing here waits, retries or keeps anything for the sake of a message.
//!
//! - [`Bus`] is the transport: core NATS on the subject `watch.<cluster id>`, or a channel inside one process.
//! - [`Publisher`] belongs to a store member. It takes a [`BusMessage`] per revision into a bounded queue, which drops
//!   when it is full, and publishes the head every 250 ms while the member says that it leads.
//! - [`Subscriber`] belongs to an API server and yields [`Hint`]s.
//! - [`sequence::Sequence`] is the pure judge of what arrives: deliver, drop, or read the gap from the store.
//!
//! Invariants:
//! - [`Publisher::publish`] returns at once whatever the state of the network.
//! - A message above [`LARGEST`] travels without its events.
//! - The bus is trusted as far as its transport is: who can publish on it can put events into API servers' caches, so a
//!   NATS server that others can reach needs credentials.

mod args;
mod error;
mod message;
mod publisher;
pub mod sequence;
mod subscriber;
mod transport;

pub use args::BusArgs;
pub use error::Error;
pub use message::{Head, Hint, LARGEST, subject};
pub use publisher::{HEAD_EVERY, Publisher};
pub use sequence::{Missing, Position, Sequence, Verdict};
pub use subscriber::Subscriber;
pub use transport::{Bus, NatsOptions};
pub use trireme_proto::store::v1::BusMessage;
