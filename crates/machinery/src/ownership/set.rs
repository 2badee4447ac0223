//! A set of field paths.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Element {
    /// A field of an object, or a key of a map.
    Field(String),
    /// An item of a list, known by the values of its keys: the keys and their values as JSON, sorted.
    Key(Vec<(String, String)>),
    /// An item of a set, by its value as JSON.
    Value(String),
    /// An item of a list, by its place.
    Index(usize),
}

/// A set of field paths. A path may be a member and lead to others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Set {
    /// The paths that end here.
    pub members: BTreeSet<Element>,
    /// The paths that go on.
    pub children: BTreeMap<Element, Set>,
}

// === impl Element ===

impl Element {
    /// A field.
    pub fn field(name: &str) -> Self {
        Self::Field(name.to_owned())
    }

    /// The item of a list whose items are known by these keys; `None` if it lacks one of them.
    pub fn keyed(item: &Value, keys: &[Box<str>]) -> Option<Self> {
        let mut pairs = Vec::with_capacity(keys.len());
        for key in keys {
            pairs.push((key.to_string(), item.get(&**key)?.to_string()));
        }
        pairs.sort();
        Some(Self::Key(pairs))
    }
}

// === impl Set ===

impl Set {
    /// The set of these paths, each a list of field names.
    pub fn of(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(&path.iter().map(|name| Element::field(name)).collect::<Vec<_>>());
        }
        set
    }

    /// Adds a path.
    pub fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => _ = self.members.insert(last.clone()),
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Whether it holds no path.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(Self::is_empty)
    }

    /// The paths of both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.members.extend(other.members.iter().cloned());
        for (element, set) in &other.children {
            let merged = out.children.get(element).map_or_else(|| set.clone(), |own| own.union(set));
            out.children.insert(element.clone(), merged);
        }
        out
    }

    /// The paths without those of the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let members = self.members.difference(&other.members).cloned().collect();
        let keep = |(element, set): (&Element, &Self)| {
            let left = other.children.get(element).map_or_else(|| set.clone(), |taken| set.difference(taken));
            (!left.is_empty()).then(|| (element.clone(), left))
        };
        Self { members, children: self.children.iter().filter_map(keep).collect() }
    }

    /// The paths that neither are in the other nor lie below one that is.
    #[must_use]
    pub fn without_trees(&self, other: &Self) -> Self {
        let members = self.members.difference(&other.members).cloned().collect();
        let keep = |(element, set): (&Element, &Self)| {
            if other.members.contains(element) {
                return None;
            }
            let left = other.children.get(element).map_or_else(|| set.clone(), |taken| set.without_trees(taken));
            (!left.is_empty()).then(|| (element.clone(), left))
        };
        Self { members, children: self.children.iter().filter_map(keep).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_goes_as_a_whole() {
        let set = Set::of(&[&["spec"], &["spec", "a"], &["spec", "b", "c"], &["status", "x"], &["data"]]);
        assert_eq!(
            set.without_trees(&Set::of(&[&["spec", "b"], &["status"]])),
            Set::of(&[&["spec"], &["spec", "a"], &["data"]])
        );
        assert_eq!(
            set.difference(&Set::of(&[&["spec"]])),
            Set::of(&[&["spec", "a"], &["spec", "b", "c"], &["status", "x"], &["data"]])
        );
        let empty = set.difference(&set);
        assert!(empty.is_empty());
        assert_eq!(empty.union(&set), set);
    }
}
