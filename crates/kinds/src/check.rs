//! What validation is written in: a value with its path, and the few things that are said of most fields.

use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::go;
use trireme_machinery::labels::{Options, validate_selector};
use trireme_machinery::names;
use trireme_machinery::path::Path;
use trireme_machinery::quantity::Quantity;

static NULL: Value = Value::Null;

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Node<'a> {
    /// The value, `null` if there is none.
    pub(crate) value: &'a Value,
    /// Where it stands.
    pub(crate) path: Path,
}

impl<'a> Node<'a> {
    /// The field `name` of an object.
    pub(crate) fn of(obj: &'a Value, name: &str) -> Self {
        Self { value: obj.get(name).unwrap_or(&NULL), path: Path::new(name) }
    }

    /// The object itself, whose fields have no parent.
    pub(crate) fn root(obj: &'a Value) -> Self {
        Self { value: obj, path: Path::nil() }
    }

    /// The field `key`, given or not.
    pub(crate) fn get(&self, key: &str) -> Node<'a> {
        Node { value: self.value.get(key).unwrap_or(&NULL), path: self.path.child(key) }
    }

    /// The field `key`, if it is given.
    pub(crate) fn given(&self, key: &str) -> Option<Node<'a>> {
        let node = self.get(key);
        (!node.value.is_null()).then_some(node)
    }

    /// Whether the field is given.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.value.get(key).is_some_and(|v| !v.is_null())
    }

    /// The items of the list `key`.
    pub(crate) fn list(&self, key: &str) -> Vec<Node<'a>> {
        self.get(key).items()
    }

    /// The items of this list.
    pub(crate) fn items(&self) -> Vec<Node<'a>> {
        let items = self.value.as_array().map_or(&[] as &[Value], Vec::as_slice);
        items.iter().enumerate().map(|(i, value)| Node { value, path: self.path.index(i) }).collect()
    }

    /// The entries of the map `key`, in the order of its keys; each stands at `key[entry]`.
    pub(crate) fn entries(&self, key: &str) -> Vec<(&'a str, Node<'a>)> {
        let node = self.get(key);
        let map = node.value.as_object();
        map.into_iter().flatten().map(|(k, value)| (k.as_str(), Node { value, path: node.path.key(k) })).collect()
    }

    /// The text of the field `key`, empty if there is none.
    pub(crate) fn str(&self, key: &str) -> &'a str {
        self.value.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    /// This text, empty if it is none.
    pub(crate) fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    /// The number of the field `key`, 0 if there is none.
    pub(crate) fn int(&self, key: &str) -> i64 {
        self.opt_int(key).unwrap_or_default()
    }

    /// The number of the field `key`, if there is one.
    pub(crate) fn opt_int(&self, key: &str) -> Option<i64> {
        self.value.get(key).and_then(Value::as_i64)
    }

    /// Whether the field `key` is `true`.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.value.get(key) == Some(&Value::Bool(true))
    }

    /// Whether the field is absent, `false`, 0, or an empty text, list or map.
    pub(crate) fn is_empty(&self, key: &str) -> bool {
        self.value.get(key).is_none_or(trireme_machinery::schema::zero::is_empty)
    }

    // === what is said of most fields ===

    /// The field must not be empty.
    pub(crate) fn required(&self, key: &str, errors: &mut ErrorList) -> bool {
        self.required_as(key, "", errors)
    }

    /// The field must not be empty, and this is why.
    pub(crate) fn required_as(&self, key: &str, why: &str, errors: &mut ErrorList) -> bool {
        let missing = self.is_empty(key);
        if missing {
            errors.push(field::required(&self.path.child(key), why));
        }
        !missing
    }

    /// The field, if given, must be one of these.
    pub(crate) fn one_of(&self, key: &str, supported: &[&str], errors: &mut ErrorList) {
        if let Some(node) = self.given(key)
            && !supported.contains(&node.text())
        {
            errors.push(field::not_supported(&node.path, &node.text(), supported));
        }
    }

    /// The field must be given.
    pub(crate) fn required_one_given(&self, key: &str, errors: &mut ErrorList) {
        if !self.has(key) {
            errors.push(field::required(&self.path.child(key), ""));
        }
    }

    /// The field must be given and one of these; an empty one is required.
    pub(crate) fn required_one_of(&self, key: &str, supported: &[&str], errors: &mut ErrorList) {
        if self.required(key, errors) {
            self.one_of(key, supported, errors);
        }
    }

    /// The field must be one of these, even if it is empty.
    pub(crate) fn always_one_of(&self, key: &str, supported: &[&str], errors: &mut ErrorList) {
        let text = self.str(key);
        if !supported.contains(&text) {
            errors.push(field::not_supported(&self.path.child(key), &text, supported));
        }
    }

    /// The text of the field must obey a rule about names.
    pub(crate) fn named(&self, key: &str, rule: fn(&str) -> Vec<String>, errors: &mut ErrorList) {
        let node = self.get(key);
        node.is_named(rule, errors);
    }

    /// This text must obey a rule about names.
    pub(crate) fn is_named(&self, rule: fn(&str) -> Vec<String>, errors: &mut ErrorList) {
        let text = self.text();
        errors.extend(rule(text).into_iter().map(|m| field::invalid(&self.path, text, m)));
    }

    /// The field must not be empty and obey a rule about names.
    pub(crate) fn required_name(&self, key: &str, rule: fn(&str) -> Vec<String>, errors: &mut ErrorList) {
        if self.required(key, errors) {
            self.named(key, rule, errors);
        }
    }

    /// The number must not be negative.
    pub(crate) fn nonnegative(&self, key: &str, errors: &mut ErrorList) {
        if let Some(number) = self.opt_int(key).filter(|n| *n < 0) {
            errors.push(field::invalid(&self.path.child(key), &number, NOT_NEGATIVE));
        }
    }

    /// The number, if given, must be within these bounds.
    pub(crate) fn within(&self, key: &str, low: i64, high: i64, errors: &mut ErrorList) {
        if let Some(number) = self.opt_int(key).filter(|n| !(low..=high).contains(n)) {
            errors.push(field::invalid(&self.path.child(key), &number, names::range_error(low, high)));
        }
    }

    /// The number, if given, must be a file mode.
    pub(crate) fn file_mode(&self, key: &str, errors: &mut ErrorList) {
        if let Some(mode) = self.opt_int(key).filter(|m| !(0..=0o777).contains(m)) {
            errors.push(field::invalid(
                &self.path.child(key),
                &mode,
                "must be a number between 0 and 0777 (octal), both inclusive",
            ));
        }
    }

    /// The field must not be set.
    pub(crate) fn forbidden(&self, key: &str, why: &str, errors: &mut ErrorList) {
        if self.has(key) {
            errors.push(field::forbidden(&self.path.child(key), why));
        }
    }

    /// Says that the field is invalid.
    pub(crate) fn invalid(&self, key: &str, why: impl Into<String>, errors: &mut ErrorList) {
        let node = self.get(key);
        errors.push(field::invalid(&node.path, node.value, why));
    }

    /// The label selector, if given, must be valid.
    pub(crate) fn selector(&self, key: &str, errors: &mut ErrorList) {
        let node = self.get(key);
        errors.extend(validate_selector(node.value, Options::default(), &node.path));
    }

    /// The quantity of the field, if there is one.
    pub(crate) fn quantity(&self) -> Option<Quantity> {
        self.value.as_str().and_then(|t| Quantity::parse(t).ok())
    }
}

/// What is said of a negative number.
pub(crate) const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
/// What is said of a number that is not positive.
pub(crate) const POSITIVE: &str = "must be greater than zero";
/// What is said of a field that changed and may not.
pub(crate) const IMMUTABLE: &str = "field is immutable";

/// The field must be what it was.
pub(crate) fn immutable(new: &Node<'_>, old: &Node<'_>, key: &str, errors: &mut ErrorList) {
    let (is, was) = (new.get(key), old.get(key));
    if is.value != was.value {
        errors.push(field::invalid(&is.path, is.value, IMMUTABLE));
    }
}

/// An object as Go writes it: in the order of its fields.
pub(crate) fn in_order<'a>(fields: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let fields: Vec<String> = fields.into_iter().map(|(key, text)| format!("\"{key}\":{text}")).collect();
    format!("{{{}}}", fields.join(","))
}

/// A label selector as Go writes it.
pub(crate) fn selector_in_order(selector: &Value) -> String {
    let mut fields = Vec::new();
    if selector["matchLabels"].as_object().is_some_and(|labels| !labels.is_empty()) {
        fields.push(("matchLabels", go::json(&selector["matchLabels"])));
    }
    let expressions = selector["matchExpressions"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    if !expressions.is_empty() {
        let all: Vec<String> = expressions
            .iter()
            .map(|e| {
                let text = |key: &str| go::json(&Value::from(e[key].as_str().unwrap_or_default()));
                let mut fields = vec![("key", text("key")), ("operator", text("operator"))];
                if e["values"].as_array().is_some_and(|values| !values.is_empty()) {
                    fields.push(("values", go::json(&e["values"])));
                }
                in_order(fields)
            })
            .collect();
        fields.push(("matchExpressions", format!("[{}]", all.join(","))));
    }
    in_order(fields)
}
