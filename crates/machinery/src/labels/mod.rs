//! Label selectors: as text (`app=web,tier in (a,b),!old`) and as the `LabelSelector` of objects.

mod parser;
mod validate;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use crate::field::{self, ErrorList};
use crate::go::quote;
use crate::path::Path;
use crate::{Error, names, tree};

pub use validate::{Options, validate_label_name, validate_labels, validate_selector};

/// Which objects are meant, by their labels. All terms must hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Selector {
    /// `None` is the selector that matches nothing.
    terms: Option<Vec<Requirement>>,
}

/// One term of a [`Selector`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// What must be true of it.
    pub operator: Operator,
    /// The values that the operator compares with, sorted.
    pub values: Vec<String>,
}

/// What must be true of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `=`: the label is there and has the value.
    Equals,
    /// `==`: the same.
    DoubleEquals,
    /// `!=`: the label is not there or has another value.
    NotEquals,
    /// `in`: the label is there and has one of the values.
    In,
    /// `notin`: the label is not there or has none of the values.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is not there.
    DoesNotExist,
    /// `>`: the label is a number above the value.
    GreaterThan,
    /// `<`: the label is a number below the value.
    LessThan,
}

/// Where labels are looked up.
pub trait Labels {
    /// The value of one label.
    fn lookup(&self, key: &str) -> Option<&str>;
}

impl Labels for BTreeMap<String, String> {
    fn lookup(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

impl Labels for Map<String, Value> {
    fn lookup(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }
}

impl<L: Labels> Labels for Option<L> {
    fn lookup(&self, key: &str) -> Option<&str> {
        self.as_ref()?.lookup(key)
    }
}

impl<L: Labels + ?Sized> Labels for &L {
    fn lookup(&self, key: &str) -> Option<&str> {
        (**self).lookup(key)
    }
}

// === impl Operator ===

impl Operator {
    /// The operator of a `matchExpressions` entry.
    pub fn from_expression(name: &str) -> Option<Self> {
        match name {
            "In" => Some(Self::In),
            "NotIn" => Some(Self::NotIn),
            "Exists" => Some(Self::Exists),
            "DoesNotExist" => Some(Self::DoesNotExist),
            _ => None,
        }
    }
}

// === impl Requirement ===

impl Requirement {
    /// A term, checked; paths in errors start at `path`.
    pub fn new(key: &str, operator: Operator, values: Vec<String>, path: &Path) -> Result<Self, ErrorList> {
        let mut errors = ErrorList::new();
        errors.extend(label_key_error(key, &path.child("key")));
        let values_path = path.child("values");
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                errors.push(field::invalid(
                    &values_path,
                    &values,
                    "for 'in', 'notin' operators, values set can't be empty",
                ));
            }
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if values.len() != 1 => {
                errors.push(field::invalid(
                    &values_path,
                    &values,
                    "exact-match compatibility requires one single value",
                ));
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                errors.push(field::invalid(
                    &values_path,
                    &values,
                    "values set must be empty for exists and does not exist",
                ));
            }
            Operator::GreaterThan | Operator::LessThan => {
                if values.len() != 1 {
                    let detail = "for 'Gt', 'Lt' operators, exactly one value is required";
                    errors.push(field::invalid(&values_path, &values, detail));
                }
                for (i, value) in values.iter().enumerate().filter(|(_, value)| value.parse::<i64>().is_err()) {
                    let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                    errors.push(field::invalid(&values_path.index(i), value, detail));
                }
            }
            _ => {}
        }
        for (i, value) in values.iter().enumerate() {
            let wrong = names::is_label_value(value);
            if !wrong.is_empty() {
                errors.push(field::invalid(&values_path.index(i).key(key), value, wrong.join("; ")));
            }
        }
        if errors.is_empty() { Ok(Self { key: key.to_owned(), operator, values }) } else { Err(errors) }
    }

    /// Whether it is true of these labels.
    pub fn matches<L: Labels + ?Sized>(&self, labels: &L) -> bool {
        let found = labels.lookup(&self.key);
        let has_value = |value: &str| self.values.iter().any(|own| own == value);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => found.is_some_and(has_value),
            Operator::NotIn | Operator::NotEquals => !found.is_some_and(has_value),
            Operator::Exists => found.is_some(),
            Operator::DoesNotExist => found.is_none(),
            Operator::GreaterThan => self.compared(found).is_some_and(|(label, bound)| label > bound),
            Operator::LessThan => self.compared(found).is_some_and(|(label, bound)| label < bound),
        }
    }

    fn compared(&self, found: Option<&str>) -> Option<(i64, i64)> {
        match self.values.as_slice() {
            [bound] => Some((found?.parse().ok()?, bound.parse().ok()?)),
            _ => None,
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let mut values = self.values.clone();
        values.sort_unstable();
        let values = values.join(",");
        match self.operator {
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
        }
    }
}

// === impl Selector ===

impl Selector {
    /// The selector that every object matches.
    pub fn everything() -> Self {
        Self { terms: Some(Vec::new()) }
    }

    /// The selector that no object matches.
    pub fn nothing() -> Self {
        Self { terms: None }
    }

    /// A selector of these terms.
    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { terms: Some(requirements) }
    }

    /// Reads a selector as it stands in a URL or on a command line.
    pub fn parse(text: &str) -> Result<Self, Error> {
        parser::parse(text).map(Self::new)
    }

    /// The selector of a map: every label equal. No map, or an empty one, matches everything.
    pub fn from_map<'a>(labels: impl IntoIterator<Item = (&'a String, &'a String)>) -> Self {
        let equal = |(key, value): (&String, &String)| Requirement {
            key: key.clone(),
            operator: Operator::Equals,
            values: vec![value.clone()],
        };
        Self::new(labels.into_iter().map(equal).collect())
    }

    /// The selector of a `LabelSelector` object: null matches nothing, an empty one everything.
    pub fn from_label_selector(selector: &Value) -> Result<Self, Error> {
        if selector.is_null() {
            return Ok(Self::nothing());
        }
        let refused = |errors: ErrorList| Error::Selector(field::aggregate(&errors));
        let mut terms = Vec::new();
        for (key, value) in tree::map(selector, &["matchLabels"]).into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            terms.push(Requirement::new(key, Operator::Equals, vec![value], &Path::nil()).map_err(refused)?);
        }
        for expression in tree::list(selector, &["matchExpressions"]) {
            let name = tree::text(expression, &["operator"]);
            let operator = Operator::from_expression(name)
                .ok_or_else(|| Error::Selector(format!("{} is not a valid label selector operator", quote(name))))?;
            let values =
                tree::list(expression, &["values"]).iter().filter_map(Value::as_str).map(str::to_owned).collect();
            let key = tree::text(expression, &["key"]);
            terms.push(Requirement::new(key, operator, values, &Path::nil()).map_err(refused)?);
        }
        Ok(Self::new(terms))
    }

    /// Whether an object with these labels matches.
    pub fn matches<L: Labels + ?Sized>(&self, labels: &L) -> bool {
        self.terms.as_ref().is_some_and(|terms| terms.iter().all(|term| term.matches(labels)))
    }

    /// Whether every object matches.
    pub fn is_empty(&self) -> bool {
        self.terms.as_ref().is_some_and(Vec::is_empty)
    }

    /// The terms, sorted by key; none where nothing matches.
    pub fn requirements(&self) -> &[Requirement] {
        self.terms.as_deref().unwrap_or_default()
    }

    /// The same with more terms.
    #[must_use]
    pub fn and(self, more: impl IntoIterator<Item = Requirement>) -> Self {
        match self.terms {
            None => self,
            Some(mut terms) => {
                terms.extend(more);
                Self::new(terms)
            }
        }
    }

    /// The value that a label must have to match, if there is one.
    pub fn requires_exact(&self, key: &str) -> Option<&str> {
        let term = self.requirements().iter().find(|term| term.key == key)?;
        match (term.operator, term.values.as_slice()) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [value]) => Some(value),
            _ => None,
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, term) in self.requirements().iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            write!(f, "{comma}{term}")?;
        }
        Ok(())
    }
}

fn label_key_error(key: &str, path: &Path) -> Option<field::Error> {
    let wrong = names::is_qualified_name(key);
    (!wrong.is_empty()).then(|| field::invalid(path, key, wrong.join("; ")))
}

#[cfg(test)]
mod tests;
