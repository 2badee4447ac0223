//! ControllerRevision (v1 of apps).

use crate::check::{Node, immutable};
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::gvk::GroupVersionKind;
use trireme_machinery::meta;
use trireme_machinery::path::Path;

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, field, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("apps", "v1", "ControllerRevision", "controllerrevisions")
        .table(TABLE)
        .check(validate)
        .check_update(validate_update)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Controller", "string", words("Controller of the object"), |o, _| controller(o).into()),
    column("Revision", "string", field("apps.v1.ControllerRevision", "revision"), |o, _| cells::number(o, "revision")),
    AGE,
];

/// The controller that owns the revision, as `deployment.apps/web`.
fn controller(revision: &Value) -> String {
    match meta::controller(revision) {
        Some(owner) => {
            let kind = GroupVersionKind::from_api_version(owner.api_version, owner.kind).group_kind();
            format!("{}/{}", kind.to_string().to_lowercase(), owner.name)
        }
        None => "<none>".to_owned(),
    }
}

fn validate(revision: &Value, errors: &mut ErrorList) {
    let root = Node::root(revision);
    root.nonnegative("revision", errors);
    match root.get("data").value {
        Value::Null => errors.push(field::required(&Path::new("data"), "data is mandatory")),
        Value::Object(_) => {}
        _ => errors.push(field::required(&Path::new("data"), "data must be a valid JSON object")),
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    let (new, old) = (Node::root(new), Node::root(old));
    new.nonnegative("revision", errors);
    immutable(&new, &old, "data", errors);
}
