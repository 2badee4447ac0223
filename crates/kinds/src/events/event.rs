//! Event (v1 of events.k8s.io): the Event of the core group with other names for its fields.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use trireme_machinery::field::ErrorList;

use crate::core::{event, event_validate};
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::table::TableColumn;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("events.k8s.io", "v1", "Event", "events")
        .short(&["ev"])
        .stored_as("v1")
        .create_on_update()
        .hooks(Event)
}

#[derive(Debug)]
struct Event;

impl Hooks for Event {
    fn table(&self) -> &'static [TableColumn] {
        event::TABLE
    }

    fn cells(&self, obj: &Value, now: Timestamp) -> Vec<Value> {
        let event = self.upgrade(obj.clone());
        event::TABLE.iter().map(|column| column.cell(&event, now)).collect()
    }

    fn selectable_field_names(&self) -> &'static [&'static str] {
        event::Event.selectable_field_names()
    }

    fn selectable_field(&self, obj: &Value, name: &str) -> String {
        event::Event.selectable_field(&self.upgrade(obj.clone()), name)
    }

    fn validate(&self, obj: &Value, _: &Context<'_>) -> ErrorList {
        event_validate::current(&self.upgrade(obj.clone()))
    }

    fn validate_update(&self, new: &Value, old: &Value, _: &Context<'_>) -> ErrorList {
        event_validate::current_update(&self.upgrade(new.clone()), &self.upgrade(old.clone()))
    }

    fn upgrade(&self, obj: Value) -> Value {
        let Value::Object(mut event) = obj else { return obj };
        event.insert("apiVersion".to_owned(), "v1".into());
        for (core, current) in FIELDS {
            rename(&mut event, current, core);
        }
        for (key, empty) in [
            ("involvedObject", json!({})),
            ("source", json!({})),
            ("firstTimestamp", Value::Null),
            ("lastTimestamp", Value::Null),
            ("eventTime", Value::Null),
            ("reportingComponent", json!("")),
            ("reportingInstance", json!("")),
        ] {
            event.entry(key).or_insert(empty);
        }
        Value::Object(event)
    }

    fn downgrade(&self, obj: Value) -> Value {
        let Value::Object(mut event) = obj else { return obj };
        event.insert("apiVersion".to_owned(), "events.k8s.io/v1".into());
        for key in ["reportingComponent", "reportingInstance", "message", "action", "reason", "type"] {
            if event.get(key).is_some_and(|v| v == "") {
                event.remove(key);
            }
        }
        for (core, current) in FIELDS {
            rename(&mut event, core, current);
        }
        for (key, empty) in [
            ("regarding", json!({})),
            ("deprecatedSource", json!({})),
            ("deprecatedFirstTimestamp", Value::Null),
            ("deprecatedLastTimestamp", Value::Null),
            ("eventTime", Value::Null),
        ] {
            event.entry(key).or_insert(empty);
        }
        Value::Object(event)
    }
}

/// What the core group calls a field, and what this one does.
const FIELDS: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

fn rename(event: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = event.remove(from) {
        event.insert(to.to_owned(), value);
    }
}
