//! What a Deployment knows about its ReplicaSets: which is the new one, their revisions and annotations.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::common::{hash, owner};

pub(super) const HASH: &str = "pod-template-hash";
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAX: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations of a Deployment that its sets do not get.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
];
const LONGEST_HISTORY: usize = 2000;
const LONGEST_NAME: usize = 253;

/// How many pods a set is to have.
pub(super) fn size(set: &ReplicaSet) -> i32 {
    set.spec.replicas.unwrap_or(1)
}

pub(super) fn created(set: &ReplicaSet) -> Timestamp {
    set.metadata.creation_timestamp.as_ref().map_or(Timestamp::MAX, |t| t.0)
}

/// The order by age, oldest first.
pub(super) fn by_age(a: &ReplicaSet, b: &ReplicaSet) -> std::cmp::Ordering {
    created(a).cmp(&created(b)).then_with(|| a.metadata.name.cmp(&b.metadata.name))
}

/// A template as it is compared: without the hash, and without what is empty.
fn comparable(template: &PodTemplateSpec) -> Value {
    let mut template = template.clone();
    if let Some(labels) = template.metadata.as_mut().and_then(|m| m.labels.as_mut()) {
        labels.remove(HASH);
    }
    hash::without_empty(serde_json::to_value(&template).unwrap_or_default())
}

/// The set is of the Deployment's present template.
pub(super) fn same_template(set: &ReplicaSet, deployment: &Deployment) -> bool {
    let template = set.spec.template.clone().unwrap_or_default();
    comparable(&template) == comparable(&deployment.spec.template)
}

fn annotation<'a>(meta: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(name).map(String::as_str)
}

/// The set's revision: 0 if it has none, nothing if it is no number.
pub(super) fn revision(set: &ReplicaSet) -> Option<i64> {
    match annotation(&set.metadata, REVISION) {
        None => Some(0),
        Some(text) => text.parse().ok(),
    }
}

/// A count that the set remembers in an annotation.
pub(super) fn remembered(set: &ReplicaSet, name: &str) -> Option<i32> {
    annotation(&set.metadata, name)?.parse().ok().filter(|n| *n >= 0)
}

/// Writes down what the Deployment wants, for the next proportional scaling.
pub(super) fn remember_size(set: &mut ReplicaSet, desired: i32, most: i32) {
    let annotations = set.metadata.annotations.get_or_insert_default();
    annotations.insert(DESIRED.to_owned(), desired.to_string());
    annotations.insert(MAX.to_owned(), most.to_string());
}

/// Gives the new set the Deployment's annotations and its revision, and keeps those it had as history.
pub(super) fn annotate(set: &mut ReplicaSet, deployment: &Deployment, new_revision: i64) {
    let annotations = set.metadata.annotations.get_or_insert_default();
    for (name, value) in deployment.metadata.annotations.iter().flatten() {
        if !NOT_COPIED.contains(&name.as_str()) {
            annotations.insert(name.clone(), value.clone());
        }
    }
    let old = annotations.get(REVISION).cloned();
    let old_number = match old.as_deref() {
        None | Some("") => 0,
        Some(text) => match text.parse::<i64>() {
            Ok(number) => number,
            // Somebody else's: left as it is.
            Err(_) => return,
        },
    };
    if old_number >= new_revision {
        return;
    }
    annotations.insert(REVISION.to_owned(), new_revision.to_string());
    if let Some(old) = old {
        remember_revision(annotations, &old);
    }
}

fn remember_revision(annotations: &mut BTreeMap<String, String>, old: &str) {
    let history = annotations.get(HISTORY).cloned().unwrap_or_default();
    let mut revisions: Vec<&str> = history.split(',').filter(|r| !r.is_empty()).collect();
    revisions.push(old);
    let length = |revisions: &[&str]| revisions.iter().map(|r| r.len() + 1).sum::<usize>().saturating_sub(1);
    while revisions.len() > 1 && length(&revisions) > LONGEST_HISTORY {
        revisions.remove(0);
    }
    annotations.insert(HISTORY.to_owned(), revisions.join(","));
}

/// The ReplicaSet of the Deployment's present template, without pods yet.
pub(super) fn make(deployment: &Deployment, new_revision: i64) -> ReplicaSet {
    let spec = &deployment.spec;
    let collisions = deployment.status.as_ref().and_then(|s| s.collision_count);
    let hash = hash::short(&comparable(&spec.template), collisions);
    let mut template = spec.template.clone();
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    labels.insert(HASH.to_owned(), hash.clone());
    let labels = labels.clone();
    let mut selector = spec.selector.clone();
    selector.match_labels.get_or_insert_default().insert(HASH.to_owned(), hash.clone());
    let name = deployment.metadata.name.clone().unwrap_or_default();
    let longest = LONGEST_NAME - 1 - hash.len();
    let mut set = ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", &name[..name.len().min(longest)])),
            namespace: deployment.metadata.namespace.clone(),
            labels: Some(labels),
            owner_references: Some(vec![owner::reference_to(deployment)]),
            ..ObjectMeta::default()
        },
        spec: ReplicaSetSpec {
            replicas: Some(0),
            min_ready_seconds: spec.min_ready_seconds,
            selector,
            template: Some(template),
        },
        status: None,
    };
    annotate(&mut set, deployment, new_revision);
    set
}
