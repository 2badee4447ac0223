//! Making an object what it should be.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream;
use serde_json::Value;
use trireme_kinds::Kind;
use trireme_machinery::meta;
use trireme_machinery::status::Status;

use crate::pipeline::{Context, Objects};

/// How many objects are written at once: enough for the store to commit them together.
const AT_ONCE: usize = 16;

/// Creates `object` if it is not there, else lets `amend` change what is there. An unchanged object is not written.
pub async fn ensure<F>(
    objects: &dyn Objects,
    duty: &str,
    kind: &Arc<Kind>,
    object: &Value,
    amend: F,
) -> Result<(), Status>
where
    F: Fn(&mut Value) + Send + Sync,
{
    let (namespace, name) = (meta::namespace(object), meta::name(object));
    if let Some(stored) = objects.reader().get(kind, namespace, name) {
        let before = stored.value();
        let mut after = before.clone();
        amend(&mut after);
        if after == before {
            return Ok(());
        }
    } else {
        let context = Context::internal(duty);
        match objects.create(&context, kind, namespace, object.clone()).await {
            Ok(_) => return Ok(()),
            Err(status) if status.is_already_exists() => {}
            Err(status) => return Err(status),
        }
    }
    let context = Context::internal(duty);
    let mut change = |value: &mut Value| {
        amend(value);
        Ok(())
    };
    match objects.update(&context, kind, namespace, name, "", &mut change).await {
        Ok(_) => Ok(()),
        // Someone deleted it meanwhile; the next round makes it again.
        Err(status) if status.is_not_found() => Err(status),
        Err(status) => Err(status),
    }
}

/// [`ensure`] for many objects at once; the first failure is reported after all were tried.
pub async fn ensure_all(
    objects: &Arc<dyn Objects>,
    duty: &'static str,
    wanted: Vec<(Arc<Kind>, Value)>,
    amend: fn(&Value, &mut Value),
) -> Result<(), Status> {
    let work = wanted.into_iter().map(|(kind, object)| one(objects.clone(), duty, kind, object, amend));
    let results: Vec<Result<(), Status>> = stream::iter(work).buffer_unordered(AT_ONCE).collect().await;
    results.into_iter().collect()
}

async fn one(
    objects: Arc<dyn Objects>,
    duty: &'static str,
    kind: Arc<Kind>,
    object: Value,
    amend: fn(&Value, &mut Value),
) -> Result<(), Status> {
    ensure(objects.as_ref(), duty, &kind, &object, |value| amend(&object, value)).await
}

/// Adds to `value` what `wanted` has in this map (labels, annotations) and it lacks or has differently.
pub fn merge_map(wanted: &Value, value: &mut Value, field: &str) {
    for (key, text) in wanted["metadata"][field].as_object().into_iter().flatten() {
        value["metadata"][field][key] = text.clone();
    }
}
