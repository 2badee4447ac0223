//! An identity, and the names that Kubernetes reserves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
pub use trireme_machinery::go::quote as quoted;

/// The group whose members may do everything, whatever the roles say.
pub const MASTERS: &str = "system:masters";
/// The group of every authenticated user.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of the anonymous user.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user without credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group of the nodes' kubelets.
pub const NODES: &str = "system:nodes";
/// What the name of a node's kubelet begins with.
pub const NODE_PREFIX: &str = "system:node:";
/// The group of all service accounts.
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
/// The group that may read health and metrics.
pub const MONITORING: &str = "system:monitoring";
/// The identity of the API server's own duties.
pub const APISERVER: &str = "system:apiserver";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// Keys of `extra` that a credential fills in.
pub mod extra {
    /// Which credential it was: `X509SHA256=…` or `JTI=…`.
    pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
    /// The pod a service account token is bound to.
    pub const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
    /// The UID of that pod.
    pub const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
    /// The node of that pod, or the node the token is bound to.
    pub const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
    /// The UID of that node.
    pub const NODE_UID: &str = "authentication.kubernetes.io/node-uid";
}

/// Who makes a request. Its JSON is `authentication.k8s.io/v1` `UserInfo`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserInfo {
    /// The name, unique among active users.
    #[serde(rename = "username", default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Distinguishes a user from one of the same name who was deleted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The groups, in the order in which the credential names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// What else the credential says.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// A user of this name in these groups.
    pub fn new(name: impl Into<String>, groups: &[&str]) -> Self {
        Self { name: name.into(), groups: groups.iter().map(ToString::to_string).collect(), ..Self::default() }
    }

    /// The caller without credentials.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::new(ANONYMOUS, &[UNAUTHENTICATED])
    }

    /// The identity under which the API server does its own duties.
    #[must_use]
    pub fn apiserver() -> Self {
        Self::new(APISERVER, &[MASTERS, AUTHENTICATED])
    }

    /// Whether the user is a member of `group`.
    #[must_use]
    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// Whether RBAC does not apply: a member of system:masters.
    #[must_use]
    pub fn is_privileged(&self) -> bool {
        self.in_group(MASTERS)
    }

    /// The name of the node whose kubelet this is. `Some("")` for a member of system:nodes without a node's name.
    #[must_use]
    pub fn node_name(&self) -> Option<&str> {
        let name = self.name.strip_prefix(NODE_PREFIX)?;
        self.in_group(NODES).then_some(name)
    }

    /// Namespace and name of the service account that this is.
    #[must_use]
    pub fn service_account(&self) -> Option<(&str, &str)> {
        split_service_account(&self.name)
    }

    /// The only value of an extra key.
    #[must_use]
    pub fn extra_value(&self, key: &str) -> Option<&str> {
        match self.extra.get(key)?.as_slice() {
            [one] => Some(one),
            _ => None,
        }
    }

    /// Adds a group unless the user has it.
    pub fn ensure_group(&mut self, group: &str) {
        if !self.in_group(group) {
            self.groups.push(group.to_owned());
        }
    }
}

/// The user name of a service account.
#[must_use]
pub fn service_account_name(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

/// The groups that every service account of a namespace has.
#[must_use]
pub fn service_account_groups(namespace: &str) -> Vec<String> {
    vec![SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")]
}

/// Namespace and name out of a service account's user name; `None` if it is not a well-formed one.
#[must_use]
pub fn split_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    let sound = !name.contains(':')
        && trireme_machinery::names::is_dns1123_label(namespace).is_empty()
        && trireme_machinery::names::is_dns1123_subdomain(name).is_empty();
    sound.then_some((namespace, name))
}

/// Go's `%q` of a list of strings: `["a" "b"]`.
#[must_use]
pub fn quoted_list(items: &[String]) -> String {
    let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
    format!("[{}]", items.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_account_names_round_trip() {
        let user = service_account_name("kube-system", "coredns");
        assert_eq!(split_service_account(&user), Some(("kube-system", "coredns")));
        for bad in ["system:serviceaccount:a", "system:serviceaccount:a:b:c", "system:serviceaccount::b", "alice"] {
            assert_eq!(split_service_account(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_node_needs_name_and_group() {
        assert_eq!(UserInfo::new("system:node:n1", &[NODES]).node_name(), Some("n1"));
        assert_eq!(UserInfo::new("system:node:n1", &[]).node_name(), None);
        assert_eq!(UserInfo::new("alice", &[NODES]).node_name(), None);
    }

    #[test]
    fn quotes_as_go_does() {
        assert_eq!(quoted("a\"b\\\n"), r#""a\"b\\\n""#);
        assert_eq!(quoted_list(&["a".into(), "b".into()]), r#"["a" "b"]"#);
    }
}
