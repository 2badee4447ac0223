//! kube-proxy: Services on a node, as nftables rules.
//!
//! [`view`] turns Services and EndpointSlices into service ports with endpoints; [`plan`] turns those into the content of
//! one table; [`ruleset`] turns two contents into the script that leads from one to the other. All three are pure. [`nft`]
//! runs a script as one transaction and watches for changes by others; [`conntrack`] removes stale UDP entries.
//!
//! Actors: three informers (Services, EndpointSlices, this Node), and one task, the keeper ([`sync`]), which alone
//! changes the table. It wakes on any event, waits until the last change is `--nftables-min-sync-period` ago, plans from
//! what the informers hold, and applies the difference. Every `--nftables-sync-period` it compares the table with what it
//! wrote; when someone else changed it, the whole table is written anew.
//!
//! Invariants:
//! - The table changes from one right state to the next in one transaction; established flows are untouched by it.
//! - The rules stay when the process ends: Services go on without it. `--cleanup` removes them.
//! - Nothing outside of the table `kube-proxy[-SUFFIX]` is changed, except stale UDP entries of our own Services.

mod choice;
pub mod cidr;
mod config;
pub mod conntrack;
mod error;
pub mod nft;
pub mod plan;
pub mod ruleset;
mod run;
pub mod sync;
mod tool;
pub mod view;

pub use config::Args;
pub use error::Error;
pub use run::run;
