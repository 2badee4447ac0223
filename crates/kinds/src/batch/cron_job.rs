//! CronJob (v1 of batch).

use super::{schedule, validate};
use crate::check::Node;
use jiff::Timestamp;
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::meta;
use trireme_machinery::path::Path;

use crate::cells;
use crate::core::pod_warnings;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::table::{AGE, NAME, TableColumn, column, containers, field, images, wide};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("batch", "v1", "CronJob", "cronjobs")
        .short(&["cj"])
        .category("all")
        .generation()
        .status()
        .hooks(CronJob)
}

#[derive(Debug)]
struct CronJob;

impl Hooks for CronJob {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn warnings(&self, job: &Value, old: Option<&Value>) -> Vec<String> {
        let name = pod_warnings::of_name(job, old, "Pod names and hostnames");
        let template = ["spec", "jobTemplate", "spec", "template"];
        name.into_iter().chain(pod_warnings::of_workload(job, old, &template)).collect()
    }

    fn validate(&self, job: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_all(job, None, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_all(new, Some(old), &mut errors);
        errors
    }
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Schedule", "string", field("batch.v1.CronJobSpec", "schedule"), |o, _| cells::text(o, "spec.schedule")),
    column("Timezone", "string", field("batch.v1.CronJobSpec", "timeZone"), |o, _| {
        cells::text_or(o, "spec.timeZone", "<none>")
    }),
    column("Suspend", "boolean", field("batch.v1.CronJobSpec", "suspend"), |o, _| suspended(o)),
    column("Active", "integer", field("batch.v1.CronJobStatus", "active"), |o, _| cells::count(o, "status.active")),
    column("Last Schedule", "string", field("batch.v1.CronJobStatus", "lastScheduleTime"), last_schedule),
    AGE,
    containers(|o, _| cells::names(o, "spec.jobTemplate.spec.template.spec.containers")),
    images(|o, _| cells::images(o, "spec.jobTemplate.spec.template.spec.containers")),
    wide("Selector", "string", field("batch.v1.JobSpec", "selector"), |o, _| {
        cells::selector(o, "spec.jobTemplate.spec.selector")
    }),
];

fn suspended(job: &Value) -> Value {
    match cells::at(job, "spec.suspend").as_bool() {
        Some(true) => "True".into(),
        Some(false) => "False".into(),
        None => "<unset>".into(),
    }
}

fn last_schedule(job: &Value, now: Timestamp) -> Value {
    match cells::at(job, "status.lastScheduleTime") {
        Value::Null => "<none>".into(),
        time => cells::since(time, now).into(),
    }
}

/// Names of Jobs are that of the CronJob and a number behind it.
const MAX_NAME: usize = 52;

fn validate_all(job: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let name = meta::name(job);
    if old.is_none() && name.len() > MAX_NAME {
        let why = format!("must be no more than {MAX_NAME} characters");
        errors.push(field::invalid(&Path::new("metadata").child("name"), name, why));
    }
    let spec = Node::of(job, "spec");
    if spec.required("schedule", errors) {
        schedule::validate(&spec, errors);
    }
    if let Some(zone) = spec.given("timeZone") {
        schedule::time_zone(&zone, errors);
    }
    spec.nonnegative("startingDeadlineSeconds", errors);
    spec.required_one_of("concurrencyPolicy", &["Allow", "Forbid", "Replace"], errors);
    spec.nonnegative("successfulJobsHistoryLimit", errors);
    spec.nonnegative("failedJobsHistoryLimit", errors);
    let template = spec.get("jobTemplate").get("spec");
    validate::spec(&template, errors);
    for (key, why) in [
        ("manualSelector", "`manualSelector` not allowed in job template"),
        ("selector", "`selector` will be auto-generated"),
    ] {
        if template.flag(key) || (key == "selector" && template.has(key)) {
            template.invalid(key, why, errors);
        }
    }
}
