//! Schemas: what the fields of a kind are, as facts, and what follows from the facts alone.
//!
//! A [`Schema`] is an arena of [`Type`]s that refer to each other by [`TypeId`] (so that a type may hold itself, as
//! JSONSchemaProps does). The built-in kinds' schemas are parsed from a table of facts; a CustomResourceDefinition makes
//! the same thing at run time. Decoding ([`decode::normalise`]), constant defaults ([`default::apply`]), patches,
//! ownership, protobuf and OpenAPI publication work from the schema, never from the kind.

pub mod decode;
pub mod default;
mod types;
pub mod zero;

pub use types::{
    DefaultFn, Field, ListKind, Object, PatchStrategy, Presence, Schema, SchemaBuilder, Shape, Type, TypeId,
};
