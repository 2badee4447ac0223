//! ControllerRevision (v1 of apps).

use serde_json::Value;
use trireme_machinery::gvk::GroupVersionKind;
use trireme_machinery::meta;

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, field, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("apps", "v1", "ControllerRevision", "controllerrevisions").table(TABLE)
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
