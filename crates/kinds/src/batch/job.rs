//! Job (v1 of batch).

use super::{update, validate};
use crate::check::Node;
use crate::workload;
use jiff::Timestamp;
use serde_json::{Map, Value};
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::labels::Selector;
use trireme_machinery::meta;
use trireme_machinery::names;
use trireme_machinery::path::Path;
use trireme_machinery::tree;

use crate::cells;
use crate::core::pod_warnings;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::table::{AGE, NAME, TableColumn, column, containers, field, images, wide, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("batch", "v1", "Job", "jobs").category("all").generation().status().orphans().hooks(Job)
}

#[derive(Debug)]
struct Job;

impl Hooks for Job {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn selectable_field_names(&self) -> &'static [&'static str] {
        &["status.successful"]
    }

    fn selectable_field(&self, job: &Value, _: &str) -> String {
        cells::int(job, "status.succeeded").to_string()
    }

    fn prepare_create(&self, job: &mut Value, _: &Context<'_>) {
        if cells::at(job, "spec.manualSelector") != &Value::Bool(true) {
            generate_selector(job);
        }
        // A Job without labels is labelled like its Pods when it is read again.
        let labels = cells::at(job, "spec.template.metadata.labels").clone();
        if cells::at(job, "metadata.labels").as_object().is_none_or(Map::is_empty) && !labels.is_null() {
            job["metadata"]["labels"] = labels;
        }
    }

    fn warnings(&self, job: &Value, old: Option<&Value>) -> Vec<String> {
        let name = pod_warnings::of_name(job, old, "Pod names and hostnames");
        name.into_iter().chain(pod_warnings::of_workload(job, old, &["spec", "template"])).collect()
    }

    fn validate(&self, obj: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        generated_selector(obj, &mut errors);
        let spec = Node::of(obj, "spec");
        spec_and_selector(&spec, &mut errors);
        name_allows_completions(obj, &spec, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        let (new, old) = (Node::of(new, "spec"), Node::of(old, "spec"));
        spec_and_selector(&new, &mut errors);
        update::validate(&new, &old, &mut errors);
        errors
    }
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Status", "string", words("Status of the job."), |o, _| status(o).into()),
    column("Completions", "string", field("batch.v1.JobStatus", "succeeded"), |o, _| completions(o).into()),
    column("Duration", "string", words("Time required to complete the job."), |o, now| duration(o, now).into()),
    AGE,
    containers(|o, _| cells::names(o, "spec.template.spec.containers")),
    images(|o, _| cells::images(o, "spec.template.spec.containers")),
    wide("Selector", "string", field("batch.v1.JobSpec", "selector"), |o, _| cells::selector(o, "spec.selector")),
];

fn status(job: &Value) -> &'static str {
    if cells::has_condition(job, "Complete") {
        "Complete"
    } else if cells::has_condition(job, "Failed") {
        "Failed"
    } else if meta::is_deleting(job) {
        "Terminating"
    } else {
        let under_way = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
        under_way.into_iter().find(|c| cells::has_condition(job, c)).unwrap_or("Running")
    }
}

fn completions(job: &Value) -> String {
    let (succeeded, parallelism) = (cells::int(job, "status.succeeded"), cells::int(job, "spec.parallelism"));
    match cells::at(job, "spec.completions").as_i64() {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    }
}

fn duration(job: &Value, now: Timestamp) -> String {
    let time = |path: &str| cells::str(job, path).parse::<Timestamp>().ok();
    match (time("status.startTime"), time("status.completionTime")) {
        (None, _) => String::new(),
        (Some(start), end) => cells::human(end.unwrap_or(now).as_second() - start.as_second()),
    }
}

/// Labels of the Pods of a Job and the selector that finds them by its uid.
fn generate_selector(job: &mut Value) {
    let (name, uid) = (meta::name(job).to_owned(), meta::uid(job).to_owned());
    let labels = tree::ensure_map(job, &["spec", "template", "metadata", "labels"]);
    for (key, value) in
        [("job-name", &name), ("batch.kubernetes.io/job-name", &name), ("controller-uid", &uid), (CONTROLLER_UID, &uid)]
    {
        labels.entry(key).or_insert_with(|| value.as_str().into());
    }
    tree::ensure_map(job, &["spec", "selector", "matchLabels"]).entry(CONTROLLER_UID).or_insert_with(|| uid.into());
}

const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";

fn generated_selector(job: &Value, errors: &mut ErrorList) {
    let spec = Node::of(job, "spec");
    if spec.flag("manualSelector") || !spec.has("selector") {
        return;
    }
    let (name, uid) = (meta::name(job), meta::uid(job));
    if uid.is_empty() {
        errors.push(field::required(&Path::new("metadata").child("uid"), ""));
    }
    let metadata = spec.get("template").get("metadata");
    let expected =
        [("controller-uid", uid), ("job-name", name), (CONTROLLER_UID, uid), ("batch.kubernetes.io/job-name", name)];
    for (key, value) in expected {
        let found = metadata.get("labels").str(key);
        let at = metadata.path.child("labels").key(key);
        if !metadata.get("labels").has(key) {
            errors.push(field::required(&at, format!("must be '{value}'")));
        } else if found != value {
            errors.push(field::invalid(&at, metadata.get("labels").value, format!("must be '{value}'")));
        }
    }
    let expected: serde_json::Map<String, Value> =
        expected.into_iter().map(|(k, v)| (k.to_owned(), v.into())).collect();
    let selector = spec.get("selector");
    if Selector::from_label_selector(selector.value).is_ok_and(|s| !s.matches(&expected)) {
        errors.push(field::invalid(&selector.path, selector.value, "`selector` not auto-generated"));
    }
}

fn spec_and_selector(spec: &Node<'_>, errors: &mut ErrorList) {
    validate::spec(spec, errors);
    if spec.has("selector") {
        spec.selector("selector", errors);
    } else {
        errors.push(field::required(&spec.path.child("selector"), ""));
    }
    workload::template_labels(spec, true, None, errors);
}

/// The Pods of an indexed Job are called by their index.
fn name_allows_completions(job: &Value, spec: &Node<'_>, errors: &mut ErrorList) {
    let completions = spec.int("completions");
    if spec.str("completionMode") == "Indexed" && completions > 0 {
        let host = format!("{}-{}", meta::name(job), completions - 1);
        if !names::is_dns1123_label(&host).is_empty() {
            let why = format!("will not able to create pod with invalid DNS label: {host}");
            errors.push(field::invalid(&Path::new("metadata").child("name"), meta::name(job), why));
        }
    }
}
