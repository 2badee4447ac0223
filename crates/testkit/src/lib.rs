//! What tests are made with: a real cluster, real kubectl, a real OTLP collector.
//!
//! - [`Cluster`]: an instance of its own in a temporary state directory, brought up by `trireme up` and taken down when
//!   dropped; processes of it can be killed and started again.
//! - [`Cluster::kubectl`]: the unmodified kubectl, with what it printed and how it ended.
//! - [`Collector`]: takes spans over OTLP and answers what trace they form.
//! - [`netns`]: network namespaces as nodes, Pods and neighbours.
//! - [`poll`]: waits for a state with a deadline. Nothing here sleeps in place of looking.
//! - [`ports`]: ports for processes that must be told theirs before they start.

mod cluster;
mod collector;
mod kubectl;
pub mod netns;
pub mod poll;
pub mod ports;

pub use cluster::{Cluster, Options, program};
pub use collector::{Collector, Span};
pub use kubectl::Output;
