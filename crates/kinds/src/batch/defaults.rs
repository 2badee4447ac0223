//! Defaults of Jobs.

use trireme_machinery::schema::DefaultFn;

use crate::defaults::{Object, absent, empty, ensure, object};

/// Type and defaults.
pub(crate) const DEFAULTS: &[(&str, DefaultFn)] = &[
    ("batch.v1.Job", job),
    ("batch.v1.CronJob", cron_job),
    ("batch.v1.PodFailurePolicyOnPodConditionsPattern", |o| empty(o, "status", "True")),
];

fn job(job: &mut Object) {
    let labels = job.get("spec").and_then(|s| s["template"]["metadata"]["labels"].as_object()).cloned();
    if let (Some(labels), Some(metadata)) = (labels, object(job, "metadata")) {
        empty(metadata, "labels", labels);
    }
    let Some(spec) = ensure(job, "spec") else { return };
    if !spec.contains_key("parallelism") {
        absent(spec, "completions", 1);
    }
    absent(spec, "parallelism", 1);
    let limit = if spec.contains_key("backoffLimitPerIndex") { i32::MAX } else { 6 };
    absent(spec, "backoffLimit", limit);
    absent(spec, "completionMode", "NonIndexed");
    absent(spec, "suspend", false);
    let replacement = if spec.contains_key("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    absent(spec, "podReplacementPolicy", replacement);
    absent(spec, "manualSelector", false);
}

fn cron_job(job: &mut Object) {
    let Some(spec) = ensure(job, "spec") else { return };
    empty(spec, "concurrencyPolicy", "Allow");
    absent(spec, "suspend", false);
    absent(spec, "successfulJobsHistoryLimit", 3);
    absent(spec, "failedJobsHistoryLimit", 1);
}
