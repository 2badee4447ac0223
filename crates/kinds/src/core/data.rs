//! The keys and sizes of what ConfigMaps and Secrets hold.

use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;
use trireme_machinery::path::Path;

use crate::check::{IMMUTABLE, Node};

/// All values together may be this long.
const MAX_BYTES: usize = 1024 * 1024;

/// Checks the keys; answers the length of all values.
pub(super) fn keys(entries: &[(&str, Node<'_>)], length: fn(&str) -> usize, errors: &mut ErrorList) -> usize {
    let mut size = 0;
    for (key, node) in entries {
        errors.extend(names::is_config_map_key(key).into_iter().map(|m| field::invalid(&node.path, *key, m)));
        size += length(node.text());
    }
    size
}

/// How many bytes a base64 text stands for.
pub(super) fn decoded_length(text: &str) -> usize {
    text.trim_end_matches('=').len() * 3 / 4
}

/// All values together are not too long.
pub(super) fn within_limit(size: usize, at: &Path, errors: &mut ErrorList) {
    if size > MAX_BYTES {
        errors.push(field::too_long(at, MAX_BYTES));
    }
}

/// What was made immutable stays so.
pub(super) fn immutable(new: &Value, old: &Value, keys: &[&str], errors: &mut ErrorList) {
    if old.get("immutable") != Some(&Value::Bool(true)) {
        return;
    }
    if new.get("immutable") != Some(&Value::Bool(true)) {
        errors.push(field::forbidden(&Path::new("immutable"), "field is immutable when `immutable` is set"));
    }
    for key in keys.iter().filter(|key| new.get(**key) != old.get(**key)) {
        errors.push(field::forbidden(&Path::new(key), format!("{IMMUTABLE} when `immutable` is set")));
    }
}
