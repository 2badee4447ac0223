//! Storage that is in use stays: objects carry a finalizer from their beginning (admission gives it to them), and a
//! controller a kind takes it away once they are deleted and nothing uses them any more.

pub(crate) mod claims;
pub(crate) mod classes;
pub(crate) mod volumes;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use trireme_client::{Api, Error, Known, Object, PostParams};

/// What to do with an object's finalizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It was made when admission did not do so.
    Add,
    /// It is deleted and of no use any more.
    Remove,
}

fn has(meta: &ObjectMeta, finalizer: &str) -> bool {
    meta.finalizers.iter().flatten().any(|one| one == finalizer)
}

/// There is something to look at: it is deleted and still has the finalizer, or the other way round.
fn concerns(object: &impl Object, finalizer: &str) -> bool {
    object.is_deleting() == has(object.meta(), finalizer)
}

/// The planner: whether it is used is asked only where it matters.
fn plan(object: &impl Object, finalizer: &str, is_used: impl FnOnce() -> bool) -> Option<Step> {
    match (concerns(object, finalizer), object.is_deleting()) {
        (true, true) => (!is_used()).then_some(Step::Remove),
        (true, false) => Some(Step::Add),
        (false, _) => None,
    }
}

/// As it is to be written.
fn after<K: Object>(object: &K, finalizer: &str, step: Step) -> K {
    let mut next = object.clone();
    let all = next.meta_mut().finalizers.get_or_insert_default();
    match step {
        Step::Add => all.push(finalizer.to_owned()),
        Step::Remove => all.retain(|one| one != finalizer),
    }
    next
}

async fn write<K: Known>(api: &Api<K>, object: &K, finalizer: &str, step: Step) -> Result<(), Error> {
    // It names the version that was seen.
    match api.update(&PostParams::default(), &after(object, finalizer, step)).await {
        Err(error) if error.is_not_found() => Ok(()),
        other => other.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::PersistentVolume;
    use serde_json::json;

    const FINALIZER: &str = "kubernetes.io/pv-protection";

    fn volume(deleted: bool, finalizers: &[&str]) -> PersistentVolume {
        let deleted = deleted.then_some("2026-01-01T00:00:00Z");
        serde_json::from_value(
            json!({"metadata": {"name": "v", "deletionTimestamp": deleted, "finalizers": finalizers}}),
        )
        .unwrap()
    }

    #[test]
    fn what_is_deleted_loses_it_when_it_is_not_used_and_what_lives_has_it() {
        let step = |deleted, finalizers: &[&str], used| plan(&volume(deleted, finalizers), FINALIZER, || used);
        assert_eq!(step(true, &[FINALIZER], false), Some(Step::Remove));
        assert_eq!(step(true, &[FINALIZER], true), None);
        assert_eq!(step(true, &["example.com/mine"], false), None, "it waits for somebody else");
        assert_eq!(step(false, &[FINALIZER], false), None);
        assert_eq!(step(false, &[], true), Some(Step::Add));
    }

    #[test]
    fn the_finalizers_of_others_stay() {
        let of = |volume: PersistentVolume| volume.metadata.finalizers.unwrap();
        let both = volume(true, &["example.com/mine", FINALIZER]);
        assert_eq!(of(after(&both, FINALIZER, Step::Remove)), ["example.com/mine"]);
        let one = volume(false, &["example.com/mine"]);
        assert_eq!(of(after(&one, FINALIZER, Step::Add)), ["example.com/mine", FINALIZER]);
    }
}
