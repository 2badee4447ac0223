//! What is wrong with an Event, of either group. The words are those of the core group's fields.

use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::go;
use trireme_machinery::meta;
use trireme_machinery::names;
use trireme_machinery::path::Path;

use crate::check::{IMMUTABLE, Node, immutable, in_order};

const MAX_FIELD: usize = 128;
const MAX_MESSAGE: usize = 1024;

/// An event of the core group.
pub(crate) fn legacy(event: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    common(event, "reportingComponent", &mut errors);
    errors
}

/// A new event of the newer group, in the fields of the core group.
pub(crate) fn current(event: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let root = Node::root(event);
    common(event, "reportingController", &mut errors);
    series(&root, &mut errors);
    root.required_one_given("eventTime", &mut errors);
    let ty = root.str("type");
    if !matches!(ty, "Normal" | "Warning") {
        errors.push(field::invalid(&Path::new("type"), "", format!("has invalid value: {ty}")));
    }
    let mut unset = |key: &str, is: bool| {
        if !is {
            errors.push(field::invalid(&Path::new(key), "", "needs to be unset"));
        }
    };
    unset("firstTimestamp", !root.has("firstTimestamp"));
    unset("lastTimestamp", !root.has("lastTimestamp"));
    unset("count", root.int("count") == 0);
    let source = root.get("source");
    unset("source", source.is_empty("component") && source.is_empty("host"));
    errors
}

/// An update of an event of the newer group: only the series changes.
pub(crate) fn current_update(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    common(new, "reportingController", &mut errors);
    let (is, was) = (Node::root(new), Node::root(old));
    if is.get("series").value != was.get("series").value {
        series(&is, &mut errors);
    }
    once(&is, &was, "involvedObject", reference, &mut errors);
    for key in ["reason", "message"] {
        immutable(&is, &was, key, &mut errors);
    }
    once(&is, &was, "source", source, &mut errors);
    for key in ["firstTimestamp", "lastTimestamp", "count", "type", "eventTime", "action"] {
        immutable(&is, &was, key, &mut errors);
    }
    once(&is, &was, "related", reference, &mut errors);
    immutable(&is, &was, "reportingInstance", &mut errors);
    errors
}

/// The field must be what it was; it is shown as Kubernetes' internal type prints itself.
fn once(is: &Node<'_>, was: &Node<'_>, key: &str, shown: fn(&Node<'_>) -> String, errors: &mut ErrorList) {
    let (is, was) = (is.get(key), was.get(key));
    if is.value != was.value {
        errors.push(field::invalid(&is.path, is.value, IMMUTABLE).showing(shown(&is)));
    }
}

fn reference(to: &Node<'_>) -> String {
    if to.value.is_null() {
        return "null".to_owned();
    }
    let text = |key: &str| go::json(&to.str(key).into());
    in_order([
        ("Kind", text("kind")),
        ("Namespace", text("namespace")),
        ("Name", text("name")),
        ("UID", text("uid")),
        ("APIVersion", text("apiVersion")),
        ("ResourceVersion", text("resourceVersion")),
        ("FieldPath", text("fieldPath")),
    ])
}

fn source(source: &Node<'_>) -> String {
    let text = |key: &str| go::json(&source.str(key).into());
    in_order([("Component", text("component")), ("Host", text("host"))])
}

fn series(root: &Node<'_>, errors: &mut ErrorList) {
    let Some(series) = root.given("series") else { return };
    if series.int("count") < 2 {
        errors.push(field::invalid(&series.path.child("count"), "", "should be at least 2"));
    }
    series.required_one_given("lastObservedTime", errors);
}

/// What is asked of every event; of one that tells the time, who reports it. `controller` is what its field is called.
fn common(event: &Value, controller: &str, errors: &mut ErrorList) {
    let root = Node::root(event);
    let (about, own) = (root.get("involvedObject"), meta::namespace(event));
    let namespace = about.str("namespace");
    let timed = root.has("eventTime");
    let astray = match namespace {
        "" => !(own.is_empty() || own == "default" || timed && own == "kube-system"),
        other => !timed && other != own,
    };
    if astray {
        errors.push(field::invalid(&about.path.child("namespace"), namespace, "does not match event.namespace"));
    }
    if !timed {
        return;
    }
    let (name, at) = (root.str("reportingComponent"), Path::new(controller));
    if name.is_empty() {
        errors.push(field::required(&at, ""));
    }
    errors.extend(names::is_qualified_name(name).into_iter().map(|m| field::invalid(&at, name, m)));
    for key in ["reportingInstance", "action", "reason"] {
        root.required(key, errors);
        too_long(&root, key, MAX_FIELD, errors);
    }
    too_long(&root, "message", MAX_MESSAGE, errors);
}

fn too_long(root: &Node<'_>, key: &str, max: usize, errors: &mut ErrorList) {
    if root.str(key).len() > max {
        errors.push(field::invalid(&root.path.child(key), "", format!("can have at most {max} characters")));
    }
}
