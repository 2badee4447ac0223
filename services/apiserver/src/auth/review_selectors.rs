//! The selectors in a review of access: what is wrong with them, and what of them counts.
//!
//! What can't be understood is left out, which makes the question a broader one, and the answer says so.

use serde_json::{Value, json};
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::path::Path;
use trireme_machinery::{fields, labels, names};

use super::attributes::FieldEquals;

const LIST_OPERATORS: &str = "must be specified when `operator` is 'In' or 'NotIn'";
const BARE_OPERATORS: &str = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";

/// What is wrong with both selectors of `spec.resourceAttributes`.
pub(super) fn validate(attributes: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let at = Path::new("spec.resourceAttributes");
    for (name, of_labels) in [("fieldSelector", false), ("labelSelector", true)] {
        let selector = &attributes[name];
        if selector.is_null() {
            continue;
        }
        let path = at.child(name);
        let (raw, requirements) = (text(selector, "rawSelector"), list(selector, "requirements"));
        if !raw.is_empty() && !requirements.is_empty() {
            let why = "may not specified at the same time as requirements";
            errors.push(field::invalid(&path.child("rawSelector"), raw, why));
        }
        if raw.is_empty() && requirements.is_empty() {
            let why = format!("when {path} is specified, requirements or rawSelector is required");
            errors.push(field::required(&path.child("requirements"), why));
        }
        for (i, requirement) in requirements.iter().enumerate() {
            check(requirement, of_labels, &path.child("requirements").index(i), &mut errors);
        }
    }
    errors
}

fn check(requirement: &Value, of_labels: bool, at: &Path, errors: &mut ErrorList) {
    let (key, values) = (text(requirement, "key"), list(requirement, "values"));
    if !of_labels && key.is_empty() {
        errors.push(field::required(&at.child("key"), "must be specified"));
    }
    // Operators that only newer clients know are let through.
    match text(requirement, "operator") {
        "In" | "NotIn" if values.is_empty() => errors.push(field::required(&at.child("values"), LIST_OPERATORS)),
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.push(field::forbidden(&at.child("values"), BARE_OPERATORS));
        }
        _ => {}
    }
    if !of_labels {
        return;
    }
    errors.extend(names::is_qualified_name(key).into_iter().map(|why| field::invalid(&at.child("key"), key, why)));
    for (i, value) in values.iter().enumerate() {
        let (value, path) = (value.as_str().unwrap_or_default(), at.child("values").index(i));
        errors.extend(names::is_label_value(value).into_iter().map(|why| field::invalid(&path, value, why)));
    }
}

/// What the field selector asks for with certainty, and what could not be understood of both selectors.
pub(super) fn read(attributes: &Value) -> (Vec<FieldEquals>, Option<String>) {
    let (equal, fields) = read_fields(&attributes["fieldSelector"]);
    let told = [("fieldSelector", fields), ("labelSelector", read_labels(&attributes["labelSelector"]))];
    let told: Vec<String> = told
        .into_iter()
        .filter_map(|(name, understood)| {
            let how = match understood {
                Understood::All => return None,
                Understood::Some => "partially ignored",
                Understood::Nothing => "ignored",
            };
            Some(format!("spec.resourceAttributes.{name} {how} due to parse error"))
        })
        .collect();
    (equal, (!told.is_empty()).then(|| told.join("; ")))
}

/// How much of a selector was understood.
enum Understood {
    All,
    Some,
    Nothing,
}

impl Understood {
    fn of(understood: usize, all: usize) -> Self {
        match understood {
            n if n == all => Self::All,
            0 => Self::Nothing,
            _ => Self::Some,
        }
    }
}

fn read_fields(selector: &Value) -> (Vec<FieldEquals>, Understood) {
    let requirements = list(selector, "requirements");
    if requirements.is_empty() {
        let Ok(parsed) = fields::Selector::parse(text(selector, "rawSelector")) else {
            return (Vec::new(), Understood::Nothing);
        };
        let equal = parsed.requirements().iter().filter(|term| term.operator == fields::Operator::Equals);
        let equal = equal.map(|term| FieldEquals { field: term.field.clone(), value: term.value.clone() });
        return (equal.collect(), Understood::All);
    }
    let (mut equal, mut understood) = (Vec::new(), 0);
    for requirement in requirements {
        let [value] = list(requirement, "values") else { continue };
        let value = value.as_str().unwrap_or_default().to_owned();
        match text(requirement, "operator") {
            "In" => equal.push(FieldEquals { field: text(requirement, "key").to_owned(), value }),
            "NotIn" => {}
            _ => continue,
        }
        understood += 1;
    }
    (equal, Understood::of(understood, requirements.len()))
}

fn read_labels(selector: &Value) -> Understood {
    let requirements = list(selector, "requirements");
    if requirements.is_empty() {
        let parsed = labels::Selector::parse(text(selector, "rawSelector"));
        return if parsed.is_ok() { Understood::All } else { Understood::Nothing };
    }
    let good = |requirement: &&Value| {
        let alone = json!({"matchExpressions": [requirement]});
        labels::Selector::from_label_selector(&alone).is_ok()
    };
    Understood::of(requirements.iter().filter(good).count(), requirements.len())
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(attributes: Value) -> Vec<String> {
        validate(&attributes).iter().map(ToString::to_string).collect()
    }

    /// As kube-apiserver 1.37 refuses them.
    #[test]
    fn empty_and_nameless_selectors_are_refused() {
        assert_eq!(
            wrong(json!({"fieldSelector": {}})),
            ["spec.resourceAttributes.fieldSelector.requirements: Required value: when \
                 spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required"]
        );
        assert_eq!(
            wrong(json!({"fieldSelector": {"requirements": [{"operator": "a"}]}})),
            ["spec.resourceAttributes.fieldSelector.requirements[0].key: Required value: must be specified"]
        );
        assert_eq!(wrong(json!({"labelSelector": {"requirements": [{}]}})).len(), 2);
        assert!(wrong(json!({"labelSelector": {"rawSelector": "a=b"}})).is_empty());
    }

    #[test]
    fn what_is_not_understood_is_left_out_and_told() {
        let (equal, told) = read(&json!({
            "fieldSelector": {"requirements": [
                {"key": "spec.nodeName", "operator": "In", "values": ["n1"]},
                {"key": "a", "operator": "Exists"},
            ]},
            "labelSelector": {"rawSelector": "Bad_Value!"},
        }));
        assert_eq!(equal.len(), 1);
        assert_eq!(
            told.unwrap(),
            "spec.resourceAttributes.fieldSelector partially ignored due to parse error; \
             spec.resourceAttributes.labelSelector ignored due to parse error"
        );
        assert!(read(&json!({"fieldSelector": {"rawSelector": "spec.nodeName=n1"}})).1.is_none());
        assert!(read(&Value::Null).1.is_none());
    }
}
