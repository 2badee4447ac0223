//! What becomes of an object by the state of its owners and of what it owns. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use trireme_client::{MetaObject, Object, Propagation};

use super::graph::{FOREGROUND, Found, ORPHAN, has_finalizer, owners};

/// An owner as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// It exists.
    Solid,
    /// It does not exist (any more).
    Absent,
    /// It is being deleted and waits for what it owns.
    Waiting,
    /// The server does not know its kind: nobody can tell.
    Unknown,
}

/// What is to be done with the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Nothing,
    /// Take these owners (by uid) out of its references.
    Disown(Vec<String>),
    /// Delete it; before that let its references not block (a cycle of owners that wait).
    Delete {
        how: Propagation,
        unblock: bool,
    },
    /// Take the finalizer away: all that was waited for is done.
    Finish(&'static str),
    /// These dependents have to go first, or to be let go.
    Foreground(Vec<usize>),
    Orphan(Vec<usize>),
}

/// An object that is being deleted: by its finalizers. `dependents` are all that name it.
pub(super) fn leaving(object: &MetaObject, dependents: &[Found]) -> Step {
    if has_finalizer(object, ORPHAN) {
        let all: Vec<usize> = (0..dependents.len()).collect();
        return if all.is_empty() { Step::Finish(ORPHAN) } else { Step::Orphan(all) };
    }
    if !has_finalizer(object, FOREGROUND) {
        return Step::Nothing;
    }
    let blocks = |r: &OwnerReference| r.uid == object.uid() && r.block_owner_deletion == Some(true);
    let blocking: Vec<usize> =
        (0..dependents.len()).filter(|at| owners(&dependents[*at].object).iter().any(blocks)).collect();
    if blocking.is_empty() { Step::Finish(FOREGROUND) } else { Step::Foreground(blocking) }
}

/// An object with owners: by what was found of them, in the order of its references. `dependents` say for each of what
/// it owns whether that waits for what it owns itself.
pub(super) fn staying(object: &MetaObject, found: &[Owner], dependents: &[bool]) -> Step {
    let uids = |wanted: &[Owner]| -> Vec<String> {
        let pairs = owners(object).iter().zip(found);
        pairs.filter(|(_, owner)| wanted.contains(owner)).map(|(r, _)| r.uid.clone()).collect()
    };
    if found.is_empty() || found.contains(&Owner::Unknown) {
        return Step::Nothing;
    }
    if found.contains(&Owner::Solid) {
        let rest = uids(&[Owner::Absent, Owner::Waiting]);
        return if rest.is_empty() { Step::Nothing } else { Step::Disown(rest) };
    }
    if found.contains(&Owner::Waiting) && !dependents.is_empty() {
        return Step::Delete { how: Propagation::Foreground, unblock: dependents.contains(&true) };
    }
    let how = if has_finalizer(object, ORPHAN) {
        Propagation::Orphan
    } else if has_finalizer(object, FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    Step::Delete { how, unblock: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::sync::Arc;
    use trireme_client::ApiResource;

    fn object(meta: Value) -> MetaObject {
        serde_json::from_value(json!({"metadata": meta})).unwrap()
    }

    fn owned(uids: &[&str]) -> MetaObject {
        let refs: Vec<_> =
            uids.iter().map(|u| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": u, "uid": u})).collect();
        object(json!({"name": "x", "uid": "x", "ownerReferences": refs}))
    }

    fn dependent(block: bool) -> Found {
        let meta = json!({"name": "d", "uid": "d", "ownerReferences":
            [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "o", "blockOwnerDeletion": block}]});
        let resource = ApiResource {
            group: String::new(),
            version: "v1".into(),
            kind: "ConfigMap".into(),
            plural: "configmaps".into(),
            namespaced: true,
        };
        Found { resource, object: Arc::new(object(meta)) }
    }

    #[test]
    fn without_owners_that_exist_it_goes() {
        let delete = |how| Step::Delete { how, unblock: false };
        assert_eq!(staying(&owned(&["a"]), &[Owner::Absent], &[]), delete(Propagation::Background));
        assert_eq!(staying(&owned(&["a"]), &[Owner::Waiting], &[]), delete(Propagation::Background));
        assert_eq!(staying(&owned(&["a"]), &[Owner::Waiting], &[false]), delete(Propagation::Foreground));
        assert_eq!(
            staying(&owned(&["a"]), &[Owner::Waiting], &[true]),
            Step::Delete { how: Propagation::Foreground, unblock: true }
        );
    }

    #[test]
    fn one_owner_that_exists_keeps_it() {
        assert_eq!(staying(&owned(&["a"]), &[Owner::Solid], &[]), Step::Nothing);
        assert_eq!(staying(&owned(&["a", "b"]), &[Owner::Solid, Owner::Absent], &[]), Step::Disown(vec!["b".into()]));
        assert_eq!(staying(&owned(&["a"]), &[Owner::Unknown], &[]), Step::Nothing);
    }

    #[test]
    fn a_foreground_deletion_waits_for_what_blocks_it() {
        let owner = object(
            json!({"name": "o", "uid": "o", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [FOREGROUND]}),
        );
        assert_eq!(leaving(&owner, &[dependent(false), dependent(true)]), Step::Foreground(vec![1]));
        assert_eq!(leaving(&owner, &[dependent(false)]), Step::Finish(FOREGROUND));
    }

    #[test]
    fn orphans_are_let_go_first() {
        let owner = object(
            json!({"name": "o", "uid": "o", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [ORPHAN]}),
        );
        assert_eq!(leaving(&owner, &[dependent(true)]), Step::Orphan(vec![0]));
        assert_eq!(leaving(&owner, &[]), Step::Finish(ORPHAN));
    }
}
