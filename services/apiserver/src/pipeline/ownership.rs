//! Whose fields a write changes: `metadata.managedFields`.

use serde_json::Value;
use trireme_kinds::Kind;
use trireme_machinery::ownership::{Set, Update};
use trireme_machinery::schema::zero;
use trireme_machinery::status::Status;

use super::options::WriteOptions;
use super::{Context, Request};

/// A manager's name may be that long.
const MAX_NAME: usize = 128;
/// Who does not name itself.
const UNKNOWN: &str = "unknown";

/// Notes in `new` who owns what of it. `old` is the object before; None where it is created.
pub(super) fn track(
    context: &Context,
    kind: &Kind,
    subresource: &str,
    old: Option<&Value>,
    new: &mut Value,
    options: &WriteOptions,
) {
    let manager = manager(&options.field_manager, &context.user_agent);
    let update = Update {
        schema: &kind.schema,
        ty: kind.ty,
        api_version: &kind.api_version(),
        manager: &manager,
        subresource,
        ignored: &ignored(kind, subresource),
        now: context.now,
    };
    match old {
        Some(old) => update.apply(old, new),
        None => update.apply(&zero::zero(&kind.schema, kind.ty), new),
    }
}

/// The same for an object that is answered and never stored.
pub(crate) fn track_answered(
    context: &Context,
    kind: &Kind,
    object: &mut Value,
    request: &Request,
) -> Result<(), Status> {
    let options = WriteOptions::read(request, "CreateOptions")?;
    track(context, kind, "", None, object, &options);
    Ok(())
}

/// The name a client gave, else the first part of what it calls itself.
fn manager(given: &str, user_agent: &str) -> String {
    if !given.is_empty() {
        return given.to_owned();
    }
    let first = user_agent.split('/').next().unwrap_or_default();
    let name: String = first.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
    if name.is_empty() { UNKNOWN.to_owned() } else { name }
}

/// What a write does not change, whatever it says: the status of the object, or all but the status.
fn ignored(kind: &Kind, subresource: &str) -> Set {
    match (kind.plural.as_str(), subresource) {
        ("certificatesigningrequests", "") => Set::of(&[&["spec"], &["status"]]),
        ("certificatesigningrequests", "approval") => Set::of(&[&["spec"], &["status", "certificate"]]),
        ("pods", "status") => {
            Set::of(&[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]])
        }
        (_, "status") => Set::of(&[&["spec"], &["metadata", "labels"]]),
        (_, "" | "finalize") if kind.subresource("status").is_some() => Set::of(&[&["status"]]),
        _ => Set::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managers_are_named_by_themselves_or_their_program() {
        assert_eq!(manager("me", "kubectl/v1.37"), "me");
        assert_eq!(manager("", "kubectl/v1.37 (linux)"), "kubectl");
        assert_eq!(manager("", ""), "unknown");
    }
}
