//! The rules of a kind that takes a few functions to state: most kinds have a table and a validation, and nothing else.

use serde_json::Value;
use trireme_machinery::field::ErrorList;

use crate::hooks::{Context, Hooks};
use crate::table::{PLAIN, TableColumn};

/// Says what is wrong with an object.
pub(crate) type Check = fn(&Value, &mut ErrorList);
/// Says what is wrong with a new object (first) that takes the place of an old one.
pub(crate) type CheckUpdate = fn(&Value, &Value, &mut ErrorList);

/// Such rules.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Declared {
    /// What `kubectl get` shows.
    pub(crate) table: &'static [TableColumn],
    /// Checks a new object.
    pub(crate) check: Option<Check>,
    /// Checks an update; without it, the new object is checked as if it were created.
    pub(crate) check_update: Option<CheckUpdate>,
}

impl Declared {
    /// Those of a kind that says nothing.
    pub(crate) const NOTHING: Self = Self { table: PLAIN, check: None, check_update: None };
}

impl Hooks for Declared {
    fn table(&self) -> &'static [TableColumn] {
        self.table
    }

    fn validate(&self, obj: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        if let Some(check) = self.check {
            check(obj, &mut errors);
        }
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value, ctx: &Context<'_>) -> ErrorList {
        let Some(check_update) = self.check_update else { return self.validate(new, ctx) };
        let mut errors = ErrorList::new();
        check_update(new, old, &mut errors);
        errors
    }
}
