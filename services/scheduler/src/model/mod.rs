//! Pods and nodes as the scheduler looks at them: what it needs of them, computed once.

pub mod affinity;
pub mod node;
pub mod pod;
pub mod resources;
pub mod taints;

pub use node::NodeInfo;
pub use pod::{HostPort, PodInfo};
pub use resources::Resources;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use trireme_machinery::labels::Selector;

/// Labels of an object.
pub type LabelMap = BTreeMap<String, String>;

/// A label that holds a node's name.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

pub(crate) fn no_labels() -> &'static LabelMap {
    static NONE: LabelMap = BTreeMap::new();
    &NONE
}

/// The selector of a `LabelSelector`; none matches nothing, and so does one that is malformed.
pub(crate) fn selector(selector: Option<&LabelSelector>) -> Selector {
    selector
        .and_then(|selector| serde_json::to_value(selector).ok())
        .and_then(|value| Selector::from_label_selector(&value).ok())
        .unwrap_or_else(Selector::nothing)
}
