//! What is wrong with webhooks and policies of admission. That an expression is one of CEL is for its compiler to say.

use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;
use trireme_machinery::path::Path;

use crate::check::Node;

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const MUTATING_OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "UPDATE"];
const REVIEW_VERSIONS: &[&str] = &["v1", "v1beta1"];
const MAX_CONDITIONS: usize = 64;
const URL_FORM: &str = "; desired format: https://host[/path]";

/// Of a list of webhooks.
pub(super) fn webhooks(obj: &Value, mutating: bool, errors: &mut ErrorList) {
    let mut seen = Vec::new();
    for hook in Node::root(obj).list("webhooks") {
        webhook(&hook, mutating, errors);
        review_versions(&hook.get("admissionReviewVersions"), errors);
        let name = hook.str("name");
        if !name.is_empty() && seen.contains(&name) {
            errors.push(field::duplicate(&hook.path.child("name"), name));
        }
        seen.push(name);
    }
}

fn webhook(hook: &Node<'_>, mutating: bool, errors: &mut ErrorList) {
    qualified_name(&hook.path.child("name"), hook.str("name"), errors);
    hook.list("rules").iter().for_each(|r| rule_with_operations(r, errors));
    hook.one_of("failurePolicy", &["Fail", "Ignore"], errors);
    hook.one_of("matchPolicy", &["Equivalent", "Exact"], errors);
    if hook.has("sideEffects") {
        hook.one_of("sideEffects", &["None", "NoneOnDryRun"], errors);
    } else {
        errors.push(field::required(&hook.path.child("sideEffects"), "must specify one of None, NoneOnDryRun"));
    }
    if hook.opt_int("timeoutSeconds").is_some_and(|n| !(1..=30).contains(&n)) {
        hook.invalid("timeoutSeconds", "the timeout value must be between 1 and 30 seconds", errors);
    }
    for key in ["namespaceSelector", "objectSelector"] {
        hook.selector(key, errors);
    }
    if mutating {
        hook.one_of("reinvocationPolicy", &["IfNeeded", "Never"], errors);
    }
    let config = hook.get("clientConfig");
    match (config.given("url"), config.given("service")) {
        (Some(url), None) => webhook_url(&url, errors),
        (None, Some(service)) => webhook_service(&service, errors),
        _ => errors.push(field::required(&config.path, "exactly one of url or service is required")),
    }
    match_conditions(&hook.get("matchConditions"), errors);
}

fn qualified_name(at: &Path, name: &str, errors: &mut ErrorList) {
    if name.is_empty() {
        errors.push(field::required(at, ""));
        return;
    }
    let wrong = names::is_dns1123_subdomain(name);
    if !wrong.is_empty() {
        errors.push(field::invalid(at, name, wrong.join(",")));
    } else if name.split('.').count() < 3 {
        errors.push(field::invalid(at, name, "should be a domain with at least three segments separated by dots"));
    }
}

fn review_versions(versions: &Node<'_>, errors: &mut ErrorList) {
    let given = versions.items();
    if given.is_empty() {
        errors.push(field::required(&versions.path, "must specify one of v1, v1beta1"));
        return;
    }
    let mut seen = Vec::new();
    for version in &given {
        let text = version.text();
        if seen.contains(&text) {
            errors.push(field::invalid(&version.path, text, "duplicate version"));
            continue;
        }
        seen.push(text);
        version.is_named(names::is_dns1035_label, errors);
    }
    if !seen.iter().any(|v| REVIEW_VERSIONS.contains(v)) {
        errors.push(field::invalid(&versions.path, versions.value, "must include at least one of v1, v1beta1"));
    }
}

/// Of the address of a webhook outside the cluster.
pub(crate) fn webhook_url(url: &Node<'_>, errors: &mut ErrorList) {
    let text = url.text();
    let (scheme, rest) = text.split_once("://").unwrap_or(("", ""));
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let mut wrong = |is: bool, value: &str, why: &str| {
        if is {
            errors.push(field::invalid(&url.path, value, why));
        }
    };
    wrong(scheme != "https", scheme, &format!("'https' is the only allowed URL scheme{URL_FORM}"));
    wrong(host.is_empty(), host, &format!("host must be specified{URL_FORM}"));
    wrong(!user.is_empty(), user, "user information is not permitted in the URL");
    wrong(!fragment.is_empty(), fragment, "fragments are not permitted in the URL");
    wrong(!query.is_empty(), query, "query parameters are not permitted in the URL");
}

/// Of the Service that a webhook is reached by.
pub(crate) fn webhook_service(service: &Node<'_>, errors: &mut ErrorList) {
    service.required("name", errors);
    service.required("namespace", errors);
    let wrong = names::is_port_number(service.int("port"));
    if !wrong.is_empty() {
        let why = format!("port is not valid: {}", wrong.join(", "));
        errors.push(field::invalid(&service.path.child("port"), &service.int("port"), why));
    }
    let path = service.str("path");
    if path.is_empty() || path == "/" {
        return;
    }
    let at = service.path.child("path");
    if path == "//" {
        errors.push(field::invalid(&at, path, "segment[0] may not be empty"));
        return;
    }
    if !path.starts_with('/') {
        errors.push(field::invalid(&at, path, "must start with a '/'"));
    }
    let inner = path.get(1..).unwrap_or_default();
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    for (i, step) in inner.split('/').enumerate() {
        if step.is_empty() {
            errors.push(field::invalid(&at, path, format!("segment[{i}] may not be empty")));
            continue;
        }
        let wrong = names::is_dns1123_subdomain(step);
        errors.extend(wrong.into_iter().map(|m| field::invalid(&at, path, format!("segment[{i}]: {m}"))));
    }
}

fn match_conditions(conditions: &Node<'_>, errors: &mut ErrorList) {
    let given = conditions.items();
    if given.len() > MAX_CONDITIONS {
        errors.push(field::too_many(&conditions.path, given.len(), MAX_CONDITIONS));
    }
    let mut seen = Vec::new();
    for condition in given {
        if condition.str("expression").trim().is_empty() {
            errors.push(field::required(&condition.path.child("expression"), ""));
        }
        condition.required_name("name", names::is_qualified_name, errors);
        let name = condition.str("name");
        if !name.is_empty() && seen.contains(&name) {
            errors.push(field::duplicate(&condition.path.child("name"), name));
        }
        seen.push(name);
    }
}

fn rule_with_operations(rule: &Node<'_>, errors: &mut ErrorList) {
    rule.required("operations", errors);
    alone(rule, "operations", "operations", errors);
    for operation in rule.list("operations").iter().filter(|o| !OPERATIONS.contains(&o.text())) {
        errors.push(field::not_supported(&operation.path, operation.text(), OPERATIONS));
    }
    rule.required("apiGroups", errors);
    alone(rule, "apiGroups", "API groups", errors);
    rule.required("apiVersions", errors);
    alone(rule, "apiVersions", "API versions", errors);
    for version in rule.list("apiVersions").iter().filter(|v| v.text().is_empty()) {
        errors.push(field::required(&version.path, ""));
    }
    resources(rule, errors);
    rule.one_of("scope", &["*", "Cluster", "Namespaced"], errors);
}

/// A `*` stands for everything, so nothing stands beside it.
fn alone(rule: &Node<'_>, key: &str, what: &str, errors: &mut ErrorList) {
    let list = rule.list(key);
    if list.len() > 1 && list.iter().any(|item| item.text() == "*") {
        rule.invalid(key, format!("if '*' is present, must not specify other {what}"), errors);
    }
}

fn resources(rule: &Node<'_>, errors: &mut ErrorList) {
    rule.required("resources", errors);
    let given = rule.list("resources");
    let (mut all_of, mut of_all) = (Vec::new(), Vec::new());
    let mut plain = false;
    for node in &given {
        let text = node.text();
        if text.is_empty() {
            errors.push(field::required(&node.path, ""));
            continue;
        }
        let Some((resource, sub)) = text.split_once('/') else {
            plain = text != "*";
            continue;
        };
        if all_of.contains(&resource) {
            let why = format!("if '{resource}/*' is present, must not specify {text}");
            errors.push(field::invalid(&node.path, text, why));
        }
        if of_all.contains(&sub) {
            let why = format!("if '*/{sub}' is present, must not specify {text}");
            errors.push(field::invalid(&node.path, text, why));
        }
        if sub == "*" {
            all_of.push(resource);
        }
        if resource == "*" {
            of_all.push(sub);
        }
    }
    let has = |text: &str| given.iter().any(|node| node.text() == text);
    if given.len() > 1 && has("*/*") {
        rule.invalid("resources", "if '*/*' is present, must not specify other resources", errors);
    }
    if has("*") && plain {
        let why = "if '*' is present, must not specify other resources without subresources";
        rule.invalid("resources", why, errors);
    }
}

/// Of what a policy or its binding matches.
pub(super) fn match_resources(matched: &Node<'_>, errors: &mut ErrorList) {
    if matched.has("matchPolicy") {
        matched.one_of("matchPolicy", &["Equivalent", "Exact"], errors);
    } else {
        errors.push(field::required(&matched.path.child("matchPolicy"), ""));
    }
    for key in ["namespaceSelector", "objectSelector"] {
        if matched.has(key) {
            matched.selector(key, errors);
        } else {
            errors.push(field::required(&matched.path.child(key), ""));
        }
    }
    for list in ["resourceRules", "excludeResourceRules"] {
        for rule in matched.list(list) {
            let mut seen = Vec::new();
            for name in rule.list("resourceNames") {
                name.is_named(names::is_path_segment, errors);
                if seen.contains(&name.text()) {
                    errors.push(field::duplicate(&name.path, name.text()));
                }
                seen.push(name.text());
            }
            rule_with_operations(&rule, errors);
        }
    }
}

/// What mutates does not mutate what is deleted.
pub(super) fn mutating_operations(matched: &Node<'_>, errors: &mut ErrorList) {
    let at = matched.path.child("resourceRules").child("operations");
    for rule in matched.list("resourceRules") {
        for operation in rule.list("operations").iter().filter(|o| !MUTATING_OPERATIONS.contains(&o.text())) {
            errors.push(field::not_supported(&at, operation.text(), MUTATING_OPERATIONS));
        }
    }
}

/// What policies of both kinds have alike, before their validations or mutations.
pub(super) fn policy(spec: &Node<'_>, mutating: bool, errors: &mut ErrorList) {
    if spec.has("failurePolicy") {
        spec.one_of("failurePolicy", &["Fail", "Ignore"], errors);
    } else {
        errors.push(field::required(&spec.path.child("failurePolicy"), ""));
    }
    if let Some(kind) = spec.given("paramKind") {
        param_kind(&kind, errors);
    }
    match spec.given("matchConstraints") {
        None => errors.push(field::required(&spec.path.child("matchConstraints"), "")),
        Some(constraints) => {
            match_resources(&constraints, errors);
            constraints.required("resourceRules", errors);
            if mutating {
                mutating_operations(&constraints, errors);
            }
        }
    }
    match_conditions(&spec.get("matchConditions"), errors);
    for variable in spec.list("variables") {
        let name = variable.str("name");
        if name.trim().is_empty() {
            errors.push(field::required(&variable.path.child("name"), "name is not specified"));
        } else if !is_identifier(name) {
            variable.invalid("name", "must be a valid CEL identifier", errors);
        }
        expression(&variable, "expression", "expression is not specified", errors);
    }
}

/// An expression must be there.
pub(super) fn expression(parent: &Node<'_>, key: &str, why: &str, errors: &mut ErrorList) {
    if parent.str(key).trim().is_empty() {
        errors.push(field::required(&parent.path.child(key), why));
    }
}

fn is_identifier(name: &str) -> bool {
    let reserved = [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
        "true",
        "false",
        "null",
        "in",
    ];
    names::is_c_identifier(name).is_empty() && !reserved.contains(&name)
}

fn param_kind(kind: &Node<'_>, errors: &mut ErrorList) {
    if kind.required("apiVersion", errors) {
        let at = kind.path.child("apiVersion");
        let text = kind.str("apiVersion");
        let (group, version) = text.split_once('/').unwrap_or(("", text));
        if version.contains('/') {
            errors.push(field::invalid(&at, text, format!("unexpected GroupVersion string: {text}")));
        } else {
            let mut wrong = |value: &str, messages: Vec<String>| {
                if !messages.is_empty() {
                    errors.push(field::invalid(&at, value, messages.join(",")));
                }
            };
            if !group.is_empty() {
                wrong(group, names::is_dns1123_subdomain(group));
            }
            if version.is_empty() {
                wrong(text, vec!["version must be specified".to_owned()]);
            } else {
                wrong(version, names::is_dns1035_label(version));
            }
        }
    }
    if kind.required("kind", errors) {
        let wrong = names::is_dns1035_label(&kind.str("kind").to_lowercase());
        if !wrong.is_empty() {
            let why = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
            kind.invalid("kind", why, errors);
        }
    }
}

/// What bindings of both kinds have alike.
pub(super) fn binding(spec: &Node<'_>, errors: &mut ErrorList) {
    spec.required_name("policyName", names::is_dns1123_subdomain, errors);
    if let Some(reference) = spec.given("paramRef") {
        param_ref(&reference, errors);
    }
    if let Some(matched) = spec.given("matchResources") {
        match_resources(&matched, errors);
    }
}

fn param_ref(reference: &Node<'_>, errors: &mut ErrorList) {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    let named = !reference.is_empty("name");
    if named {
        reference.named("name", names::is_path_segment, errors);
    }
    if reference.has("selector") {
        reference.selector("selector", errors);
        if named {
            errors.push(field::forbidden(&reference.path.child("name"), EXCLUSIVE));
            errors.push(field::forbidden(&reference.path.child("selector"), EXCLUSIVE));
        }
    } else if !named {
        errors.push(field::required(&reference.path, "one of name or selector must be specified"));
    }
    reference.required_one_of("parameterNotFoundAction", &["Deny", "Allow"], errors);
}
