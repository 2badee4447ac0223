//! Defaults of static Pods: the same that the API server would give them.

use crate::error::{Error, Result};
use serde_json::Value;
use trireme_kinds::Registry;
use trireme_machinery::schema::decode::{self, Strictness};

/// Fills in the defaults of a Pod that no API server has seen.
pub(crate) fn pod(value: Value) -> Result<Value> {
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
    if kind != "Pod" {
        return Err(Error::Pod(format!("a manifest holds a Pod, not a {kind:?}")));
    }
    let Some(kind) = Registry::builtin().by_kind("", "v1", "Pod") else { return Ok(value) };
    let decoded = decode::normalise(&kind.schema, kind.ty, value, Strictness::Ignore);
    let (mut pod, _) = decoded.map_err(|error| Error::Pod(error.0))?;
    kind.default(&mut pod);
    Ok(pod)
}
