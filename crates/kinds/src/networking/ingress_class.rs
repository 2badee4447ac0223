//! IngressClass (v1 of networking.k8s.io).

use serde_json::Value;
use trireme_machinery::meta;

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, TableColumn, column, field, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("networking.k8s.io", "v1", "IngressClass", "ingressclasses").cluster().generation().table(TABLE)
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
