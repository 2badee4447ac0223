//! RuntimeClass: a Pod's runtime brings its overhead and where it can run.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use trireme_kinds::Kind;
use trireme_machinery::status::Status;

use super::pod::items;
use super::{Attributes, Operation, Plugin};
use crate::auth::user::quoted;
use crate::pipeline::Objects;

/// The plugin.
pub struct RuntimeClass {
    objects: Arc<dyn Objects>,
    classes: Arc<Kind>,
}

impl RuntimeClass {
    /// Reads `classes` from the cache, and from the store before it refuses for absence.
    #[must_use]
    pub fn new(objects: Arc<dyn Objects>, classes: Arc<Kind>) -> Self {
        Self { objects, classes }
    }

    async fn class(&self, attributes: &Attributes<'_>) -> Result<Option<Value>, Status> {
        let Some(name) = attributes.object()["spec"]["runtimeClassName"].as_str() else { return Ok(None) };
        if let Some(class) = self.objects.reader().get(&self.classes, "", name) {
            return Ok(Some(class.value()));
        }
        match self.objects.get(&self.classes, "", name).await {
            Ok(class) => Ok(Some(class.value())),
            Err(status) if status.is_not_found() => {
                Err(attributes.forbidden(format!("pod rejected: RuntimeClass {} not found", quoted(name))))
            }
            Err(status) => Err(status),
        }
    }
}

fn applies(attributes: &Attributes<'_>) -> bool {
    attributes.is("", "pods") && attributes.operation == Operation::Create
}

#[async_trait]
impl Plugin for RuntimeClass {
    fn name(&self) -> &'static str {
        "RuntimeClass"
    }

    async fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if !applies(attributes) {
            return Ok(());
        }
        let Some(class) = self.class(attributes).await? else { return Ok(()) };
        let mut spec = attributes.object()["spec"].clone();
        set_overhead(&mut spec, &class)
            .and_then(|()| set_scheduling(&mut spec, &class))
            .map_err(|why| attributes.forbidden(why))?;
        if let Some(pod) = attributes.object.as_deref_mut() {
            pod["spec"] = spec;
        }
        Ok(())
    }

    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        if !applies(attributes) {
            return Ok(());
        }
        let class = self.class(attributes).await?.unwrap_or_default();
        let overhead = &attributes.object()["spec"]["overhead"];
        match &class["overhead"]["podFixed"] {
            Value::Null if !overhead.is_null() => Err(attributes
                .forbidden("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")),
            fixed if fixed != overhead => Err(attributes.forbidden(DIFFERENT_OVERHEAD)),
            _ => Ok(()),
        }
    }
}

const DIFFERENT_OVERHEAD: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

fn set_overhead(spec: &mut Value, class: &Value) -> Result<(), String> {
    let fixed = &class["overhead"]["podFixed"];
    if fixed.is_null() {
        return Ok(());
    }
    let given = spec["overhead"].as_object().is_some_and(|overhead| !overhead.is_empty());
    if given && spec["overhead"] != *fixed {
        return Err(DIFFERENT_OVERHEAD.to_owned());
    }
    spec["overhead"] = fixed.clone();
    Ok(())
}

fn set_scheduling(spec: &mut Value, class: &Value) -> Result<(), String> {
    let scheduling = &class["scheduling"];
    for (key, value) in scheduling["nodeSelector"].as_object().into_iter().flatten() {
        if let Some(own) = spec["nodeSelector"].get(key)
            && own != value
        {
            let (class, pod) = (value.as_str().unwrap_or_default(), own.as_str().unwrap_or_default());
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {class}; pod.spec.nodeSelector[{key}] = {pod}"
            ));
        }
        spec["nodeSelector"][key] = value.clone();
    }
    for toleration in items(&scheduling["tolerations"]) {
        if !items(&spec["tolerations"]).any(|own| own == toleration) {
            match &mut spec["tolerations"] {
                Value::Array(list) => list.push(toleration.clone()),
                other => *other = Value::Array(vec![toleration.clone()]),
            }
        }
    }
    Ok(())
}
