//! Defaults of workloads.

use trireme_machinery::schema::DefaultFn;

use crate::defaults::{Object, absent, empty, ensure, object, text};

/// Type and defaults.
pub(crate) const DEFAULTS: &[(&str, DefaultFn)] = &[
    ("apps.v1.Deployment", deployment),
    ("apps.v1.DaemonSet", daemon_set),
    ("apps.v1.StatefulSet", stateful_set),
    ("apps.v1.ReplicaSet", |o| with_spec(o, |spec| absent(spec, "replicas", 1))),
];

fn with_spec(obj: &mut Object, set: impl FnOnce(&mut Object)) {
    if let Some(spec) = ensure(obj, "spec") {
        set(spec);
    }
}

fn deployment(deployment: &mut Object) {
    with_spec(deployment, |spec| {
        absent(spec, "replicas", 1);
        absent(spec, "revisionHistoryLimit", 10);
        absent(spec, "progressDeadlineSeconds", 600);
        if let Some(strategy) = ensure(spec, "strategy") {
            empty(strategy, "type", "RollingUpdate");
            if text(strategy, "type") == "RollingUpdate"
                && let Some(rolling) = ensure(strategy, "rollingUpdate")
            {
                absent(rolling, "maxUnavailable", "25%");
                absent(rolling, "maxSurge", "25%");
            }
        }
    });
}

fn daemon_set(set: &mut Object) {
    with_spec(set, |spec| {
        absent(spec, "revisionHistoryLimit", 10);
        if let Some(strategy) = ensure(spec, "updateStrategy") {
            empty(strategy, "type", "RollingUpdate");
            if text(strategy, "type") == "RollingUpdate"
                && let Some(rolling) = ensure(strategy, "rollingUpdate")
            {
                absent(rolling, "maxUnavailable", 1);
                absent(rolling, "maxSurge", 0);
            }
        }
    });
}

fn stateful_set(set: &mut Object) {
    with_spec(set, |spec| {
        empty(spec, "podManagementPolicy", "OrderedReady");
        absent(spec, "replicas", 1);
        absent(spec, "revisionHistoryLimit", 10);
        if let Some(strategy) = ensure(spec, "updateStrategy") {
            if text(strategy, "type").is_empty() {
                empty(strategy, "type", "RollingUpdate");
                absent(strategy, "rollingUpdate", Object::new());
            }
            if text(strategy, "type") == "RollingUpdate"
                && let Some(rolling) = object(strategy, "rollingUpdate")
            {
                absent(rolling, "partition", 0);
                absent(rolling, "maxUnavailable", 1);
            }
        }
        if let Some(policy) = ensure(spec, "persistentVolumeClaimRetentionPolicy") {
            empty(policy, "whenDeleted", "Retain");
            empty(policy, "whenScaled", "Retain");
        }
    });
}
