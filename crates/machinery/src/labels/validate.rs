//! Checks of labels and of `LabelSelector` objects.

use serde_json::{Map, Value};

use crate::field::{self, ErrorList};
use crate::path::Path;
use crate::{names, tree};

/// What a check lets pass for the sake of objects that are stored already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Values that no label can have.
    pub allow_invalid_label_value: bool,
}

/// What is wrong with a map of labels.
pub fn validate_labels(labels: Option<&Map<String, Value>>, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    for (key, value) in labels.into_iter().flatten() {
        errors.extend(validate_label_name(key, path));
        let value = value.as_str().unwrap_or_default();
        errors.extend(names::is_label_value(value).into_iter().map(|wrong| field::invalid(path, value, wrong)));
    }
    errors
}

/// What is wrong with the key of a label.
pub fn validate_label_name(name: &str, path: &Path) -> ErrorList {
    names::is_qualified_name(name).into_iter().map(|wrong| field::invalid(path, name, wrong)).collect()
}

/// What is wrong with a `LabelSelector`; null is none and fine.
pub fn validate_selector(selector: &Value, options: Options, path: &Path) -> ErrorList {
    if selector.is_null() {
        return ErrorList::new();
    }
    let mut errors = validate_labels(tree::map(selector, &["matchLabels"]), &path.child("matchLabels"));
    for (i, expression) in tree::list(selector, &["matchExpressions"]).iter().enumerate() {
        errors.extend(validate_expression(expression, options, &path.child("matchExpressions").index(i)));
    }
    errors
}

fn validate_expression(expression: &Value, options: Options, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let values = tree::list(expression, &["values"]);
    let operator = tree::text(expression, &["operator"]);
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            errors.push(field::required(&path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(field::forbidden(&path.child("values"), detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.push(field::invalid(&path.child("operator"), other, "not a valid selector operator")),
    }
    errors.extend(validate_label_name(tree::text(expression, &["key"]), &path.child("key")));
    if !options.allow_invalid_label_value {
        for (i, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            let path = path.child("values").index(i);
            errors.extend(names::is_label_value(value).into_iter().map(|wrong| field::invalid(&path, value, wrong)));
        }
    }
    errors
}
