//! A table's content, and the scripts that make it: whole, or as the difference to what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The part of the table that depends on Services; the rest is fixed when the proxy starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ruleset {
    /// Rules by chain.
    pub chains: BTreeMap<String, Vec<String>>,
    /// Sets that packets fill (session affinity), with their definitions.
    pub dynamic_sets: BTreeMap<String, String>,
    /// Elements by set or map: key, and verdict if it is a map.
    pub elements: BTreeMap<&'static str, BTreeMap<String, String>>,
}

impl Ruleset {
    /// Puts an element into a map.
    pub(crate) fn map(&mut self, map: &'static str, key: String, verdict: impl Into<String>) {
        self.elements.entry(map).or_default().insert(key, verdict.into());
    }

    /// Puts an element into a set.
    pub(crate) fn set(&mut self, set: &'static str, key: String) {
        self.elements.entry(set).or_default().insert(key, String::new());
    }

    /// Adds a chain.
    pub(crate) fn chain(&mut self, name: &str, rules: Vec<String>) {
        self.chains.insert(name.to_owned(), rules);
    }
}

/// A script that makes the table anew with `base` and `wanted`, in one transaction: no packet sees it half made.
#[must_use]
pub fn rewrite(table: &str, base: &[String], wanted: &Ruleset) -> String {
    // Adding before deleting: deleting a table that is not there would fail.
    let mut script = format!("add table ip {table}\ndelete table ip {table}\nadd table ip {table}\n");
    for command in base {
        let _ = writeln!(script, "{command}");
    }
    script += &update(table, &Ruleset::default(), wanted);
    script
}

/// A script that makes `wanted` of a table that holds `present`; empty if they are the same.
#[must_use]
pub fn update(table: &str, present: &Ruleset, wanted: &Ruleset) -> String {
    let mut script = String::new();
    for (name, definition) in wanted.dynamic_sets.iter().filter(|(name, _)| !present.dynamic_sets.contains_key(*name)) {
        let _ = writeln!(script, "add set ip {table} {name} {definition}");
    }
    // All chains before any rule, for rules jump to them.
    let changed: Vec<_> =
        wanted.chains.iter().filter(|(name, rules)| present.chains.get(*name) != Some(rules)).collect();
    for (name, _) in &changed {
        let command = if present.chains.contains_key(*name) { "flush" } else { "add" };
        let _ = writeln!(script, "{command} chain ip {table} {name}");
    }
    for (name, rules) in &changed {
        for rule in *rules {
            let _ = writeln!(script, "add rule ip {table} {name} {rule}");
        }
    }
    let containers: BTreeSet<_> = present.elements.keys().chain(wanted.elements.keys()).collect();
    let empty = BTreeMap::new();
    for container in containers {
        let old = present.elements.get(container).unwrap_or(&empty);
        let new = wanted.elements.get(container).unwrap_or(&empty);
        let gone = old.iter().filter(|(key, verdict)| new.get(*key) != Some(verdict));
        elements(&mut script, "delete", table, container, gone);
        let come = new.iter().filter(|(key, verdict)| old.get(*key) != Some(verdict));
        elements(&mut script, "add", table, container, come);
    }
    // By now nothing refers to what is no longer wanted, except chains among themselves.
    let unwanted: Vec<_> = present.chains.keys().filter(|name| !wanted.chains.contains_key(*name)).collect();
    for name in &unwanted {
        let _ = writeln!(script, "flush chain ip {table} {name}");
    }
    for name in &unwanted {
        let _ = writeln!(script, "delete chain ip {table} {name}");
    }
    for name in present.dynamic_sets.keys().filter(|name| !wanted.dynamic_sets.contains_key(*name)) {
        let _ = writeln!(script, "delete set ip {table} {name}");
    }
    script
}

fn elements<'a>(
    script: &mut String,
    command: &str,
    table: &str,
    container: &str,
    elements: impl Iterator<Item = (&'a String, &'a String)>,
) {
    let list: Vec<String> = elements
        .map(|(key, verdict)| match (command, verdict.as_str()) {
            ("add", verdict) if !verdict.is_empty() => format!("{key} : {verdict}"),
            _ => key.clone(),
        })
        .collect();
    if !list.is_empty() {
        let _ = writeln!(script, "{command} element ip {table} {container} {{ {} }}", list.join(", "));
    }
}
