//! Roles and bindings, arranged for questions. An index is immutable.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use trireme_machinery::labels::Selector;

use super::rule::PolicyRule;
use crate::auth::user::{UserInfo, quoted, service_account_name};
use crate::pipeline::Stored;

/// Which role a binding gives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RoleRef {
    /// The API group of the role.
    pub api_group: String,
    /// `Role` or `ClusterRole`.
    pub kind: String,
    /// The role's name.
    pub name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

/// Where a binding counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Everywhere.
    Cluster,
    /// In one namespace.
    Namespace(String),
}

/// A binding of subjects to a role.
#[derive(Debug)]
pub struct Binding {
    name: String,
    scope: Scope,
    subjects: Vec<Subject>,
    /// The role that it gives.
    pub role: RoleRef,
    revision: i64,
}

/// A binding that applies to the one who asks, by one of its subjects.
pub struct Grant<'a> {
    /// The binding.
    pub binding: &'a Binding,
    subject: &'a Subject,
}

struct Role {
    rules: Vec<PolicyRule>,
    labels: BTreeMap<String, String>,
    /// What it gathers rules from; none for most.
    gathers: Vec<Selector>,
    revision: i64,
}

type Key = (String, String);

/// Bindings of one scope, found by subject.
#[derive(Default)]
struct Bindings {
    all: Vec<Arc<Binding>>,
    by_user: HashMap<String, Vec<usize>>,
    by_group: HashMap<String, Vec<usize>>,
}

/// Everything RBAC needs to decide, as of some revisions of its four kinds.
#[derive(Default)]
pub struct Index {
    /// Revisions of cluster roles, roles, cluster role bindings and role bindings.
    pub revisions: [i64; 4],
    roles: HashMap<Key, Arc<Role>>,
    /// The rules of cluster roles that gather those of others, as they are now: a controller writes them down later.
    gathered: HashMap<String, Vec<PolicyRule>>,
    cluster: Bindings,
    namespaces: HashMap<String, Bindings>,
    bindings: HashMap<Key, Arc<Binding>>,
}

impl Index {
    /// A new index of these objects. What did not change is taken over from this one.
    #[must_use]
    pub fn rebuild(
        &self,
        revisions: [i64; 4],
        cluster_roles: &[Arc<Stored>],
        roles: &[Arc<Stored>],
        cluster_bindings: &[Arc<Stored>],
        bindings: &[Arc<Stored>],
    ) -> Self {
        let mut next = Self { revisions, ..Self::default() };
        for stored in cluster_roles.iter().chain(roles) {
            let key = key(stored);
            let known = self.roles.get(&key).filter(|role| role.revision == stored.revision);
            next.roles.insert(key, known.cloned().unwrap_or_else(|| Arc::new(Role::read(stored))));
        }
        for stored in cluster_bindings.iter().chain(bindings) {
            let key = key(stored);
            let known = self.bindings.get(&key).filter(|binding| binding.revision == stored.revision);
            let binding = known.cloned().unwrap_or_else(|| Arc::new(Binding::read(stored)));
            let place = match &binding.scope {
                Scope::Cluster => &mut next.cluster,
                Scope::Namespace(namespace) => next.namespaces.entry(namespace.clone()).or_default(),
            };
            place.add(binding.clone());
            next.bindings.insert(key, binding);
        }
        let gatherers =
            next.roles.iter().filter(|((namespace, _), role)| namespace.is_empty() && !role.gathers.is_empty());
        let names: Vec<String> = gatherers.map(|((_, name), _)| name.clone()).collect();
        for name in names {
            let mut rules = Vec::new();
            next.gather(&name, &mut HashSet::new(), &mut rules);
            next.gathered.insert(name, rules);
        }
        next
    }

    /// Adds the rules of a cluster role, and of those that it gathers from, each once.
    fn gather<'a>(&'a self, name: &'a str, seen: &mut HashSet<&'a str>, rules: &mut Vec<PolicyRule>) {
        let Some(role) = self.roles.get(&(String::new(), name.to_owned())) else { return };
        if !seen.insert(name) {
            return;
        }
        for rule in &role.rules {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
        let others = self.roles.iter().filter(|((namespace, _), _)| namespace.is_empty());
        let mut sources: Vec<&str> = others
            .filter(|(_, other)| role.gathers.iter().any(|selector| selector.matches(&other.labels)))
            .map(|((_, name), _)| name.as_str())
            .collect();
        sources.sort_unstable();
        for source in sources {
            self.gather(source, seen, rules);
        }
    }

    /// The bindings that apply to `user`: those of the cluster, then those of the namespace.
    pub fn grants<'a>(&'a self, user: &'a UserInfo, namespace: &'a str) -> impl Iterator<Item = Grant<'a>> + 'a {
        let local = self.namespaces.get(namespace).map(|bindings| bindings.grants(user, namespace));
        self.cluster.grants(user, "").chain(local.into_iter().flatten())
    }

    /// The rules of a role as a binding in `namespace` (none for one of the cluster) refers to it.
    pub fn rules_of(&self, role: &RoleRef, namespace: &str) -> Result<&[PolicyRule], String> {
        let missing = |resource: &str| format!("{resource}.{} {} not found", super::GROUP, quoted(&role.name));
        let (key, resource) = match role.kind.as_str() {
            // Only validation keeps a ClusterRoleBinding from naming one.
            "Role" if namespace.is_empty() => return Err(missing("role")),
            "Role" => ((namespace.to_owned(), role.name.clone()), "role"),
            "ClusterRole" => ((String::new(), role.name.clone()), "clusterrole"),
            other => return Err(format!("unsupported role reference kind: {}", quoted(other))),
        };
        if let Some(rules) = self.gathered.get(&role.name).filter(|_| resource == "clusterrole") {
            return Ok(rules);
        }
        match self.roles.get(&key) {
            Some(role) => Ok(&role.rules),
            None => Err(missing(resource)),
        }
    }
}

impl Bindings {
    fn add(&mut self, binding: Arc<Binding>) {
        let at = self.all.len();
        for subject in &binding.subjects {
            let (map, name) = match subject.kind.as_str() {
                "User" => (&mut self.by_user, subject.name.clone()),
                "Group" => (&mut self.by_group, subject.name.clone()),
                "ServiceAccount" => match (&binding.scope, subject.namespace.as_str()) {
                    (Scope::Cluster, "") => continue,
                    (Scope::Namespace(own), "") => (&mut self.by_user, service_account_name(own, &subject.name)),
                    (_, namespace) => (&mut self.by_user, service_account_name(namespace, &subject.name)),
                },
                _ => continue,
            };
            map.entry(name).or_default().push(at);
        }
        self.all.push(binding);
    }

    fn grants<'a>(&'a self, user: &'a UserInfo, namespace: &'a str) -> impl Iterator<Item = Grant<'a>> + 'a {
        let by_group = user.groups.iter().filter_map(|group| self.by_group.get(group));
        let mut found: Vec<usize> =
            self.by_user.get(&user.name).into_iter().chain(by_group).flatten().copied().collect();
        found.sort_unstable();
        found.dedup();
        found.into_iter().filter_map(move |at| {
            let binding = self.all.get(at)?.as_ref();
            let subject = binding.subjects.iter().find(|subject| subject.is(user, namespace))?;
            Some(Grant { binding, subject })
        })
    }
}

impl Subject {
    fn is(&self, user: &UserInfo, namespace: &str) -> bool {
        match self.kind.as_str() {
            "User" => user.name == self.name,
            "Group" => user.in_group(&self.name),
            "ServiceAccount" => {
                let namespace = if self.namespace.is_empty() { namespace } else { &self.namespace };
                !namespace.is_empty() && user.name == service_account_name(namespace, &self.name)
            }
            _ => false,
        }
    }
}

impl Binding {
    /// The namespace of the roles that it may name; none for a binding of the cluster.
    #[must_use]
    pub fn namespace(&self) -> &str {
        match &self.scope {
            Scope::Cluster => "",
            Scope::Namespace(namespace) => namespace,
        }
    }
}

impl Grant<'_> {
    /// The grant in upstream's words: `RoleBinding "b/ns" of Role "r" to User "u"`.
    #[must_use]
    pub fn describe(&self) -> String {
        let Binding { name, scope, role, .. } = self.binding;
        let (what, name, own) = match scope {
            Scope::Cluster => ("ClusterRoleBinding", quoted(name), ""),
            Scope::Namespace(namespace) => ("RoleBinding", quoted(&format!("{name}/{namespace}")), namespace.as_str()),
        };
        let subject = match self.subject.kind.as_str() {
            "ServiceAccount" => {
                let namespace = if self.subject.namespace.is_empty() { own } else { &self.subject.namespace };
                format!("ServiceAccount {}", quoted(&format!("{}/{namespace}", self.subject.name)))
            }
            kind => format!("{kind} {}", quoted(&self.subject.name)),
        };
        format!("{what} {name} of {} {} to {subject}", role.kind, quoted(&role.name))
    }
}

fn key(stored: &Stored) -> Key {
    (stored.namespace.to_string(), stored.name.to_string())
}

impl Role {
    fn read(stored: &Stored) -> Self {
        let value = stored.value();
        let selectors = value.pointer("/aggregationRule/clusterRoleSelectors").and_then(Value::as_array);
        Self {
            rules: value.get("rules").and_then(|rules| Vec::deserialize(rules).ok()).unwrap_or_default(),
            labels: stored.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
            gathers: selectors.into_iter().flatten().filter_map(|s| Selector::from_label_selector(s).ok()).collect(),
            revision: stored.revision,
        }
    }
}

impl Binding {
    fn read(stored: &Stored) -> Self {
        let value = stored.value();
        let scope = match &*stored.namespace {
            "" => Scope::Cluster,
            namespace => Scope::Namespace(namespace.to_owned()),
        };
        Self {
            name: stored.name.to_string(),
            scope,
            subjects: value.get("subjects").and_then(|list| Vec::deserialize(list).ok()).unwrap_or_default(),
            role: value.get("roleRef").and_then(|role| RoleRef::deserialize(role).ok()).unwrap_or_default(),
            revision: stored.revision,
        }
    }
}
