//! The default roles and bindings of Kubernetes, from compact tables of facts.

use serde_json::{Value, json};

use crate::auth::rbac::{GROUP, PolicyRule};

const CLUSTER_ROLES: &str = include_str!("policy/cluster-roles.txt");
const CLUSTER_ROLE_BINDINGS: &str = include_str!("policy/cluster-role-bindings.txt");
const ROLES: &str = include_str!("policy/roles.txt");
const ROLE_BINDINGS: &str = include_str!("policy/role-bindings.txt");
/// Ours: workers and their claims.
const OWN_ROLES: &str = include_str!("policy/own-roles.txt");
const OWN_ROLE_BINDINGS: &str = include_str!("policy/own-role-bindings.txt");

const BOOTSTRAPPING: &str = "kubernetes.io/bootstrapping";
const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// A role of the policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Role {
    /// Its namespace; empty for a cluster role.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its rules.
    pub rules: Vec<PolicyRule>,
    /// The aggregated role that its rules go into.
    pub into: Option<String>,
    /// It has no rules of its own: it gathers those of the roles that go into this one.
    pub from: Option<String>,
}

/// A binding of the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Its namespace; empty for a cluster role binding.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// `Role` or `ClusterRole`.
    pub role_kind: String,
    /// The role it gives.
    pub role: String,
    /// `user:…`, `group:…` or `sa:namespace/name`.
    pub subjects: Vec<String>,
}

/// All default roles: of the cluster, then of namespaces.
#[must_use]
pub fn roles() -> Vec<Role> {
    let mut all = parse_roles(CLUSTER_ROLES, false);
    all.extend(parse_roles(ROLES, true));
    all.extend(parse_roles(OWN_ROLES, true));
    all
}

/// All default bindings: of the cluster, then of namespaces.
#[must_use]
pub fn bindings() -> Vec<Binding> {
    let mut all = parse_bindings(CLUSTER_ROLE_BINDINGS, false);
    all.extend(parse_bindings(ROLE_BINDINGS, true));
    all.extend(parse_bindings(OWN_ROLE_BINDINGS, true));
    all
}

/// What every node may do: the rules of the role system:node.
#[must_use]
pub fn node_rules() -> Vec<PolicyRule> {
    let node = parse_roles(CLUSTER_ROLES, false).into_iter().find(|role| role.name == "system:node");
    node.map(|role| role.rules).unwrap_or_default()
}

fn facts(table: &str) -> impl Iterator<Item = &str> {
    table.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty())
}

fn parse_roles(table: &str, namespaced: bool) -> Vec<Role> {
    let mut roles: Vec<Role> = Vec::new();
    for line in facts(table) {
        if let Some(rule) = line.strip_prefix("  ") {
            if let Some(role) = roles.last_mut() {
                role.rules.push(parse_rule(rule));
            }
            continue;
        }
        let mut role = Role::default();
        let mut words = line.split_whitespace();
        if namespaced {
            role.namespace = words.next().unwrap_or_default().to_owned();
        }
        role.name = words.next().unwrap_or_default().to_owned();
        for word in words {
            match word.split_at(1) {
                ("+", target) => role.into = Some(target.to_owned()),
                ("<", source) => role.from = Some(source.to_owned()),
                _ => {}
            }
        }
        roles.push(role);
    }
    roles
}

fn parse_rule(line: &str) -> PolicyRule {
    let mut columns = line.split(" | ").map(str::trim);
    let mut next = || -> Vec<String> {
        let column = columns.next().unwrap_or_default();
        column.split(',').filter(|item| !item.is_empty()).map(str::to_owned).collect()
    };
    let verbs = next();
    let groups = next();
    if groups == ["url"] {
        return PolicyRule { verbs, non_resource_urls: next(), ..PolicyRule::default() };
    }
    let api_groups = groups.into_iter().map(|group| if group == "core" { String::new() } else { group }).collect();
    PolicyRule { verbs, api_groups, resources: next(), resource_names: next(), ..PolicyRule::default() }
}

fn parse_bindings(table: &str, namespaced: bool) -> Vec<Binding> {
    facts(table)
        .filter_map(|line| {
            let (head, tail) = line.split_once(" -> ")?;
            let (role, subjects) = tail.split_once(" =")?;
            let (role_kind, role) = role.split_once(' ')?;
            let (namespace, name) = if namespaced { head.split_once(' ')? } else { ("", head) };
            Some(Binding {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                role_kind: role_kind.to_owned(),
                role: role.to_owned(),
                subjects: subjects.split_whitespace().map(str::to_owned).collect(),
            })
        })
        .collect()
}

fn metadata(namespace: &str, name: &str) -> Value {
    let mut metadata = json!({
        "name": name,
        "labels": {BOOTSTRAPPING: "rbac-defaults"},
        "annotations": {AUTOUPDATE: "true"},
    });
    if !namespace.is_empty() {
        metadata["namespace"] = json!(namespace);
    }
    metadata
}

fn aggregation_label(role: &str) -> String {
    format!("{GROUP}/aggregate-to-{role}")
}

impl Role {
    /// The role as an API object.
    #[must_use]
    pub fn object(&self) -> Value {
        let kind = if self.namespace.is_empty() { "ClusterRole" } else { "Role" };
        let mut object = json!({
            "apiVersion": format!("{GROUP}/v1"),
            "kind": kind,
            "metadata": metadata(&self.namespace, &self.name),
            "rules": self.rules,
        });
        if let Some(target) = &self.into {
            object["metadata"]["labels"][aggregation_label(target)] = json!("true");
        }
        if let Some(source) = &self.from {
            object["rules"] = Value::Null;
            object["aggregationRule"] =
                json!({"clusterRoleSelectors": [{"matchLabels": {aggregation_label(source): "true"}}]});
        }
        object
    }
}

impl Binding {
    /// The binding as an API object.
    #[must_use]
    pub fn object(&self) -> Value {
        let kind = if self.namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
        let mut object = json!({
            "apiVersion": format!("{GROUP}/v1"),
            "kind": kind,
            "metadata": metadata(&self.namespace, &self.name),
            "roleRef": {"apiGroup": GROUP, "kind": self.role_kind, "name": self.role},
        });
        if !self.subjects.is_empty() {
            object["subjects"] = self.subjects.iter().filter_map(|subject| subject_object(subject)).collect();
        }
        object
    }
}

fn subject_object(subject: &str) -> Option<Value> {
    let (kind, name) = subject.split_once(':')?;
    Some(match kind {
        "user" => json!({"apiGroup": GROUP, "kind": "User", "name": name}),
        "group" => json!({"apiGroup": GROUP, "kind": "Group", "name": name}),
        _ => {
            let (namespace, name) = name.split_once('/')?;
            json!({"kind": "ServiceAccount", "name": name, "namespace": namespace})
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_complete() {
        let roles = roles();
        assert_eq!(
            roles.iter().filter(|role| role.namespace.is_empty()).count(),
            73,
            "upstream has 73 default cluster roles"
        );
        assert_eq!(bindings().iter().filter(|binding| binding.namespace.is_empty()).count(), 54);
        for role in &roles {
            assert!(role.from.is_some() || !role.rules.is_empty(), "{} has no rules", role.name);
        }
    }

    #[test]
    fn reads_a_role() {
        let admin = &parse_roles("cluster-admin\n  * | * | *\n  get | url | /version,/healthz/*\n", false)[0];
        assert_eq!(admin.rules[0].resources, ["*"]);
        assert_eq!(admin.rules[1].non_resource_urls, ["/version", "/healthz/*"]);
        let core = &parse_roles("kube-system r\n  get | core,apps | pods,pods/log | a,b\n", true)[0];
        assert_eq!(
            (core.namespace.as_str(), core.rules[0].api_groups.as_slice()),
            ("kube-system", &["".to_owned(), "apps".to_owned()][..])
        );
        assert_eq!(core.rules[0].resource_names, ["a", "b"]);
    }

    #[test]
    fn aggregated_roles_have_a_selector() {
        let view = roles().into_iter().find(|role| role.name == "view").map(|role| role.object()).unwrap();
        assert_eq!(view["rules"], Value::Null);
        assert_eq!(view["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-edit"], "true");
        assert!(view.pointer("/aggregationRule/clusterRoleSelectors/0/matchLabels").is_some());
    }
}
