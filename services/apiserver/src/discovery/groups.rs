//! The order of groups and versions.

use trireme_kinds::Registry;

/// The API groups in the order in which clients list them; the first that knows a name wins.
pub const GROUPS: [&str; 22] = [
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "storagemigration.k8s.io",
];

/// A group that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) name: String,
    /// The preferred one first.
    pub(super) versions: Vec<String>,
}

/// The version that clients should take: the newest stable one.
#[must_use]
pub fn preferred(versions: &[String]) -> Option<&String> {
    versions.iter().min_by(|a, b| trireme_order(a, b))
}

/// Kubernetes' order of versions: v2, v1, v1beta2, v1beta1, v1alpha1, then anything else by name.
fn trireme_order(a: &str, b: &str) -> std::cmp::Ordering {
    fn rank(version: &str) -> Option<(u8, u64, u64)> {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major: u64 = rest[..digits].parse().ok()?;
        match &rest[digits..] {
            "" => Some((2, major, 0)),
            more => {
                let beta = more.strip_prefix("beta").map(|n| (1, n));
                let (level, minor) = beta.or_else(|| more.strip_prefix("alpha").map(|n| (0, n)))?;
                Some((level, major, minor.parse().ok()?))
            }
        }
    }
    match (rank(a), rank(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => std::cmp::Ordering::Less,
        (None, Some(_)) => std::cmp::Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// The groups of a registry in order: the known ones, then the others by name.
pub(super) fn served(registry: &Registry) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for kind in registry.iter() {
        let at = groups.iter().position(|group| group.name == kind.group).unwrap_or_else(|| {
            groups.push(Group { name: kind.group.clone(), versions: Vec::new() });
            groups.len() - 1
        });
        if !groups[at].versions.contains(&kind.version) {
            groups[at].versions.push(kind.version.clone());
        }
    }
    for group in &mut groups {
        group.versions.sort_by(|a, b| trireme_order(a, b));
    }
    let place = |group: &Group| GROUPS.iter().position(|name| *name == group.name).unwrap_or(GROUPS.len());
    groups.sort_by(|a, b| place(a).cmp(&place(b)).then_with(|| a.name.cmp(&b.name)));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_first() {
        let mut versions: Vec<String> = ["v1beta1", "v1", "v2", "v1alpha1", "v2beta1", "foo"].map(str::to_owned).into();
        versions.sort_by(|a, b| trireme_order(a, b));
        assert_eq!(versions, ["v2", "v1", "v2beta1", "v1beta1", "v1alpha1", "foo"]);
    }
}
