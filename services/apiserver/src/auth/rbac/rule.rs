//! One rule, and whether it allows something.

use serde::{Deserialize, Serialize};

use crate::auth::attributes::Attributes;

/// A rule of a role.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    /// Verbs; `*` means all.
    pub verbs: Vec<String>,
    /// API groups; `*` means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// Resources: `pods`, `pods/log`, `*/scale`, `*`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Names of objects; none means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// Paths outside the API; a `*` may stand at the end.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

impl PolicyRule {
    /// Whether the rule allows what is asked.
    #[must_use]
    pub fn allows(&self, asked: &Attributes<'_>) -> bool {
        if !has_or_star(&self.verbs, asked.verb) {
            return false;
        }
        if asked.is_resource {
            has_or_star(&self.api_groups, asked.group)
                && self.resources.iter().any(|r| matches_resource(r, asked.resource, asked.subresource))
                && (self.resource_names.is_empty() || self.resource_names.iter().any(|name| name == asked.name))
        } else {
            self.non_resource_urls.iter().any(|url| matches_url(url, asked.path))
        }
    }
}

fn has_or_star(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == "*" || item == wanted)
}

fn matches_resource(rule: &str, resource: &str, subresource: &str) -> bool {
    if rule == "*" {
        return true;
    }
    if subresource.is_empty() {
        return rule == resource;
    }
    rule.split_once('/').is_some_and(|(r, sub)| sub == subresource && (r == resource || r == "*"))
}

/// Whether a rule's URL covers `path`.
pub(super) fn matches_url(rule: &str, path: &str) -> bool {
    rule == path || rule.strip_suffix('*').is_some_and(|prefix| path.starts_with(prefix.trim_end_matches('*')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(items: &[&str]) -> Vec<String> {
        items.iter().map(ToString::to_string).collect()
    }

    fn rule(verbs: &[&str], resources: &[&str], names: &[&str]) -> PolicyRule {
        PolicyRule {
            verbs: list(verbs),
            api_groups: list(&["apps"]),
            resources: list(resources),
            resource_names: list(names),
            ..PolicyRule::default()
        }
    }

    fn ask<'a>(verb: &'a str, resource: &'a str, sub: &'a str, name: &'a str) -> Attributes<'a> {
        Attributes { subresource: sub, name, ..Attributes::resource(verb, "apps", resource) }
    }

    #[test]
    fn resources_and_subresources() {
        let get =
            |resources: &[&str], resource, sub| rule(&["get"], resources, &[]).allows(&ask("get", resource, sub, "x"));
        assert!(get(&["deployments"], "deployments", ""));
        assert!(!get(&["deployments"], "deployments", "scale"), "a resource does not give its subresources");
        assert!(get(&["deployments/scale"], "deployments", "scale"));
        assert!(get(&["*/scale"], "replicasets", "scale"));
        assert!(!get(&["*/scale"], "replicasets", ""));
        assert!(!get(&["pods/*"], "pods", "log"), "a star after the slash is no wildcard");
        assert!(get(&["*"], "anything", "at-all"));
    }

    #[test]
    fn names_limit_a_rule() {
        let limited = rule(&["update"], &["deployments"], &["own"]);
        assert!(limited.allows(&ask("update", "deployments", "", "own")));
        assert!(!limited.allows(&ask("update", "deployments", "", "other")));
        assert!(!limited.allows(&ask("update", "deployments", "", "")), "a list or create has no name");
    }

    #[test]
    fn urls_may_end_in_a_star() {
        let rule = PolicyRule {
            verbs: list(&["get"]),
            non_resource_urls: list(&["/healthz/*", "/version"]),
            ..PolicyRule::default()
        };
        let get = |path| rule.allows(&Attributes::path("get", path));
        assert!(get("/healthz/etcd") && get("/version"));
        assert!(!get("/healthz") && !get("/version/x"));
    }
}
