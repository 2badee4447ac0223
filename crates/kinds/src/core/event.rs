//! Event (v1).

use jiff::Timestamp;
use serde_json::Value;
use trireme_machinery::field::ErrorList;

use crate::cells;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::rules::NameRule;
use crate::table::{TableColumn, column, field, wide};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "Event", "events")
        .free_finalizers()
        .names(NameRule::PathSegment)
        .short(&["ev"])
        .create_on_update()
        .hooks(Event)
}

#[derive(Debug)]
pub(crate) struct Event;

impl Hooks for Event {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn selectable_field_names(&self) -> &'static [&'static str] {
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ]
    }

    fn selectable_field(&self, event: &Value, name: &str) -> String {
        match name {
            "source" => match cells::str(event, "source.component") {
                "" => cells::str(event, "reportingComponent").to_owned(),
                component => component.to_owned(),
            },
            name => cells::str(event, name).to_owned(),
        }
    }

    fn validate(&self, event: &Value, _: &Context<'_>) -> ErrorList {
        super::event_validate::legacy(event)
    }
}

/// What `kubectl get` shows.
pub(crate) static TABLE: &[TableColumn] = &[
    column("Last Seen", "string", field("core.v1.Event", "lastTimestamp"), |o, now| last_seen(o, now).into()),
    column("Type", "string", field("core.v1.Event", "type"), |o, _| cells::text(o, "type")),
    column("Reason", "string", field("core.v1.Event", "reason"), |o, _| cells::text(o, "reason")),
    column("Object", "string", field("core.v1.Event", "involvedObject"), |o, _| object(o, "involvedObject").into()),
    wide("Subobject", "string", field("core.v1.ObjectReference", "fieldPath"), |o, _| {
        cells::text(o, "involvedObject.fieldPath")
    }),
    wide("Source", "string", field("core.v1.Event", "source"), |o, _| source(o, "source").into()),
    column("Message", "string", field("core.v1.Event", "message"), |o, _| cells::str(o, "message").trim().into()),
    wide("First Seen", "string", field("core.v1.Event", "firstTimestamp"), |o, now| {
        first_seen(o, now, "firstTimestamp").into()
    }),
    wide("Count", "string", field("core.v1.Event", "count"), |o, _| count(o, "count").into()),
    wide("Name", "string", field("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "name"), |o, _| {
        cells::text(o, "metadata.name")
    })
    .formatted("name"),
];

/// When an event was first seen; `old` is the field that old recorders fill.
pub(crate) fn first_seen(event: &Value, now: Timestamp, old: &str) -> String {
    match cells::at(event, old) {
        Value::Null => cells::since(cells::at(event, "eventTime"), now),
        time => cells::since(time, now),
    }
}

fn last_seen(event: &Value, now: Timestamp) -> String {
    match (cells::at(event, "series.lastObservedTime"), cells::at(event, "lastTimestamp")) {
        (Value::Null, _) if !cells::at(event, "series").is_null() => "<unknown>".to_owned(),
        (Value::Null, Value::Null) => first_seen(event, now, "firstTimestamp"),
        (Value::Null, time) | (time, _) => cells::since(time, now),
    }
}

/// How often an event happened.
pub(crate) fn count(event: &Value, old: &str) -> i64 {
    match cells::at(event, "series.count").as_i64() {
        Some(count) => count,
        None => cells::int(event, old).max(1),
    }
}

/// What an event is about, as `pod/web`.
pub(crate) fn object(event: &Value, field: &str) -> String {
    let (kind, name) =
        (cells::str(event, &format!("{field}.kind")).to_lowercase(), cells::str(event, &format!("{field}.name")));
    if name.is_empty() { kind } else { format!("{kind}/{name}") }
}

/// Who reported an event.
pub(crate) fn source(event: &Value, old: &str) -> String {
    let first = |a: &str, b: &str| {
        let a = cells::str(event, a);
        if a.is_empty() { cells::str(event, b).to_owned() } else { a.to_owned() }
    };
    let component =
        first(&format!("{old}.component"), if old == "source" { "reportingComponent" } else { "reportingController" });
    match first(&format!("{old}.host"), "reportingInstance") {
        instance if instance.is_empty() => component,
        instance => format!("{component}, {instance}"),
    }
}
