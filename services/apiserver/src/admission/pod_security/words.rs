//! How violations are put into words.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::admission::pod;

/// `"a", "b"`.
pub(super) fn quoted<S: AsRef<str>>(items: impl IntoIterator<Item = S>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| format!("\"{}\"", item.as_ref())).collect();
    items.join(", ")
}

/// One word for one, another for more.
pub(super) fn plural(count: usize, one: &'static str, more: &'static str) -> &'static str {
    if count == 1 { one } else { more }
}

/// `container "a"` or `containers "a", "b"`.
pub(super) fn containers(names: &[&str]) -> String {
    format!("{} {}", plural(names.len(), "container", "containers"), quoted(names))
}

/// `pod`, `container "a"`, or both: who set something.
pub(super) fn setters(pod: bool, names: &[&str]) -> Option<String> {
    let mut parts = Vec::new();
    if pod {
        parts.push("pod".to_owned());
    }
    if !names.is_empty() {
        parts.push(containers(names));
    }
    (!parts.is_empty()).then(|| parts.join(" and "))
}

/// The names of containers of which something is true.
pub(super) fn named<'a>(spec: &'a Value, mut wanted: impl FnMut(&'a Value) -> bool) -> Vec<&'a str> {
    pod::containers(spec)
        .filter(|(_, container)| wanted(container))
        .map(|(_, container)| pod::text(container, "name"))
        .collect()
}

/// Values of one field of the Pod's and its containers' security contexts that are not allowed: who set them, and which.
pub(super) fn bad_field<'a>(
    spec: &'a Value,
    pointer: &str,
    allowed: impl Fn(&Value) -> bool,
    show: impl Fn(&'a Value) -> String,
) -> (bool, Vec<&'a str>, BTreeSet<String>) {
    let mut values = BTreeSet::new();
    let mut bad = |holder: &'a Value| {
        let Some(value) = holder["securityContext"].pointer(pointer).filter(|value| !value.is_null()) else {
            return false;
        };
        if allowed(value) {
            return false;
        }
        values.insert(show(value));
        true
    };
    let pod = bad(spec);
    let names = named(spec, &mut bad);
    (pod, names, values)
}

/// A text value as it is.
pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
