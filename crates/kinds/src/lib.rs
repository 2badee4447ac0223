//! The table of built-in kinds: scope, names, schema, defaults, validation, columns, subresources.
//!
//! A [`Kind`] is a *schema* (facts, see `trireme_machinery::schema`) and [`Hooks`] (the rules that facts cannot state).
//! The facts of the built-in kinds are one committed table (`facts.txt`, made by `cargo xtask facts` from the Go types of
//! Kubernetes), the rules are one file a kind. A CustomResourceDefinition makes the same two things at run time and is
//! [inserted](Registry::insert) beside them, so a custom resource and a Pod take one path.
//!
//! A request goes through a kind in this order: [`Kind::decode`] → [`Kind::default`] → [`Kind::prepare_create`] (or
//! `prepare_update`, `prepare_update_status`) → admission → [`Kind::validate_create`] (or `validate_update`, …) → the store.
//!
//! Invariants: nothing here does I/O or knows a request's transport; hooks never panic, whatever the object holds; an object is
//! a `serde_json::Value` throughout and nothing is serialised from a typed view.

mod builtin;
mod cells;
mod check;
mod declared;
mod decode;
mod defaults;
mod definition;
mod facts;
mod hooks;
mod ip;
mod kind;
pub mod metadata;
mod registry;
mod rules;
mod table;
mod workload;

mod admissionregistration;
mod apiextensions;
mod apiregistration;
mod apps;
mod authentication;
mod authorization;
mod autoscaling;
mod batch;
mod certificates;
mod coordination;
mod core;
mod disabled;
mod discovery;
mod events;
mod flowcontrol;
mod networking;
mod node;
mod policy;
mod rbac;
mod resource;
mod scheduling;
mod storage;
mod storagemigration;

pub use hooks::{Context, Hooks, NoHooks, Requester};
pub use kind::{Kind, ScalePaths, Subresource};
pub use registry::Registry;
pub use rules::{NameRule, Propagation, Rules};
pub use table::{About, CellFn, Column, TableColumn};

/// What can be wrong with the table of facts.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A line of the table is not understood.
    #[error("facts, line {line}: {problem}")]
    Facts {
        /// The line.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// Defaults are given for a type that the table has not.
    #[error("no type {name} to give defaults to")]
    UnknownType {
        /// The type.
        name: &'static str,
    },
}
