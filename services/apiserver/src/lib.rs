//! The API server: REST (actix-web) and gRPC (tonic) over one request pipeline.
//!
//! It is the only door to the store and keeps no state of its own: everything here can be thrown away and filled again
//! from the store, so any number of replicas run side by side.
//!
//! ```text
//!   rest (HTTPS, :6443) ─┐                                   ┌─ storage ── etcd v3 gRPC ──▶ store
//!                        ├─▶ pipeline ─▶ kinds (decode,      │
//!   grpc (mTLS, :6444) ──┘   auth        default, validate)  ├─ cache ◀── bus, store's Watch
//!                            admission                       └─ (snapshots, history, watchers)
//! ```
//!
//! | module | what it is | actor |
//! |---|---|---|
//! | [`config`], [`advertise`], [`server`] | flags; putting the parts together, start and orderly stop | |
//! | [`rest`], [`grpc`] | the two doors: they translate, nothing else | one task a connection |
//! | [`pipeline`] | the verbs: authenticate, authorize, decode, mutate, validate, admit, persist | none: a request is a future |
//! | [`storage`] | the store's client: keys, encryption, transactions, fences, compaction | the compactor |
//! | [`cache`] | every object, encoded once; snapshots, history, dispatch to watchers | the cache, fed by one feeder |
//! | [`auth`] | who asks, and whether they may | |
//! | [`admission`] | plugins that change or refuse writes | |
//! | [`checks`] | the health pages | |
//! | [`discovery`], [`openapi`], [`tables`] | what clients learn about the kinds | |
//! | [`subresources`], [`tokens`] | what is asked of an object beside itself | |
//! | [`duties`] | what every replica keeps up, idempotently | one task a duty |
//!
//! Invariants: objects leave the cache as the bytes they came in as (nothing is parsed to be served); the cache has one
//! writer and publishes immutable snapshots; a write is one store transaction whose comparisons include the version
//! that was read and, when the writer holds a claim, the claim.

pub mod admission;
pub mod advertise;
pub mod assembly;
pub mod auth;
pub mod cache;
pub mod checks;
pub mod config;
pub mod describe;
pub mod discovery;
pub mod duties;
pub mod error;
pub mod grpc;
pub mod openapi;
pub mod pipeline;
pub mod rest;
pub mod server;
pub mod storage;
pub mod subresources;
pub mod tables;
pub mod tokens;
