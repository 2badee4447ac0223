//! What a list or a watch selects, and what an event is to it.

use std::sync::Arc;

use trireme_kinds::Kind;
use trireme_machinery::{fields, labels};

use super::Event;
use crate::pipeline::Stored;

/// A selection of one kind's objects.
#[derive(Debug, Clone)]
pub struct Selection {
    /// What its keys begin with.
    pub prefix: String,
    /// The key of the only object it can hold.
    pub key: Option<String>,
    /// Which labels.
    pub labels: labels::Selector,
    /// Which fields.
    pub fields: fields::Selector,
    /// The kind as it is asked for, when its selectable fields are not those of the kind as it is stored.
    pub converted: Option<Arc<Kind>>,
}

/// What an event is to a selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is there now and was not before.
    Added,
    /// It was there and still is.
    Modified,
    /// It is no longer there.
    Deleted,
}

// === impl Selection ===

impl Selection {
    /// Every object below a prefix.
    pub fn all(prefix: impl Into<String>) -> Self {
        Self {
            prefix: prefix.into(),
            key: None,
            labels: labels::Selector::everything(),
            fields: fields::Selector::everything(),
            converted: None,
        }
    }

    /// Whether it holds every object below its prefix.
    pub fn is_plain(&self) -> bool {
        self.key.is_none() && self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object belongs to it.
    pub fn holds(&self, object: &Stored) -> bool {
        if !self.covers(&object.key) {
            return false;
        }
        if !self.labels.is_empty() && !self.labels.matches(&LabelsOf(object)) {
            return false;
        }
        if self.fields.is_empty() {
            return true;
        }
        match &self.converted {
            None => {
                let own = [("metadata.name", &*object.name), ("metadata.namespace", &*object.namespace)];
                let rest = object.fields.iter().map(|(name, value)| (&**name, &**value));
                self.fields.matches(&own.into_iter().chain(rest).collect::<Vec<_>>())
            }
            Some(kind) => self.fields.matches(&kind.selectable_fields(&kind.hooks.downgrade(object.value()))),
        }
    }

    /// Whether a key can belong to it.
    pub fn covers(&self, key: &str) -> bool {
        match &self.key {
            Some(only) => key == only,
            None => key.starts_with(&self.prefix),
        }
    }

    /// What an event is to this selection; None if nothing.
    pub fn change(&self, event: &Event) -> Option<Change> {
        if !self.covers(&event.object.key) {
            return None;
        }
        let before = event.previous.as_ref().is_some_and(|object| self.holds(object));
        let after = !event.deleted && self.holds(&event.object);
        match (before, after) {
            (false, true) => Some(Change::Added),
            (true, true) => Some(Change::Modified),
            (true, false) => Some(Change::Deleted),
            (false, false) => None,
        }
    }
}

/// An object's labels, as selectors look them up.
struct LabelsOf<'a>(&'a Stored);

impl labels::Labels for LabelsOf<'_> {
    fn lookup(&self, key: &str) -> Option<&str> {
        self.0.label(key)
    }
}
