//! Parts of a document, each encoded as soon as it is made.
//!
//! All parts as values take some ten times the room of their text, which a server would keep from one rare request.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// Encoded values by their key.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct Encoded(BTreeMap<String, Box<RawValue>>);

impl Encoded {
    /// Adds a part, or replaces it.
    pub(super) fn put(&mut self, key: String, part: &Value) {
        // A value whose keys are text, as all are, has an encoding.
        if let Ok(text) = to_raw_value(part) {
            self.0.insert(key, text);
        }
    }

    /// Adds a part that is not there yet.
    pub(super) fn put_once(&mut self, key: &str, part: &Value) {
        if !self.0.contains_key(key) {
            self.put(key.to_owned(), part);
        }
    }
}
