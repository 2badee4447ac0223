//! Label selectors of typed objects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use trireme_machinery::labels::Selector;

/// The selector of a typed object; one that cannot be read matches nothing.
pub(crate) fn of(selector: &LabelSelector) -> Selector {
    serde_json::to_value(selector)
        .ok()
        .and_then(|value| Selector::from_label_selector(&value).ok())
        .unwrap_or_else(Selector::nothing)
}

/// The selector is empty, so it would match everything.
pub(crate) fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
}
