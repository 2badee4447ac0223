//! Service (v1).

use crate::definition::Definition;
use crate::rules::NameRule;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "Service", "services")
        .short(&["svc"])
        .category("all")
        .stored_at("services/specs")
        .serves("proxy", "ServiceProxyOptions", &["create", "delete", "get", "patch", "update"])
        .status()
        .create_on_update()
        .names(NameRule::Dns1035Label)
}
