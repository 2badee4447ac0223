//! On which nodes a pod may be: what tolerates a taint, what a node selector means.
//!
//! Whoever makes pods for nodes and whoever places them must agree on this to the letter, or pods are made that never
//! start.

use std::collections::{BTreeMap, BTreeSet};

use crate::labels::{Operator, Requirement};
use crate::path::Path;

/// The effect that keeps new pods off a node.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// The effect that also makes pods go.
pub const NO_EXECUTE: &str = "NoExecute";
/// The effect that only counts against a node.
pub const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";

/// A taint of a node; what is not set is empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct Taint<'a> {
    /// Its key.
    pub key: &'a str,
    /// Its value.
    pub value: &'a str,
    /// What it does to pods.
    pub effect: &'a str,
}

/// A toleration of a pod; what is not set is empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct Toleration<'a> {
    /// The key of the taints that it is about; empty: all.
    pub key: &'a str,
    /// How the values are compared; empty: they must be equal.
    pub operator: &'a str,
    /// What the taint's value is compared with.
    pub value: &'a str,
    /// The effect of the taints that it is about; empty: all.
    pub effect: &'a str,
}

impl Taint<'_> {
    /// Whether it keeps pods off that do not tolerate it.
    #[must_use]
    pub fn is_hard(&self) -> bool {
        self.effect == NO_SCHEDULE || self.effect == NO_EXECUTE
    }
}

impl Toleration<'_> {
    /// Whether the taint is nothing to a pod that has this.
    #[must_use]
    pub fn tolerates(&self, taint: Taint<'_>) -> bool {
        if (!self.effect.is_empty() && self.effect != taint.effect) || (!self.key.is_empty() && self.key != taint.key) {
            return false;
        }
        let numbers = || Some((taint.value.parse::<i64>().ok()?, self.value.parse::<i64>().ok()?));
        match self.operator {
            "" | "Equal" => self.value == taint.value,
            "Exists" => true,
            "Lt" => numbers().is_some_and(|(found, bound)| found < bound),
            "Gt" => numbers().is_some_and(|(found, bound)| found > bound),
            _ => false,
        }
    }
}

/// One requirement of a term of a node selector.
#[derive(Debug, Clone, Copy)]
pub struct Expression<'a> {
    /// A label or a field.
    pub key: &'a str,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
    pub operator: &'a str,
    /// What the operator needs.
    pub values: &'a [String],
}

/// A term of a node selector; all its parts must hold. One that is empty, or cannot be read, means no node.
#[derive(Debug, Clone)]
pub struct NodeTerm {
    labels: Vec<Requirement>,
    /// Names, and whether the node must have one of them.
    names: Vec<(bool, BTreeSet<String>)>,
    matches_nothing: bool,
}

impl NodeTerm {
    /// The term of these expressions over labels and over fields.
    #[must_use]
    pub fn new<'a>(
        expressions: impl IntoIterator<Item = Expression<'a>>,
        fields: impl IntoIterator<Item = Expression<'a>>,
    ) -> Self {
        let mut term = Self { labels: Vec::new(), names: Vec::new(), matches_nothing: false };
        for expression in expressions {
            match requirement(expression) {
                Some(requirement) => term.labels.push(requirement),
                None => term.matches_nothing = true,
            }
        }
        for field in fields {
            let names = field.values.iter().cloned().collect();
            match (field.key, field.operator) {
                ("metadata.name", "In") => term.names.push((true, names)),
                ("metadata.name", "NotIn") => term.names.push((false, names)),
                _ => term.matches_nothing = true,
            }
        }
        term.matches_nothing |= term.labels.is_empty() && term.names.is_empty();
        term
    }

    /// Whether the node is one that the term means.
    #[must_use]
    pub fn matches(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        !self.matches_nothing
            && self.labels.iter().all(|requirement| requirement.matches(labels))
            && self.names.iter().all(|(included, names)| names.contains(name) == *included)
    }

    /// It means no node at all.
    #[must_use]
    pub fn matches_nothing(&self) -> bool {
        self.matches_nothing
    }

    /// The only nodes that it can mean, if it names any.
    #[must_use]
    pub fn named(&self) -> Option<BTreeSet<String>> {
        let mut named = self.names.iter().filter(|(included, _)| *included).map(|(_, names)| names.clone());
        let first = named.next()?;
        Some(named.fold(first, |left, right| &left & &right))
    }
}

fn requirement(expression: Expression<'_>) -> Option<Requirement> {
    let operator = match expression.operator {
        "Gt" => Operator::GreaterThan,
        "Lt" => Operator::LessThan,
        other => Operator::from_expression(other)?,
    };
    Requirement::new(expression.key, operator, expression.values.to_vec(), &Path::nil()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tolerates(toleration: [&str; 4]) -> bool {
        let [key, operator, value, effect] = toleration;
        let taint = Taint { key: "k", value: "5", effect: NO_SCHEDULE };
        Toleration { key, operator, value, effect }.tolerates(taint)
    }

    #[test]
    fn key_operator_value_and_effect_count() {
        assert!(tolerates(["", "Exists", "", ""]));
        assert!(!tolerates(["k", "Exists", "", NO_EXECUTE]));
        assert!(!tolerates(["other", "Exists", "", ""]));
        assert!(tolerates(["k", "", "5", NO_SCHEDULE]) && tolerates(["k", "Equal", "5", ""]));
        assert!(!tolerates(["k", "", "6", ""]));
        // Without a key the value alone decides.
        assert!(tolerates(["", "Equal", "5", ""]) && !tolerates(["", "", "6", ""]));
        assert!(tolerates(["k", "Lt", "6", ""]) && !tolerates(["k", "Gt", "6", ""]) && tolerates(["k", "Gt", "4", ""]));
        assert!(!tolerates(["k", "Lt", "six", ""]) && !tolerates(["k", "else", "5", ""]));
    }

    fn matches(expressions: &[(&str, &str, &[&str])], fields: &[(&str, &str, &[&str])]) -> bool {
        let owned = |all: &[(&str, &str, &[&str])]| -> Vec<(String, String, Vec<String>)> {
            let values = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
            all.iter().map(|(k, o, v)| ((*k).to_owned(), (*o).to_owned(), values(v))).collect()
        };
        let (expressions, fields) = (owned(expressions), owned(fields));
        fn of((key, operator, values): &(String, String, Vec<String>)) -> Expression<'_> {
            Expression { key, operator, values }
        }
        let labels = BTreeMap::from([("disk".to_owned(), "ssd".to_owned()), ("cpus".to_owned(), "8".to_owned())]);
        NodeTerm::new(expressions.iter().map(of), fields.iter().map(of)).matches("n1", &labels)
    }

    #[test]
    fn a_term_means_the_nodes_of_which_all_of_it_is_true() {
        assert!(matches(&[("disk", "In", &["hdd", "ssd"])], &[("metadata.name", "In", &["n1"])]));
        assert!(!matches(&[("disk", "NotIn", &["ssd"])], &[]));
        assert!(matches(&[("gpu", "DoesNotExist", &[]), ("gpu", "NotIn", &["a"])], &[]));
        assert!(matches(&[("cpus", "Gt", &["4"]), ("cpus", "Lt", &["9"])], &[]));
        assert!(!matches(&[], &[("metadata.name", "NotIn", &["n1"])]));
    }

    #[test]
    fn an_empty_or_unreadable_term_means_no_node() {
        assert!(!matches(&[], &[]));
        assert!(!matches(&[("disk", "In", &[])], &[]));
        assert!(!matches(&[("cpus", "Gt", &["four"])], &[]));
        assert!(!matches(&[("disk", "Exists", &[])], &[("metadata.uid", "In", &["x"])]));
    }

    #[test]
    fn a_term_can_name_its_nodes() {
        let names = |text: &[&str]| text.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let (left, right) = (names(&["a", "b"]), names(&["b", "c"]));
        let field = |values| Expression { key: "metadata.name", operator: "In", values };
        let term = NodeTerm::new([], [field(&left), field(&right)]);
        assert_eq!(term.named(), Some(BTreeSet::from(["b".to_owned()])));
        assert_eq!(NodeTerm::new([], []).named(), None);
    }
}
