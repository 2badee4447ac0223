//! Priority: a Pod's number comes from its class, or from the default one.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use trireme_kinds::Kind;
use trireme_machinery::meta;
use trireme_machinery::status::Status;

use super::pod::text;
use super::{Attributes, Operation, Plugin};
use crate::pipeline::Objects;

/// The plugin.
pub struct Priority {
    objects: Arc<dyn Objects>,
    classes: Arc<Kind>,
}

impl Priority {
    /// Reads `classes` from the cache, and from the store before it refuses for absence.
    #[must_use]
    pub fn new(objects: Arc<dyn Objects>, classes: Arc<Kind>) -> Self {
        Self { objects, classes }
    }

    async fn class(&self, attributes: &Attributes<'_>, name: &str) -> Result<Value, Status> {
        if let Some(class) = self.objects.reader().get(&self.classes, "", name) {
            return Ok(class.value());
        }
        match self.objects.get(&self.classes, "", name).await {
            Ok(class) => Ok(class.value()),
            Err(status) if status.is_not_found() => {
                Err(attributes.forbidden(format!("no PriorityClass with name {name} was found")))
            }
            Err(status) => Err(status),
        }
    }

    /// The default class; of several, the one with the lowest value.
    fn default_class(&self) -> Option<Value> {
        let classes = self.objects.reader().list(&self.classes, None);
        let defaults = classes.iter().map(|class| class.value()).filter(|class| class["globalDefault"] == true);
        defaults.min_by_key(|class| class["value"].as_i64().unwrap_or_default())
    }

    async fn create(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let spec = &attributes.object()["spec"];
        let asked = text(spec, "priorityClassName").to_owned();
        let class = if asked.is_empty() { self.default_class() } else { Some(self.class(attributes, &asked).await?) };
        let class = class.unwrap_or_default();
        let priority = class["value"].as_i64().unwrap_or(0);
        let policy = class["preemptionPolicy"].as_str().unwrap_or("PreemptLowerPriority").to_owned();
        if let Some(given) = spec["priority"].as_i64()
            && given != priority
        {
            return Err(attributes.forbidden(format!(
                "the integer value of priority ({given}) must not be provided in pod spec; \
                 priority admission controller computed {priority} from the given PriorityClass name"
            )));
        }
        if let Some(given) = spec["preemptionPolicy"].as_str()
            && given != policy
        {
            return Err(attributes.forbidden(format!(
                "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; \
                 priority admission controller computed {policy} from the given PriorityClass name"
            )));
        }
        let Some(spec) = attributes.object.as_deref_mut().and_then(|pod| pod.get_mut("spec")) else { return Ok(()) };
        let name = meta::name(&class);
        if !name.is_empty() {
            spec["priorityClassName"] = json!(name);
        }
        spec["priority"] = json!(priority);
        spec["preemptionPolicy"] = json!(policy);
        Ok(())
    }
}

#[async_trait]
impl Plugin for Priority {
    fn name(&self) -> &'static str {
        "Priority"
    }

    async fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if !attributes.is("", "pods") {
            return Ok(());
        }
        match attributes.operation {
            Operation::Create => self.create(attributes).await,
            Operation::Update => {
                keep(attributes);
                Ok(())
            }
            Operation::Delete | Operation::Connect => Ok(()),
        }
    }

    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
        if !writes
            || !attributes.is("scheduling.k8s.io", "priorityclasses")
            || attributes.object()["globalDefault"] != true
        {
            return Ok(());
        }
        let Some(default) = self.default_class() else { return Ok(()) };
        let name = meta::name(&default);
        if attributes.operation == Operation::Create || name != meta::name(attributes.object()) {
            let why = format!("PriorityClass {name} is already marked as default. Only one default can exist");
            return Err(attributes.forbidden(why));
        }
        Ok(())
    }
}

/// An update that leaves the computed fields out means to keep them.
fn keep(attributes: &mut Attributes<'_>) {
    let Some(old) = attributes.old else { return };
    let Some(spec) = attributes.object.as_deref_mut().and_then(|pod| pod.get_mut("spec")) else { return };
    for field in ["priority", "preemptionPolicy"] {
        if spec[field].is_null() && !old["spec"][field].is_null() {
            spec[field] = old["spec"][field].clone();
        }
    }
}
