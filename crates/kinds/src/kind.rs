//! A kind: a schema with hooks, and where it is served and stored.

use std::sync::Arc;
use trireme_machinery::status::Status;

use jiff::Timestamp;
use serde_json::{Map, Value};
use trireme_machinery::field::ErrorList;
use trireme_machinery::gvk::{GroupResource, GroupVersionKind, GroupVersionResource};
use trireme_machinery::schema::{Schema, Shape, TypeId, default, zero};

use crate::hooks::{Context, Hooks};
use crate::metadata;
use crate::rules::Rules;

/// A kind of one version, built-in or defined by a CustomResourceDefinition.
#[derive(Debug, Clone)]
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version, as `v1`.
    pub version: String,
    /// The kind, as `Deployment`.
    pub kind: String,
    /// The kind of its lists, as `DeploymentList`.
    pub list_kind: String,
    /// The resource's name, as `deployments`.
    pub plural: String,
    /// The resource's singular name, as `deployment`.
    pub singular: String,
    /// Short names of the resource.
    pub short_names: Vec<String>,
    /// Categories the resource is in, as `all`.
    pub categories: Vec<String>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// The verbs it is served with.
    pub verbs: Vec<String>,
    /// What is served below an object.
    pub subresources: Vec<Subresource>,
    /// Where the `scale` subresource finds its numbers.
    pub scale: Option<ScalePaths>,
    /// The part of the key below `/registry` (`services/specs`); empty if it is not stored (reviews).
    pub storage: String,
    /// The `apiVersion` objects are stored in (`apps/v1`).
    pub storage_version: String,
    /// What it states about itself that needs no code.
    pub rules: Rules,
    /// The types it reaches.
    pub schema: Arc<Schema>,
    /// Its own type.
    pub ty: TypeId,
    /// Its rules.
    pub hooks: Arc<dyn Hooks>,
}

/// What is served below an object, as `status` or `scale`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subresource {
    /// Its name.
    pub name: String,
    /// What it takes and gives; its group and version are empty if they are those of the resource.
    pub kind: GroupVersionKind,
    /// Its verbs.
    pub verbs: Vec<String>,
}

/// Where the `scale` subresource finds its numbers, as dotted paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalePaths {
    /// How many are wanted.
    pub spec_replicas: String,
    /// How many there are.
    pub status_replicas: String,
    /// The label selector that finds them.
    pub selector: Option<String>,
}

impl Kind {
    /// Group, version and kind.
    pub fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::new(&*self.group, &*self.version, &*self.kind)
    }

    /// Group, version and resource.
    pub fn gvr(&self) -> GroupVersionResource {
        GroupVersionResource::new(&*self.group, &*self.version, &*self.plural)
    }

    /// Group and resource.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&*self.group, &*self.plural)
    }

    /// The `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        self.gvk().api_version()
    }

    /// Whether it is served with that verb.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }

    /// The subresource of that name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// Sets all defaults of a decoded object and settles what they added.
    pub fn default(&self, obj: &mut Value) {
        default::apply(&self.schema, self.ty, obj);
        self.hooks.default(obj);
        zero::settle_all(&self.schema, self.ty, obj);
    }

    /// Makes a new object what it may be at creation: an empty status, generation 1.
    pub fn prepare_create(&self, obj: &mut Value, ctx: &Context<'_>) {
        self.rules.disabled.drop_from(obj);
        if self.rules.empties_status {
            self.put_status(obj, None);
        }
        if self.rules.generation {
            metadata::set_generation(obj, 1);
        }
        self.hooks.prepare_create(obj, ctx);
    }

    /// Makes an updated object what it may be: the old status, and a new generation if it counts as one.
    pub fn prepare_update(&self, new: &mut Value, old: &Value, ctx: &Context<'_>) {
        self.rules.disabled.drop_from(new);
        if self.rules.keeps_status {
            self.put_status(new, old.get("status"));
        }
        metadata::set_generation(new, metadata::generation(old));
        self.hooks.prepare_update(new, old, ctx);
        if self.rules.generation && self.hooks.bumps_generation(new, old) {
            metadata::set_generation(new, metadata::generation(old) + 1);
        }
    }

    /// Makes an object whose status is updated what it may be: all but status and metadata are the old object's.
    pub fn prepare_update_status(&self, new: &mut Value, old: &Value, ctx: &Context<'_>) {
        self.rules.disabled.drop_from(new);
        if let (Some(new), Some(old)) = (new.as_object_mut(), old.as_object()) {
            new.retain(|key, _| matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
            for (key, value) in old {
                if !matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "status") {
                    new.insert(key.clone(), value.clone());
                }
            }
        }
        metadata::set_generation(new, metadata::generation(old));
        self.hooks.prepare_update_status(new, old, ctx);
    }

    /// Makes an object what is left of it in Kubernetes' store, and so in every answer: protobuf knows no empty lists
    /// and maps, so where Go's encoder writes them they become `null`. Runs last, before the object is stored.
    pub fn settle_stored(&self, obj: &mut Value) {
        self.hooks.settle_stored(obj);
        zero::settle_stored(&self.schema, self.ty, obj);
    }

    /// What is wrong with a new object.
    pub fn validate_create(&self, obj: &Value, ctx: &Context<'_>) -> ErrorList {
        let mut errors = metadata::validate(self, obj);
        errors.extend(self.hooks.validate(obj, ctx));
        metadata::once(errors)
    }

    /// What is wrong with an update.
    pub fn validate_update(&self, new: &Value, old: &Value, ctx: &Context<'_>) -> ErrorList {
        let mut errors = metadata::validate_update(self, new, old);
        errors.extend(self.hooks.validate_update(new, old, ctx));
        metadata::once(errors)
    }

    /// The refusal of an object with such mistakes.
    pub fn invalid(&self, name: &str, errors: ErrorList) -> Status {
        let mut gvk = self.gvk();
        // Kubernetes names the group that the kind has within it, which is that of the version it stores.
        gvk.group = self.storage_version.split_once('/').map_or_else(String::new, |(group, _)| group.to_owned());
        Status::invalid(&gvk, name, errors)
    }

    /// What is wrong with an update of the status.
    pub fn validate_update_status(&self, new: &Value, old: &Value, ctx: &Context<'_>) -> ErrorList {
        let mut errors = metadata::validate_update(self, new, old);
        errors.extend(self.hooks.validate_update_status(new, old, ctx));
        metadata::once(errors)
    }

    /// Changes an object that is updated through a subresource other than `status`, before it is validated.
    pub fn prepare_subresource(&self, subresource: &str, new: &mut Value, old: &Value) {
        self.rules.disabled.drop_from(new);
        metadata::set_generation(new, metadata::generation(old));
        self.hooks.prepare_subresource(subresource, new, old);
        if self.rules.generation && self.hooks.bumps_generation(new, old) {
            metadata::set_generation(new, metadata::generation(old) + 1);
        }
    }

    /// What is wrong with an update through a subresource other than `status`.
    pub fn validate_subresource(&self, subresource: &str, new: &Value, old: &Value) -> ErrorList {
        let mut errors = metadata::validate_update(self, new, old);
        errors.extend(self.hooks.validate_subresource(subresource, new, old));
        metadata::once(errors)
    }

    /// The fields that a field selector may use, with their values.
    pub fn selectable_fields(&self, obj: &Value) -> Vec<(String, String)> {
        let text = |key: &str| obj["metadata"][key].as_str().unwrap_or_default().to_owned();
        let mut fields = vec![("metadata.name".to_owned(), text("name"))];
        if self.namespaced {
            fields.push(("metadata.namespace".to_owned(), text("namespace")));
        }
        fields.extend(
            self.hooks
                .selectable_field_names()
                .iter()
                .map(|name| ((*name).to_owned(), self.hooks.selectable_field(obj, name))),
        );
        fields
    }

    /// The names of the fields that a field selector may use.
    pub fn selectable_field_names(&self) -> Vec<&str> {
        let mut names = vec!["metadata.name"];
        if self.namespaced {
            names.push("metadata.namespace");
        }
        names.extend(self.hooks.selectable_field_names());
        names
    }

    /// The cells of one row of a Table.
    pub fn cells(&self, obj: &Value, now: Timestamp) -> Vec<Value> {
        self.hooks.cells(obj, now)
    }

    /// Puts a status in place; without one, that which Kubernetes encodes for an empty one.
    fn put_status(&self, obj: &mut Value, status: Option<&Value>) {
        let Some(map) = obj.as_object_mut() else { return };
        match status {
            Some(status) => {
                map.insert("status".to_owned(), status.clone());
            }
            None => {
                map.remove("status");
                settle_top(&self.schema, self.ty, map);
            }
        }
    }
}

fn settle_top(schema: &Schema, ty: TypeId, map: &mut Map<String, Value>) {
    if matches!(schema.shape(ty), Shape::Object(_)) {
        zero::settle(schema, ty, map);
    }
}
