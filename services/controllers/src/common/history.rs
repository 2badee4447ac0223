//! The history of a template as ControllerRevisions. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde_json::{Value, json};
use trireme_client::{Known, Object};

use super::{hash, owner};

/// The label of revisions and pods.
pub(crate) const HASH: &str = "controller-revision-hash";

/// The revision of the present template, and what has to be done for it to be the newest.
#[derive(Debug)]
pub(crate) struct Current {
    /// It; without a resourceVersion it is to be created.
    pub(crate) revision: ControllerRevision,
    /// It exists with a lower number and is to be updated.
    pub(crate) renumbered: bool,
    /// The others, oldest first.
    pub(crate) old: Vec<Arc<ControllerRevision>>,
}

impl Current {
    /// What the pods of this revision are labelled with.
    pub(crate) fn hash(&self) -> &str {
        hash_of(&self.revision.metadata)
    }
}

/// The revision that an object is of.
pub(crate) fn hash_of(meta: &ObjectMeta) -> &str {
    meta.labels.as_ref().and_then(|l| l.get(HASH)).map_or("", String::as_str)
}

/// The template as a revision keeps it: a patch that puts it back.
pub(crate) fn data(template: &PodTemplateSpec) -> Value {
    let mut template = serde_json::to_value(template).unwrap_or_default();
    if let Some(fields) = template.as_object_mut() {
        fields.insert("$patch".to_owned(), json!("replace"));
    }
    json!({"spec": {"template": template}})
}

fn number(revision: &ControllerRevision) -> i64 {
    revision.revision.unwrap_or(0)
}

/// Finds the revision of the present template among the owner's, or makes it.
pub(crate) fn current<O: Known>(
    owner: &O,
    template: &PodTemplateSpec,
    collisions: Option<i32>,
    known: &[Arc<ControllerRevision>],
) -> Current {
    let wanted = data(template);
    let same = |r: &ControllerRevision| hash::without_empty(r.data.0.clone()) == hash::without_empty(wanted.clone());
    let (mut equal, mut old): (Vec<_>, Vec<_>) = known.iter().cloned().partition(|r| same(r));
    old.sort_by_key(|r| (number(r), r.key()));
    equal.sort_by_key(|r| (number(r), r.key()));
    let next = old.last().map_or(0, |r| number(r)) + 1;
    // Of several that are equal the newest is it; the others are history.
    if let Some(found) = equal.pop() {
        old.extend(equal);
        old.sort_by_key(|r| (number(r), r.key()));
        let renumbered = number(&found) < next;
        let mut revision = (*found).clone();
        if renumbered {
            revision.revision = Some(next);
        }
        return Current { revision, renumbered, old };
    }
    let hash = hash::short(&hash::without_empty(wanted.clone()), collisions);
    let name = owner.meta().name.clone().unwrap_or_default();
    let mut labels = template.metadata.as_ref().and_then(|m| m.labels.clone()).unwrap_or_default();
    labels.insert(HASH.to_owned(), hash.clone());
    let revision = ControllerRevision {
        metadata: ObjectMeta {
            name: Some(format!("{name}-{hash}")),
            namespace: owner.meta().namespace.clone(),
            labels: Some(labels),
            annotations: owner.meta().annotations.clone(),
            owner_references: Some(vec![owner::reference_to(owner)]),
            ..ObjectMeta::default()
        },
        data: RawExtension(wanted),
        revision: Some(next),
    };
    Current { revision, renumbered: false, old }
}

/// The old revisions that are beyond the limit and of which no pod is.
pub(crate) fn superfluous(
    old: &[Arc<ControllerRevision>],
    limit: Option<i32>,
    live: &BTreeSet<String>,
) -> Vec<Arc<ControllerRevision>> {
    let limit = usize::try_from(limit.unwrap_or(10)).unwrap_or(0);
    let dead = old.iter().filter(|r| !live.contains(hash_of(&r.metadata)));
    dead.take(old.len().saturating_sub(limit)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::apps::v1::DaemonSet;

    fn owner() -> DaemonSet {
        serde_json::from_value(json!({"metadata": {"name": "d", "uid": "u"}})).unwrap()
    }

    fn template(image: &str) -> PodTemplateSpec {
        serde_json::from_value(
            json!({"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": image}]}}),
        )
        .unwrap()
    }

    #[test]
    fn a_template_that_comes_back_takes_its_revision_with_a_new_number() {
        let mut known: Vec<Arc<ControllerRevision>> = Vec::new();
        for image in ["a", "b"] {
            let current = current(&owner(), &template(image), None, &known);
            assert_eq!(current.revision.revision, Some(i64::try_from(known.len()).unwrap() + 1));
            known.push(Arc::new(current.revision));
        }
        let back = current(&owner(), &template("a"), None, &known);
        assert!(back.renumbered);
        assert_eq!((back.revision.revision, back.old.len()), (Some(3), 1));
        assert_eq!(back.hash(), hash_of(&known[0].metadata));
        let same = current(&owner(), &template("b"), None, &known);
        assert!(!same.renumbered);
    }

    #[test]
    fn revisions_of_pods_that_live_are_kept() {
        let mut known: Vec<Arc<ControllerRevision>> = Vec::new();
        for image in ["a", "b", "c"] {
            known.push(Arc::new(current(&owner(), &template(image), None, &known).revision));
        }
        let live = BTreeSet::from([hash_of(&known[0].metadata).to_owned()]);
        let names: Vec<_> = superfluous(&known, Some(1), &live).iter().map(|r| r.revision).collect();
        assert_eq!(names, [Some(2), Some(3)]);
        assert!(superfluous(&known, Some(3), &live).is_empty());
    }
}
