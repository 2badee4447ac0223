//! FlowSchema (v1 of flowcontrol.apiserver.k8s.io).

use crate::check::{Node, in_order};
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::go;
use trireme_machinery::meta;
use trireme_machinery::names;

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, field, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema", "flowschemas")
        .cluster()
        .generation()
        .status()
        .table(TABLE)
        .check(validate)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("PriorityLevel", "string", field("flowcontrol.v1.PriorityLevelConfigurationReference", "name"), |o, _| {
        cells::text(o, "spec.priorityLevelConfiguration.name")
    }),
    column("MatchingPrecedence", "string", field("flowcontrol.v1.FlowSchemaSpec", "matchingPrecedence"), |o, _| {
        cells::number(o, "spec.matchingPrecedence")
    }),
    column("DistinguisherMethod", "string", field("flowcontrol.v1.FlowSchemaSpec", "distinguisherMethod"), |o, _| {
        cells::text_or(o, "spec.distinguisherMethod.type", "<none>")
    }),
    AGE,
    column("MissingPL", "string", words("references a broken or non-existent PriorityLevelConfiguration"), |o, _| {
        dangling(o).into()
    }),
];

fn dangling(schema: &Value) -> &str {
    let condition = cells::list(schema, "status.conditions").iter().find(|c| c["type"] == "Dangling");
    condition.map_or("?", |c| cells::str(c, "status"))
}

const VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
const MAX_PRECEDENCE: i64 = 10_000;

fn validate(obj: &Value, errors: &mut ErrorList) {
    let spec = Node::of(obj, "spec");
    let precedence = spec.int("matchingPrecedence");
    if precedence <= 0 {
        spec.invalid("matchingPrecedence", "must be a positive value", errors);
    }
    if precedence > MAX_PRECEDENCE {
        spec.invalid("matchingPrecedence", format!("must not be greater than {MAX_PRECEDENCE}"), errors);
    }
    if precedence == 1 && meta::name(obj) != "exempt" {
        let why = "only the schema named 'exempt' may have matchingPrecedence 1";
        spec.invalid("matchingPrecedence", why, errors);
    }
    if let Some(method) = spec.given("distinguisherMethod")
        && !matches!(method.str("type"), "ByNamespace" | "ByUser")
    {
        let ty = method.str("type");
        let shown = in_order([("Type", go::json(&ty.into()))]);
        let supported = ["ByNamespace", "ByUser"];
        errors.push(field::not_supported(&method.path.child("type"), ty, supported).showing(shown));
    }
    let level = spec.get("priorityLevelConfiguration");
    if level.required_as("name", "must reference a priority level", errors) {
        level.named("name", names::is_dns1123_subdomain, errors);
    }
    for rule in spec.list("rules") {
        rule.required_as("subjects", "subjects must contain at least one value", errors);
        rule.list("subjects").iter().for_each(|s| subject(s, errors));
        if rule.is_empty("resourceRules") && rule.is_empty("nonResourceRules") {
            let why = "at least one of resourceRules and nonResourceRules has to be non-empty";
            errors.push(field::required(&rule.path, why));
        }
        rule.list("resourceRules").iter().for_each(|r| resource_rule(r, errors));
        rule.list("nonResourceRules").iter().for_each(|r| url_rule(r, errors));
    }
}

fn subject(subject: &Node<'_>, errors: &mut ErrorList) {
    const KINDS: &[(&str, &str)] = &[("Group", "group"), ("ServiceAccount", "serviceAccount"), ("User", "user")];
    let kind = subject.str("kind");
    let Some((_, own)) = KINDS.iter().find(|(k, _)| *k == kind) else {
        errors.push(field::not_supported(&subject.path.child("kind"), kind, ["Group", "ServiceAccount", "User"]));
        return;
    };
    match subject.given(own) {
        None => {
            let why = format!("{own} is required when subject kind is '{kind}'");
            errors.push(field::required(&subject.path.child(own), why));
        }
        Some(named) => {
            named.required("name", errors);
            if *own == "serviceAccount" {
                if !matches!(named.str("name"), "" | "*") {
                    named.named("name", names::is_dns1123_subdomain, errors);
                }
                if named.required_as("namespace", "must specify namespace for service account", errors) {
                    named.named("namespace", names::is_dns1123_label, errors);
                }
            }
        }
    }
    for (other, key) in KINDS.iter().filter(|(k, _)| *k != kind) {
        subject.forbidden(key, &format!("{key} is forbidden when subject kind is not '{other}'"), errors);
    }
}

fn alone(rule: &Node<'_>, key: &str, what: &str, errors: &mut ErrorList) -> bool {
    let list = rule.list(key);
    let all = list.iter().any(|item| item.text() == "*");
    if all && list.len() > 1 {
        rule.invalid(key, format!("if '*' is present, must not specify other {what}"), errors);
    }
    all
}

fn verbs(rule: &Node<'_>, errors: &mut ErrorList) {
    if !rule.required_as("verbs", "verbs must contain at least one value", errors) {
        return;
    }
    let known = rule.list("verbs").iter().all(|v| VERBS.contains(&v.text()));
    if !alone(rule, "verbs", "verbs", errors) && !known {
        errors.push(field::not_supported(&rule.path.child("verbs"), rule.get("verbs").value, VERBS));
    }
}

fn resource_rule(rule: &Node<'_>, errors: &mut ErrorList) {
    verbs(rule, errors);
    if rule.required_as("apiGroups", "resource rules must supply at least one api group", errors) {
        alone(rule, "apiGroups", "api groups", errors);
    }
    if rule.required_as("resources", "resource rules must supply at least one resource", errors) {
        alone(rule, "resources", "resources", errors);
    }
    if rule.is_empty("namespaces") && !rule.flag("clusterScope") {
        let why = "resource rules that are not cluster scoped must supply at least one namespace";
        rule.required_as("namespaces", why, errors);
    } else if !alone(rule, "namespaces", "namespaces", errors) {
        for namespace in rule.list("namespaces") {
            let wrong = names::is_dns1123_label(namespace.text());
            errors.extend(wrong.into_iter().map(|m| {
                let why = format!("each member of this list must be '*' or a DNS-1123 label; {m}");
                field::invalid(&namespace.path, namespace.text(), why)
            }));
        }
    }
}

fn url_rule(rule: &Node<'_>, errors: &mut ErrorList) {
    verbs(rule, errors);
    let any = rule.required_as("nonResourceURLs", "nonResourceURLs must contain at least one value", errors);
    if !any || alone(rule, "nonResourceURLs", "non-resource URLs", errors) {
        return;
    }
    for url in rule.list("nonResourceURLs") {
        let text = url.text();
        let stars = text.matches('*').count();
        let why = match text {
            "" => "must not be empty",
            "/" => continue,
            _ if !text.starts_with('/') => "must start with slash",
            _ if text.contains(' ') => "must not contain white-space",
            _ if text.contains("//") => "must not contain double slash",
            _ if stars > 1 || (stars == 1 && !text.ends_with("/*")) => "wildcard can only do suffix matching",
            _ => continue,
        };
        errors.push(field::invalid(&url.path, text, why));
    }
}
