//! Nobody grants what they do not hold.
//!
//! Who writes a role must hold every rule of it, or be allowed to `escalate`; who writes a binding must hold every rule of
//! the role it gives, or be allowed to `bind` it. Members of system:masters may do both.

use serde::Deserialize;
use serde_json::Value;
use trireme_machinery::gvk::GroupResource;
use trireme_machinery::status::Status;

use super::attributes::Attributes;
use super::authorizer::Authorizer;
use super::rbac::{GROUP, PolicyRule, RoleRef, covers};
use super::user::{UserInfo, quoted, quoted_list};

/// A write of an object of RBAC's group.
pub struct Write<'a> {
    /// Who writes.
    pub user: &'a UserInfo,
    /// `roles`, `clusterroles`, `rolebindings` or `clusterrolebindings`.
    pub resource: &'a str,
    /// Its namespace, or empty.
    pub namespace: &'a str,
    /// Its name in the request; empty on create.
    pub name: &'a str,
    /// The object as it will be.
    pub object: &'a Value,
    /// The object as it is, on update.
    pub old: Option<&'a Value>,
}

/// Refuses a write that would give more than the writer holds. Anything but RBAC's four resources passes.
pub fn check(authorizer: &Authorizer, write: &Write<'_>) -> Result<(), Status> {
    if write.user.is_privileged() {
        return Ok(());
    }
    if !matches!(write.resource, "roles" | "clusterroles" | "rolebindings" | "clusterrolebindings")
        || only_bookkeeping(write)
    {
        return Ok(());
    }
    if write.resource.ends_with("roles") { check_role(authorizer, write) } else { check_binding(authorizer, write) }
}

fn check_role(authorizer: &Authorizer, write: &Write<'_>) -> Result<(), Status> {
    let escalate = Attributes::resource("escalate", GROUP, write.resource).named(write.namespace, write.name);
    if authorizer.authorize(write.user, &escalate).allowed() {
        return Ok(());
    }
    let rules = write.object.get("rules").and_then(|rules| Vec::deserialize(rules).ok()).unwrap_or_default();
    confirm(authorizer, write, &rules)?;
    // An aggregation can gather anything, so it takes everything.
    if (aggregates(write.object) || write.old.is_some_and(aggregates))
        && confirm(authorizer, write, &everything()).is_err()
    {
        let message = "must have cluster-admin privileges to use the aggregationRule";
        return Err(Status::forbidden(&GroupResource::new(GROUP, write.resource), name_of(write), message));
    }
    Ok(())
}

fn check_binding(authorizer: &Authorizer, write: &Write<'_>) -> Result<(), Status> {
    let role = write.object.get("roleRef").and_then(|role| RoleRef::deserialize(role).ok()).unwrap_or_default();
    if may_bind(authorizer, write, &role) {
        return Ok(());
    }
    let index = authorizer.rbac().index();
    let rules = index.rules_of(&role, write.namespace).map_err(|_| role_missing(&role))?;
    confirm(authorizer, write, rules)
}

fn role_missing(role: &RoleRef) -> Status {
    let resource = if role.kind == "ClusterRole" { "clusterroles" } else { "roles" };
    Status::not_found(&GroupResource::new(GROUP, resource), &role.name)
}

fn aggregates(role: &Value) -> bool {
    role.pointer("/aggregationRule/clusterRoleSelectors").and_then(Value::as_array).is_some_and(|list| !list.is_empty())
}

fn everything() -> [PolicyRule; 2] {
    let star = || vec!["*".to_owned()];
    [
        PolicyRule { verbs: star(), api_groups: star(), resources: star(), ..PolicyRule::default() },
        PolicyRule { verbs: star(), non_resource_urls: star(), ..PolicyRule::default() },
    ]
}

fn name_of<'a>(write: &Write<'a>) -> &'a str {
    write.object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or(write.name)
}

fn may_bind(authorizer: &Authorizer, write: &Write<'_>, role: &RoleRef) -> bool {
    let resource = match role.kind.as_str() {
        "ClusterRole" => "clusterroles",
        "Role" => "roles",
        _ => return false,
    };
    let bind = Attributes::resource("bind", &role.api_group, resource).named(write.namespace, &role.name);
    authorizer.authorize(write.user, &bind).allowed()
}

/// Whether an update only changes what the garbage collector needs: owners and finalizers.
fn only_bookkeeping(write: &Write<'_>) -> bool {
    let Some(old) = write.old else { return false };
    let strip = |value: &Value| {
        let mut value = value.clone();
        if let Some(meta) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in ["ownerReferences", "finalizers", "managedFields"] {
                meta.remove(field);
            }
        }
        value
    };
    strip(old) == strip(write.object)
}

fn confirm(authorizer: &Authorizer, write: &Write<'_>, rules: &[PolicyRule]) -> Result<(), Status> {
    let (held, errors) = authorizer.rbac().rules_for(write.user, write.namespace);
    let Err(missing) = covers(&held, rules) else { return Ok(()) };
    let mut message = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        quoted(&write.user.name),
        quoted_list(&write.user.groups),
        missing.lines().join("\n"),
    );
    if !errors.is_empty() {
        message.push_str(&format!("; resolution errors: [{}]", errors.join(" ")));
    }
    Err(Status::forbidden(&GroupResource::new(GROUP, write.resource), name_of(write), &message))
}
