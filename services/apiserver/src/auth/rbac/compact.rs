//! Whether the rules one holds cover the rules one wants to give, and how what is missing reads.

use std::collections::{BTreeMap, BTreeSet};

use super::rule::{PolicyRule, matches_url};
use crate::auth::user::quoted_list;

/// The rules that are not covered, each of one verb and one resource or URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uncovered(Vec<PolicyRule>);

/// Checks that `held` covers all of `wanted`. Rules are split to their atoms, so that each is covered by one rule or not at all.
pub fn covers(held: &[PolicyRule], wanted: &[PolicyRule]) -> Result<(), Uncovered> {
    let missing: Vec<_> =
        wanted.iter().flat_map(atoms).filter(|atom| !held.iter().any(|rule| covers_atom(rule, atom))).collect();
    if missing.is_empty() { Ok(()) } else { Err(Uncovered(missing)) }
}

impl Uncovered {
    /// One line for each resource, its verbs together, in order of the alphabet.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut simple: BTreeMap<_, PolicyRule> = BTreeMap::new();
        let mut lines = BTreeSet::new();
        for rule in &self.0 {
            if rule.non_resource_urls.is_empty() {
                let key = (rule.api_groups.clone(), rule.resources.clone(), rule.resource_names.clone());
                match simple.get_mut(&key) {
                    Some(known) => known.verbs.extend(rule.verbs.iter().cloned()),
                    None => _ = simple.insert(key, rule.clone()),
                }
            } else {
                lines.insert(line(rule));
            }
        }
        lines.extend(simple.values().map(line));
        lines.into_iter().collect()
    }
}

fn line(rule: &PolicyRule) -> String {
    let parts = [
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.non_resource_urls),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(_, l)| !l.is_empty()).map(|(n, l)| format!("{n}:{}", quoted_list(l))).collect();
    format!("{{{}}}", parts.join(", "))
}

fn atoms(rule: &PolicyRule) -> Vec<PolicyRule> {
    let one = |item: &String| vec![item.clone()];
    let mut out = Vec::new();
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let atom = PolicyRule {
                    verbs: one(verb),
                    api_groups: one(group),
                    resources: one(resource),
                    ..PolicyRule::default()
                };
                if rule.resource_names.is_empty() {
                    out.push(atom);
                } else {
                    out.extend(
                        rule.resource_names.iter().map(|n| PolicyRule { resource_names: one(n), ..atom.clone() }),
                    );
                }
            }
        }
    }
    for url in &rule.non_resource_urls {
        for verb in &rule.verbs {
            out.push(PolicyRule { verbs: one(verb), non_resource_urls: one(url), ..PolicyRule::default() });
        }
    }
    out
}

fn covers_atom(held: &PolicyRule, atom: &PolicyRule) -> bool {
    let all =
        |set: &[String], wanted: &[String]| set.iter().any(|s| s == "*") || wanted.iter().all(|w| set.contains(w));
    let names = held.resource_names.is_empty()
        || (!atom.resource_names.is_empty() && atom.resource_names.iter().all(|n| held.resource_names.contains(n)));
    let resources = all(&held.resources, &atom.resources)
        || atom.resources.iter().all(|wanted| {
            held.resources.contains(wanted)
                || wanted.split_once('/').is_some_and(|(_, sub)| held.resources.contains(&format!("*/{sub}")))
        });
    let urls =
        atom.non_resource_urls.iter().all(|url| held.non_resource_urls.iter().any(|have| matches_url(have, url)));
    all(&held.verbs, &atom.verbs) && all(&held.api_groups, &atom.api_groups) && resources && names && urls
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(verbs: &[&str], groups: &[&str], resources: &[&str]) -> PolicyRule {
        let list = |items: &[&str]| items.iter().map(ToString::to_string).collect();
        PolicyRule { verbs: list(verbs), api_groups: list(groups), resources: list(resources), ..PolicyRule::default() }
    }

    #[test]
    fn what_is_held_may_be_given() {
        let held = [rule(&["get", "list"], &[""], &["pods", "*/scale"]), rule(&["*"], &["apps"], &["*"])];
        assert_eq!(
            covers(&held, &[rule(&["list"], &[""], &["pods"]), rule(&["create"], &["apps"], &["deployments"])]),
            Ok(())
        );
        assert_eq!(covers(&held, &[rule(&["get"], &[""], &["replicationcontrollers/scale"])]), Ok(()));
    }

    #[test]
    fn what_is_missing_reads_like_upstream() {
        let missing = covers(&[], &[rule(&["get", "list"], &[""], &["secrets"])]).unwrap_err();
        assert_eq!(missing.lines(), [r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}"#]);
    }
}
