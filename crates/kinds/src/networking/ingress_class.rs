//! IngressClass (v1 of networking.k8s.io).

use super::ingress::reference;
use crate::check::{Node, immutable};
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::meta;
use trireme_machinery::names;
use trireme_machinery::path::Path;

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, TableColumn, column, field, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("networking.k8s.io", "v1", "IngressClass", "ingressclasses")
        .cluster()
        .generation()
        .table(TABLE)
        .check(validate)
        .check_update(validate_update)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME_WITH_DEFAULT,
    column("Controller", "string", words("Controller that is responsible for handling this class"), |o, _| {
        cells::text(o, "spec.controller")
    }),
    column("Parameters", "string", words("A reference to a resource with additional parameters"), |o, _| {
        parameters(o).into()
    }),
    AGE,
];

/// The name, and whether it is the default class.
const NAME_WITH_DEFAULT: TableColumn =
    column("Name", "string", field("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "name"), |class, _| {
        let default = meta::annotation(class, "ingressclass.kubernetes.io/is-default-class") == Some("true");
        format!("{}{}", meta::name(class), if default { " (default)" } else { "" }).into()
    })
    .formatted("name");

fn parameters(class: &Value) -> String {
    let parameters = cells::at(class, "spec.parameters");
    if parameters.is_null() {
        return "<none>".to_owned();
    }
    let group = parameters["apiGroup"].as_str().map(|g| format!(".{g}")).unwrap_or_default();
    format!("{}{group}/{}", cells::str(parameters, "kind"), cells::str(parameters, "name"))
}

const MAX_CONTROLLER: usize = 250;

fn validate(obj: &Value, errors: &mut ErrorList) {
    let spec = Node::of(obj, "spec");
    let at = spec.path.child("controller");
    if spec.str("controller").len() > MAX_CONTROLLER {
        errors.push(field::too_long(&at, MAX_CONTROLLER));
    }
    domain_prefixed_path(&at, spec.str("controller"), errors);
    let Some(parameters) = spec.given("parameters") else { return };
    reference(&parameters, errors);
    let scopes = ["Cluster", "Namespace"];
    match parameters.given("scope") {
        None => errors.push(field::required(&parameters.path.child("scope"), "")),
        Some(scope) if scope.text() == "Namespace" => {
            if parameters.has("namespace") {
                parameters.named("namespace", names::is_dns1123_label, errors);
            } else {
                let why = "`parameters.scope` is set to 'Namespace'";
                errors.push(field::required(&parameters.path.child("namespace"), why));
            }
        }
        Some(scope) if scope.text() == "Cluster" => {
            parameters.forbidden("namespace", "`parameters.scope` is set to 'Cluster'", errors);
        }
        Some(scope) => errors.push(field::not_supported(&scope.path, scope.text(), scopes)),
    }
}

/// A path that starts with a domain, as `example.com/name`.
fn domain_prefixed_path(at: &Path, text: &str, errors: &mut ErrorList) {
    if text.is_empty() {
        errors.push(field::required(at, ""));
        return;
    }
    let Some((host, path)) = text.split_once('/').filter(|(host, path)| !host.is_empty() && !path.is_empty()) else {
        errors.push(field::invalid(at, text, "must be a domain-prefixed path (such as \"acme.io/foo\")"));
        return;
    };
    errors.extend(names::is_dns1123_subdomain(host).into_iter().map(|m| field::invalid(at, host, m)));
    if !path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b)) {
        let why = names::regex_error("Invalid path", r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", &[]);
        errors.push(field::invalid(at, path, why));
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    immutable(&Node::of(new, "spec"), &Node::of(old, "spec"), "controller", errors);
    validate(new, errors);
}
