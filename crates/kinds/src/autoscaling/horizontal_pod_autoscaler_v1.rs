//! HorizontalPodAutoscaler (v1 of autoscaling): an older form of version 2, whose rules hold for it.

use jiff::Timestamp;
use serde_json::Value;
use trireme_machinery::field::ErrorList;

use super::convert;
use super::horizontal_pod_autoscaler::HorizontalPodAutoscaler;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::table::TableColumn;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
        .short(&["hpa"])
        .category("all")
        .stored_as("autoscaling/v2")
        .generation()
        .status()
        .hooks(HorizontalPodAutoscalerV1)
}

#[derive(Debug)]
struct HorizontalPodAutoscalerV1;

impl Hooks for HorizontalPodAutoscalerV1 {
    fn table(&self) -> &'static [TableColumn] {
        HorizontalPodAutoscaler.table()
    }

    fn cells(&self, obj: &Value, now: Timestamp) -> Vec<Value> {
        HorizontalPodAutoscaler.cells(&self.upgrade(obj.clone()), now)
    }

    fn validate(&self, obj: &Value, ctx: &Context<'_>) -> ErrorList {
        HorizontalPodAutoscaler.validate(&self.upgrade(obj.clone()), ctx)
    }

    fn validate_update(&self, new: &Value, old: &Value, ctx: &Context<'_>) -> ErrorList {
        HorizontalPodAutoscaler.validate_update(&self.upgrade(new.clone()), &self.upgrade(old.clone()), ctx)
    }

    fn validate_update_status(&self, new: &Value, old: &Value, ctx: &Context<'_>) -> ErrorList {
        HorizontalPodAutoscaler.validate_update_status(&self.upgrade(new.clone()), &self.upgrade(old.clone()), ctx)
    }

    fn upgrade(&self, obj: Value) -> Value {
        convert::upgrade(obj)
    }

    fn downgrade(&self, obj: Value) -> Value {
        convert::downgrade(obj)
    }
}
