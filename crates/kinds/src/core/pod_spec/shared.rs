//! What the parts of a spec have in common.

use std::collections::HashMap;

use serde_json::Value;

use crate::check::Node;

/// What containers share.
pub(super) struct Shared<'a> {
    /// The volumes that are valid.
    pub(super) volumes: &'a HashMap<&'a str, &'a Value>,
    /// The names of the resource claims.
    pub(super) claims: &'a [&'a str],
    /// Seconds of grace.
    pub(super) grace: Option<i64>,
    /// The restart policy of the Pod.
    pub(super) restart_policy: &'a str,
    /// The operating system, if it is named.
    pub(super) os: Option<&'a str>,
    /// Whether the Pod has the host's users.
    pub(super) host_users: bool,
}

/// All containers of a spec, whatever their kind.
pub(super) fn containers<'a>(spec: &Node<'a>) -> Vec<Node<'a>> {
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(|list| spec.list(list)).collect()
}
