//! What several controllers need: ownership, pods, selectors, names, hashes.

pub(crate) mod adopt;
pub(crate) mod conditions;
pub(crate) mod hash;
pub(crate) mod history;
pub(crate) mod names;
pub(crate) mod owner;
pub(crate) mod placement;
pub(crate) mod podmaker;
pub(crate) mod pods;
pub(crate) mod selector;
pub(crate) mod taint;
