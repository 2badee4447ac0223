//! What a kind states about itself that needs no code.

use trireme_machinery::names;
use trireme_machinery::path::Path;

use crate::disabled::Disabled;
use crate::ip;

/// What happens to dependents when a client names no propagation policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted after their owner.
    Background,
    /// They lose their owner and stay.
    Orphan,
}

/// Which names a kind takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS subdomain (most kinds).
    Subdomain,
    /// A DNS label.
    Label,
    /// Anything that can stand in a path (RBAC, events).
    PathSegment,
    /// An IP address, written as it always is.
    IpAddress,
}

/// What a kind states about itself that needs no code. The defaults are what most kinds do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// `metadata.generation` counts changes of the spec.
    pub generation: bool,
    /// A new object's status is emptied.
    pub empties_status: bool,
    /// An update of the object keeps the old status.
    pub keeps_status: bool,
    /// Whether an update may come without a resourceVersion.
    pub unconditional_update: bool,
    /// Whether a PUT of an absent object creates it.
    pub create_on_update: bool,
    /// What happens to dependents when a client names no propagation policy.
    pub propagation: Propagation,
    /// Which names it takes.
    pub names: NameRule,
    /// Finalizers without a domain are Kubernetes' own only.
    pub standard_finalizers: bool,
    /// Fields that are dropped when an object is written.
    pub disabled: Disabled,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            generation: false,
            empties_status: false,
            keeps_status: false,
            unconditional_update: true,
            create_on_update: false,
            propagation: Propagation::Background,
            names: NameRule::Subdomain,
            standard_finalizers: false,
            disabled: Disabled::default(),
        }
    }
}

impl NameRule {
    /// What is wrong with a name; with `prefix` it is a generateName, which something is appended to.
    pub fn check(self, name: &str, prefix: bool) -> Vec<String> {
        // What is appended to a prefix starts and ends like a name, so a dash at its end does not count.
        let masked = if prefix { mask_trailing_dash(name) } else { name.to_owned() };
        match self {
            Self::Subdomain => names::is_dns1123_subdomain(&masked),
            Self::Label => names::is_dns1123_label(&masked),
            Self::PathSegment if prefix => {
                names::is_path_segment(name).into_iter().filter(|m| !m.starts_with("may not be")).collect()
            }
            Self::PathSegment => names::is_path_segment(name),
            Self::IpAddress => ip::canonical_address(&Path::nil(), name).into_iter().map(|e| e.detail).collect(),
        }
    }
}

fn mask_trailing_dash(name: &str) -> String {
    match name.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => format!("{rest}a"),
        _ => name.to_owned(),
    }
}
