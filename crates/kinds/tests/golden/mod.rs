//! The recorded answers of Kubernetes, played through decode, default, prepare and validate.
//!
//! What only a whole API server does (admission, allocation of addresses) is played here as far as the cases need it;
//! managedFields, uids and times are not compared. The floors only grow.

mod compare;
mod fields;
pub(crate) mod record;
mod server;
mod tables;
