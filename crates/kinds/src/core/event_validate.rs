//! What is wrong with an Event, of either group. The words are those of the core group's fields.

use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::meta;
use trireme_machinery::names;
use trireme_machinery::path::Path;

use crate::check::Node;

const MAX_FIELD: usize = 128;
const MAX_MESSAGE: usize = 1024;

/// An event is where the object is that it is about.
pub(crate) fn legacy(event: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    namespace(event, &mut errors);
    // A recorder that tells the time is held to the rules of the newer group.
    if !event["eventTime"].is_null() {
        reporter(&Node::root(event), "reportingComponent", &mut errors);
    }
    errors
}

fn namespace(event: &Value, errors: &mut ErrorList) {
    let about = event["involvedObject"]["namespace"].as_str().unwrap_or_default();
    let own = meta::namespace(event);
    let at = Path::new("involvedObject").child("namespace");
    if about.is_empty() {
        if own != "default" && own != "kube-system" {
            errors.push(field::invalid(&at, about, "does not match event.namespace"));
        }
    } else if about != own {
        errors.push(field::invalid(&at, about, "does not match event.namespace"));
    }
}

fn reporter(root: &Node<'_>, key: &str, errors: &mut ErrorList) {
    let controller = root.str(key);
    let at = root.path.child("reportingController");
    if controller.is_empty() {
        errors.push(field::required(&at, ""));
    }
    errors.extend(names::is_qualified_name(controller).into_iter().map(|m| field::invalid(&at, controller, m)));
    for key in ["reportingInstance", "action", "reason"] {
        root.required(key, errors);
        if root.str(key).len() > MAX_FIELD {
            let why = format!("can have at most {MAX_FIELD} characters");
            root.invalid(key, why, errors);
        }
    }
    if root.str("message").len() > MAX_MESSAGE {
        root.invalid("message", format!("can have at most {MAX_MESSAGE} characters"), errors);
    }
}

/// An event of the newer group, in the fields of the core group.
pub(crate) fn current(event: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let root = Node::root(event);
    namespace(event, &mut errors);
    root.required_one_given("eventTime", &mut errors);
    if let Some(series) = root.given("series") {
        if series.int("count") < 2 {
            errors.push(field::invalid(&series.path.child("count"), "", "should be at least 2"));
        }
        series.required_one_given("lastObservedTime", &mut errors);
    }
    reporter(&root, "reportingComponent", &mut errors);
    if !matches!(root.str("type"), "Normal" | "Warning") {
        let ty = root.str("type");
        errors.push(field::invalid(&Path::new("type"), "", format!("has invalid value: {ty}")));
    }
    for key in ["firstTimestamp", "lastTimestamp"] {
        if root.has(key) {
            errors.push(field::invalid(&Path::new(key), "", "needs to be unset"));
        }
    }
    if root.int("count") != 0 {
        errors.push(field::invalid(&Path::new("count"), "", "needs to be unset"));
    }
    let source = root.get("source");
    if !source.is_empty("component") || !source.is_empty("host") {
        errors.push(field::invalid(&Path::new("source"), "", "needs to be unset"));
    }
    errors
}
