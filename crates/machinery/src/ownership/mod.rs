//! Who owns which field: what `metadata.managedFields` says, and how it changes with an update.
//!
//! - [`set`]: a set of field paths.
//! - [`fields_v1`]: such a set as the JSON that objects carry.
//! - [`compare`]: which fields an update added, changed and took away, by the schema.
//! - [`managers`]: the managers of an object and their sets; [`managers::Update`] is what a create, update or patch does
//!   to them.

pub mod compare;
pub mod fields_v1;
pub mod managers;
pub mod set;

pub use compare::{Comparison, compare};
pub use managers::Update;
pub use set::{Element, Set};
