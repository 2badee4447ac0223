//! What is wrong with where a Pod wants to run: affinities, spread, tolerations.

use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;
use trireme_machinery::path::Path;

use crate::check::{Node, POSITIVE};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn validate(affinity: &Node<'_>, errors: &mut ErrorList) {
    let node = affinity.get("nodeAffinity");
    if let Some(selector) = node.given(REQUIRED) {
        node_selector(&selector, true, errors);
    }
    for term in node.list(PREFERRED) {
        weight(&term, errors);
        node_selector_term(&term.get("preference"), false, errors);
    }
    for key in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.get(key);
        for term in pods.list(REQUIRED) {
            pod_term(&term, errors);
        }
        for term in pods.list(PREFERRED) {
            weight(&term, errors);
            pod_term(&term.get("podAffinityTerm"), errors);
        }
    }
}

fn weight(term: &Node<'_>, errors: &mut ErrorList) {
    let weight = term.int("weight");
    if !(1..=100).contains(&weight) {
        errors.push(field::invalid(&term.path.child("weight"), &weight, "must be in the range 1-100"));
    }
}

/// Of a selector of nodes; with `values` the values must be those of labels.
pub(crate) fn node_selector(selector: &Node<'_>, values: bool, errors: &mut ErrorList) {
    if selector.required_as("nodeSelectorTerms", "must have at least one node selector term", errors) {
        for term in selector.list("nodeSelectorTerms") {
            node_selector_term(&term, values, errors);
        }
    }
}

/// Of one term of a selector of nodes.
fn node_selector_term(term: &Node<'_>, values: bool, errors: &mut ErrorList) {
    for requirement in term.list("matchExpressions") {
        let given = requirement.list("values");
        let at = requirement.path.child("values");
        match requirement.str("operator") {
            "In" | "NotIn" if given.is_empty() => {
                errors.push(field::required(&at, "must be specified when `operator` is 'In' or 'NotIn'"))
            }
            "Exists" | "DoesNotExist" if !given.is_empty() => {
                errors
                    .push(field::forbidden(&at, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
            }
            "Gt" | "Lt" if given.len() != 1 => {
                errors.push(field::required(&at, "must be specified single value when `operator` is 'Lt' or 'Gt'"));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            operator => errors.push(field::invalid(
                &requirement.path.child("operator"),
                operator,
                "not a valid selector operator",
            )),
        }
        label_name(requirement.str("key"), &requirement.path.child("key"), errors);
        if values {
            given.iter().for_each(|v| v.is_named(names::is_label_value, errors));
        }
    }
    for requirement in term.list("matchFields") {
        let given = requirement.list("values");
        match requirement.str("operator") {
            "In" | "NotIn" if given.len() != 1 => {
                let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                errors.push(field::required(&requirement.path.child("values"), why));
            }
            "In" | "NotIn" => {}
            operator => errors.push(field::invalid(
                &requirement.path.child("operator"),
                operator,
                "not a valid selector operator",
            )),
        }
        match requirement.str("key") {
            "metadata.name" => given.iter().for_each(|v| v.is_named(names::is_dns1123_subdomain, errors)),
            key => errors.push(field::invalid(&requirement.path.child("key"), key, "not a valid field selector key")),
        }
    }
}

fn label_name(name: &str, at: &Path, errors: &mut ErrorList) {
    errors.extend(names::is_qualified_name(name).into_iter().map(|m| field::invalid(at, name, m)));
}

fn pod_term(term: &Node<'_>, errors: &mut ErrorList) {
    term.selector("labelSelector", errors);
    term.selector("namespaceSelector", errors);
    for namespace in term.list("namespaces") {
        let at = term.path.child("namespace");
        errors.extend(
            names::is_dns1123_label(namespace.text()).into_iter().map(|m| field::invalid(&at, namespace.text(), m)),
        );
    }
    label_keys(term, errors);
    term.required_as("topologyKey", "can not be empty", errors);
    label_name(term.str("topologyKey"), &term.path.child("topologyKey"), errors);
}

/// Keys whose values are taken from the Pod's own labels.
fn label_keys(term: &Node<'_>, errors: &mut ErrorList) {
    let selector = term.given("labelSelector");
    for key in ["matchLabelKeys", "mismatchLabelKeys"] {
        let keys = term.list(key);
        if keys.is_empty() {
            continue;
        }
        if selector.is_none() {
            errors.push(field::forbidden(&term.path.child(key), "must not be specified when labelSelector is not set"));
            continue;
        }
        keys.iter().for_each(|k| label_name(k.text(), &k.path, errors));
    }
    let matching = term.list("matchLabelKeys");
    if let Some(selector) = selector {
        let mut known: Vec<&str> = selector.entries("matchLabels").into_iter().map(|(k, _)| k).collect();
        for expression in selector.list("matchExpressions") {
            let key = expression.str("key");
            if let Some(i) = matching.iter().rposition(|m| m.text() == key)
                && known.contains(&key)
            {
                errors.push(field::invalid(
                    &term.path.index(i),
                    key,
                    "exists in both matchLabelKeys and labelSelector",
                ));
            }
            known.push(key);
        }
    }
    let mismatching = term.list("mismatchLabelKeys");
    for key in matching {
        if mismatching.iter().any(|m| m.text() == key.text()) {
            errors.push(field::invalid(&key.path, key.text(), "exists in both matchLabelKeys and mismatchLabelKeys"));
        }
    }
}

pub(super) fn topology_spread(spec: &Node<'_>, errors: &mut ErrorList) {
    let constraints = spec.list("topologySpreadConstraints");
    for (i, constraint) in constraints.iter().enumerate() {
        positive(constraint, "maxSkew", errors);
        constraint.required_as("topologyKey", "can not be empty", errors);
        constraint.always_one_of("whenUnsatisfiable", &["DoNotSchedule", "ScheduleAnyway"], errors);
        let identity = |c: &Node<'_>| format!("{{{}, {}}}", c.str("topologyKey"), c.str("whenUnsatisfiable"));
        if constraints[i + 1..].iter().any(|c| identity(c) == identity(constraint)) {
            errors.push(field::duplicate(
                &constraint.path.child("{topologyKey, whenUnsatisfiable}"),
                &identity(constraint),
            ));
        }
        if let Some(domains) = constraint.given("minDomains") {
            positive(constraint, "minDomains", errors);
            let action = constraint.str("whenUnsatisfiable");
            if action != "DoNotSchedule" {
                let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                errors.push(field::invalid(&domains.path, domains.value, why));
            }
        }
        for key in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            constraint.one_of(key, &["Honor", "Ignore"], errors);
        }
        label_keys(constraint, errors);
        constraint.selector("labelSelector", errors);
    }
}

/// Of the tolerations of a Pod or a class of runtimes.
pub(crate) fn tolerations(parent: &Node<'_>, errors: &mut ErrorList) {
    for toleration in parent.list("tolerations") {
        let (key, operator, value, effect) =
            (toleration.str("key"), toleration.str("operator"), toleration.str("value"), toleration.str("effect"));
        if !key.is_empty() {
            label_name(key, &toleration.path.child("key"), errors);
        }
        let at = toleration.path.child("operator");
        if key.is_empty() && operator != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(field::invalid(&at, operator, why));
        }
        if toleration.has("tolerationSeconds") && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(field::invalid(&toleration.path.child("effect"), effect, why));
        }
        match operator {
            "" | "Equal" => {
                let wrong = names::is_label_value(value);
                if !wrong.is_empty() {
                    errors.push(field::invalid(&at, value, wrong.join(";")));
                }
            }
            "Exists" if !value.is_empty() => {
                errors.push(field::invalid(&at, value, "value must be empty when `operator` is 'Exists'"))
            }
            "Exists" => {}
            "Lt" | "Gt" => errors.push(field::not_supported(&at, &operator, ["Equal", "Exists", "Lt", "Gt"])),
            other => errors.push(field::not_supported(&at, &other, ["Equal", "Exists"])),
        }
        if !effect.is_empty() {
            toleration.one_of("effect", &["NoSchedule", "PreferNoSchedule", "NoExecute"], errors);
        }
    }
}

/// A number that must be positive.
fn positive(node: &Node<'_>, key: &str, errors: &mut ErrorList) {
    if node.int(key) <= 0 {
        errors.push(field::invalid(&node.path.child(key), &node.int(key), POSITIVE));
    }
}
