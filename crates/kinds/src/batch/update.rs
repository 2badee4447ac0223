//! What may not change in the spec of a Job.

use serde_json::Value;
use trireme_machinery::field::ErrorList;

use crate::check::{Node, immutable};

/// The template may change while the Job is suspended and has not started, and then only where its Pods run.
pub(super) fn validate(new: &Node<'_>, old: &Node<'_>, errors: &mut ErrorList) {
    completions(new, old, errors);
    for key in ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        immutable(new, old, key, errors);
    }
    template(new, old, errors);
}

/// An elastic indexed Job changes completions and parallelism alike.
fn completions(new: &Node<'_>, old: &Node<'_>, errors: &mut ErrorList) {
    let (is, was) = (new.opt_int("completions"), old.opt_int("completions"));
    if is == was {
        return;
    }
    let elastic = new.str("completionMode") == "Indexed" && is.is_some() && was.is_some();
    if !elastic {
        immutable(new, old, "completions", errors);
    } else if is != new.opt_int("parallelism") {
        new.invalid(
            "completions",
            format!("can only be modified in tandem with {}", new.path.child("parallelism")),
            errors,
        );
    }
}

fn template(new: &Node<'_>, old: &Node<'_>, errors: &mut ErrorList) {
    let (mut is, was) = (new.get("template").value.clone(), old.get("template").value);
    if old.flag("suspend") {
        // What a queue of jobs decides.
        for key in ["nodeSelector", "tolerations", "schedulingGates"] {
            copy(&mut is["spec"], &was["spec"], key);
        }
        if let Some(affinity) = is["spec"].get_mut("affinity") {
            copy(affinity, &was["spec"]["affinity"], "nodeAffinity");
        }
        for key in ["labels", "annotations"] {
            copy(&mut is["metadata"], &was["metadata"], key);
        }
    }
    if is != *was {
        immutable(new, old, "template", errors);
    }
}

fn copy(new: &mut Value, old: &Value, key: &str) {
    let Some(map) = new.as_object_mut() else { return };
    match old.get(key) {
        Some(value) => map.insert(key.to_owned(), value.clone()),
        None => map.remove(key),
    };
}
