//! The options of the verbs.

use serde::Serialize;
use serde_json::Value;

/// Options of get.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GetParams {
    /// Unset: the newest. "0": whatever the server has at hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// Options of list and of what is selected by a watch.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListParams {
    /// As in `app=web,tier!=db`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
    /// As in `spec.nodeName=n1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<String>,
    /// At most so many; the answer then says how to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
    /// Where the list before ended.
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    pub continue_token: Option<String>,
    /// Unset: the newest. "0": whatever the server has at hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// `Exact` or `NotOlderThan`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version_match: Option<String>,
    /// How long the server may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u32>,
}

impl ListParams {
    /// Only objects with these labels.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.label_selector = Some(selector.into());
        self
    }

    /// Only objects with these fields.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.field_selector = Some(selector.into());
        self
    }

    /// At most so many a page.
    #[must_use]
    pub fn limit(mut self, limit: i64) -> Self {
        self.limit = Some(limit);
        self
    }
}

/// Options of create and update.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PostParams {
    /// Only try: nothing is kept.
    #[serde(rename = "dryRun", skip_serializing_if = "is_false", serialize_with = "dry_run_all")]
    pub dry_run: bool,
    /// Who writes, for managedFields; unset: from the user agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_manager: Option<String>,
    /// `Ignore`, `Warn` or `Strict`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_validation: Option<String>,
}

/// Options of patch.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PatchParams {
    /// Only try: nothing is kept.
    #[serde(rename = "dryRun", skip_serializing_if = "is_false", serialize_with = "dry_run_all")]
    pub dry_run: bool,
    /// Who writes, for managedFields. Server-side apply needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_manager: Option<String>,
    /// Server-side apply: take fields from other managers.
    #[serde(skip_serializing_if = "is_false")]
    pub force: bool,
}

impl PatchParams {
    /// Server-side apply as this manager, taking fields from others.
    #[must_use]
    pub fn apply(manager: impl Into<String>) -> Self {
        Self { field_manager: Some(manager.into()), force: true, dry_run: false }
    }
}

/// A patch and its kind.
#[derive(Debug, Clone)]
pub enum Patch {
    /// RFC 6902.
    Json(Value),
    /// RFC 7386.
    Merge(Value),
    /// Kubernetes' strategic merge.
    Strategic(Value),
    /// Server-side apply.
    Apply(Value),
}

impl Patch {
    /// The content type that says which kind it is.
    #[must_use]
    pub fn content_type(&self) -> &'static str {
        match self {
            Patch::Json(_) => "application/json-patch+json",
            Patch::Merge(_) => "application/merge-patch+json",
            Patch::Strategic(_) => "application/strategic-merge-patch+json",
            Patch::Apply(_) => "application/apply-patch+yaml",
        }
    }

    /// The patch itself.
    #[must_use]
    pub fn value(&self) -> &Value {
        match self {
            Patch::Json(v) | Patch::Merge(v) | Patch::Strategic(v) | Patch::Apply(v) => v,
        }
    }
}

/// What becomes of what an object owns when it is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Propagation {
    /// It stays, without this owner.
    Orphan,
    /// It is deleted afterwards.
    Background,
    /// It is deleted first.
    Foreground,
}

/// What must hold for a delete.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preconditions {
    /// The object has this uid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The object has this resourceVersion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// Options of delete.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeleteParams {
    /// Seconds the object has to end; unset: its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// What becomes of what it owns; unset: the kind's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagation_policy: Option<Propagation>,
    /// What must hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preconditions: Option<Preconditions>,
    /// Only try.
    #[serde(rename = "dryRun", skip_serializing_if = "is_false", serialize_with = "dry_run_all")]
    pub dry_run: bool,
}

impl DeleteParams {
    /// Delete only the object with this uid.
    #[must_use]
    pub fn uid(uid: impl Into<String>) -> Self {
        Self { preconditions: Some(Preconditions { uid: Some(uid.into()), resource_version: None }), ..Self::default() }
    }

    /// With this propagation.
    #[must_use]
    pub fn propagation(mut self, propagation: Propagation) -> Self {
        self.propagation_policy = Some(propagation);
        self
    }

    /// With this grace.
    #[must_use]
    pub fn grace(mut self, seconds: i64) -> Self {
        self.grace_period_seconds = Some(seconds);
        self
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn dry_run_all<S: serde::Serializer>(_: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    ["All"].serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn options_are_written_as_kubernetes_writes_them() {
        let options = DeleteParams::uid("u").propagation(Propagation::Foreground).grace(0);
        assert_eq!(
            serde_json::to_value(options).unwrap(),
            json!({"gracePeriodSeconds": 0, "propagationPolicy": "Foreground", "preconditions": {"uid": "u"}})
        );
        assert_eq!(
            serde_json::to_value(PostParams { dry_run: true, ..Default::default() }).unwrap(),
            json!({"dryRun": ["All"]})
        );
    }
}
