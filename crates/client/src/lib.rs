//! What a component is built with: a typed client, informers, work queues, controllers, claims and events.
//!
//! Two ways lead to an API server, and everything here works over both: the gRPC door of ours (fences, causes and
//! progress travel with requests and events) and Kubernetes' REST API of any.
//!
//! Actors: an [`Informer`] is a task that alone writes its store; readers get immutable snapshots, subscribers get
//! messages. All watches of a client over gRPC share one stream, owned by one task. A [`claims::Claim`] is a task that
//! renews, takes over and gives back. An [`EventRecorder`] is a task that writes events behind a bounded mailbox. A
//! [`Controller`] takes keys out of its [`WorkQueue`] and runs a [`Reconciler`] on them.
//!
//! Invariants:
//! - A subscriber of an informer sees every version that the informer saw, once and in order, or, after a gap that the
//!   server has forgotten, the difference; never an older state after a newer one.
//! - A key is reconciled by one worker at a time, never before the informers have seen the claim's revision, and never
//!   again before they have seen its own writes.
//! - Losing a claim pauses; nothing here ends the process.
//! - No reconciler handles traces or fences: both travel task-locally ([`context`]).

mod api;
pub mod backoff;
pub mod claims;
mod client;
pub mod clock;
mod config;
pub mod context;
mod controller;
mod discovery;
mod error;
pub mod events;
pub mod informer;
mod key;
mod limit;
mod object;
mod params;
mod queue;
mod tasks;
mod tls;
mod token;
pub mod transport;
pub mod wake;

pub use api::{Api, DynApi, List};
pub use claims::Claim;
pub use client::{Client, ServiceAccounts};
pub use clock::Clock;
pub use config::{ClientArgs, Config, Token};
pub use context::Fence;
pub use controller::{Action, Controller, ReconcileError, Reconciler};
pub use discovery::{Discovered, Served};
pub use error::Error;
pub use events::{EventRecorder, EventType, SeriesRecorder};
pub use informer::{Change, Event, Informer, Store, Subscription};
pub use key::ObjectKey;
pub use object::{ApiResource, DynObject, Known, MetaObject, Object, ScopeKind, parse_revision};
pub use params::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions, Propagation};
pub use queue::{Work, WorkQueue};
pub use tasks::Tasks;
pub use wake::Wakes;
