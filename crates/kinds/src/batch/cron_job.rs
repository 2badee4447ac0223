//! CronJob (v1 of batch).

use jiff::Timestamp;
use serde_json::Value;

use crate::cells;
use crate::definition::Definition;
use crate::hooks::Hooks;
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
