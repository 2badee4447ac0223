//! PriorityClass (v1 of scheduling.k8s.io).

use crate::cells;
use crate::check::{Node, immutable};
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::table::{AGE, NAME, TableColumn, column, field};
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::meta;
use trireme_machinery::path::Path;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses")
        .cluster()
        .short(&["pc"])
        .generation()
        .hooks(PriorityClass)
}

#[derive(Debug)]
struct PriorityClass;

impl Hooks for PriorityClass {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn bumps_generation(&self, _: &Value, _: &Value) -> bool {
        false
    }

    fn validate(&self, obj: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        validate(obj, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        let (is, was) = (Node::root(new), Node::root(old));
        if is.int("value") != was.int("value") {
            is.forbidden("value", "may not be changed in an update.", &mut errors);
        }
        immutable(&is, &was, "preemptionPolicy", &mut errors);
        errors
    }
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Value", "integer", field("scheduling.v1.PriorityClass", "value"), |o, _| cells::number(o, "value")),
    column("Global-Default", "boolean", field("scheduling.v1.PriorityClass", "globalDefault"), |o, _| {
        cells::truth(o, "globalDefault", false)
    }),
    AGE,
    column("PreemptionPolicy", "string", field("scheduling.v1.PriorityClass", "preemptionPolicy"), |o, _| {
        cells::text(o, "preemptionPolicy")
    }),
];

const HIGHEST_OF_USERS: i64 = 1_000_000_000;
const SYSTEM: &[(&str, i64)] =
    &[("system-node-critical", 2 * HIGHEST_OF_USERS + 1000), ("system-cluster-critical", 2 * HIGHEST_OF_USERS)];

fn validate(obj: &Value, errors: &mut ErrorList) {
    let root = Node::root(obj);
    let (name, value) = (meta::name(obj), root.int("value"));
    if name.starts_with("system-") {
        let wrong = match SYSTEM.iter().find(|(known, _)| *known == name) {
            None => Some(format!("{name} is not a known system priority class")),
            Some((_, fixed)) if *fixed != value => Some(format!("value of {name} PriorityClass must be {fixed}")),
            Some(_) if root.flag("globalDefault") => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        if let Some(wrong) = wrong {
            let why =
                format!("priority class names with 'system-' prefix are reserved for system use only. error: {wrong}");
            errors.push(field::forbidden(&Path::new("metadata").child("name"), why));
        }
    } else if value > HIGHEST_OF_USERS {
        let why = format!("maximum allowed value of a user defined priority is {HIGHEST_OF_USERS}");
        root.forbidden("value", &why, errors);
    }
    root.one_of("preemptionPolicy", &["PreemptLowerPriority", "Never"], errors);
}
