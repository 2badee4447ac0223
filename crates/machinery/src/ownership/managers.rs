//! The managers of an object, and what an update does to them.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::compare::{Comparison, compare};
use super::fields_v1;
use super::set::Set;
use crate::schema::{Schema, TypeId};
use crate::{meta, time, tree};

/// More managers that update are folded into one.
const MAX_UPDATERS: usize = 10;
/// The manager they are folded into.
const ANCIENT: &str = "ancient-changes";

/// A create, update or patch, as far as ownership goes.
#[derive(Debug, Clone, Copy)]
pub struct Update<'a> {
    /// The types.
    pub schema: &'a Schema,
    /// The type of the object.
    pub ty: TypeId,
    /// The `apiVersion` that the request was made in.
    pub api_version: &'a str,
    /// Who made it.
    pub manager: &'a str,
    /// The subresource it was made on; empty for the object itself.
    pub subresource: &'a str,
    /// What a request on this (sub)resource does not change, whatever it says.
    pub ignored: &'a Set,
    /// The time of the request.
    pub now: Timestamp,
}

/// One manager and what it owns.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Manager {
    name: String,
    operation: String,
    api_version: String,
    subresource: String,
    time: String,
    fields: Set,
}

// === impl Update ===

impl Update<'_> {
    /// Writes the managers of `new` into it. `old` is the object before; of a create, an empty one.
    pub fn apply(&self, old: &Value, new: &mut Value) {
        let create = meta::uid(old).is_empty();
        let managers = self.managers_before(old, new);
        let managers = match managers {
            // Nobody began to keep book of this object, so nobody goes on.
            managers if managers.is_empty() && !create => managers,
            managers => self.update(old, new, managers),
        };
        write(new, &managers);
    }

    /// Those that the request brought, else those of the object. One empty entry takes all away.
    fn managers_before(&self, old: &Value, new: &Value) -> Vec<Manager> {
        let asked = meta::managed_fields(new);
        if self.subresource.is_empty() && !asked.is_empty() {
            if let [Value::Object(only)] = asked
                && only.is_empty()
            {
                return Vec::new();
            }
            if let Some(managers) = read(asked) {
                return managers;
            }
        }
        read(meta::managed_fields(old)).unwrap_or_default()
    }

    fn update(&self, old: &Value, new: &Value, mut managers: Vec<Manager>) -> Vec<Manager> {
        let comparison = self.compare(old, new);
        let taken = comparison.added.union(&comparison.modified);
        for manager in &mut managers {
            // Managers of other versions keep what they have: their paths may be others.
            if manager.api_version == self.api_version {
                manager.fields = manager.fields.difference(&taken).difference(&comparison.removed);
            }
        }
        if !taken.is_empty() {
            let time = time::format(self.now);
            match managers.iter_mut().find(|manager| self.is_own(manager)) {
                Some(own) => {
                    own.fields = own.fields.union(&taken);
                    own.time = time;
                }
                None => managers.push(Manager {
                    name: self.manager.to_owned(),
                    operation: "Update".to_owned(),
                    api_version: self.api_version.to_owned(),
                    subresource: self.subresource.to_owned(),
                    time,
                    fields: taken,
                }),
            }
        }
        managers.retain(|manager| !manager.fields.is_empty());
        cap(&mut managers);
        sort(&mut managers);
        managers
    }

    fn compare(&self, old: &Value, new: &Value) -> Comparison {
        let system = system_fields();
        let found = compare(self.schema, self.ty, old, new);
        let filter = |set: &Set| set.without_trees(&system).without_trees(self.ignored);
        Comparison { added: filter(&found.added), modified: filter(&found.modified), removed: filter(&found.removed) }
    }

    fn is_own(&self, manager: &Manager) -> bool {
        manager.operation == "Update"
            && manager.name == self.manager
            && manager.api_version == self.api_version
            && manager.subresource == self.subresource
    }
}

/// What nobody owns.
fn system_fields() -> Set {
    let mut set = Set::of(&[&["apiVersion"], &["kind"]]);
    for name in [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ] {
        set = set.union(&Set::of(&[&["metadata", name]]));
    }
    set
}

/// The oldest managers that update become one.
fn cap(managers: &mut Vec<Manager>) {
    let mut updaters: Vec<usize> = (0..managers.len()).filter(|i| managers[*i].operation == "Update").collect();
    if updaters.len() <= MAX_UPDATERS {
        return;
    }
    updaters.sort_by(|a, b| managers[*a].time.cmp(&managers[*b].time));
    let folded = updaters.len() - MAX_UPDATERS + 1;
    let mut old: Vec<usize> = updaters.into_iter().take(folded).collect();
    old.sort_unstable_by(|a, b| b.cmp(a));
    let mut ancient: Option<Manager> = None;
    for index in old {
        let manager = managers.remove(index);
        ancient = Some(match ancient {
            None => Manager { name: ANCIENT.to_owned(), subresource: String::new(), ..manager },
            Some(mut ancient) => {
                ancient.fields = ancient.fields.union(&manager.fields);
                ancient.time = ancient.time.max(manager.time);
                ancient
            }
        });
    }
    managers.extend(ancient);
}

/// Those that apply come first, then the older, then by name.
fn sort(managers: &mut [Manager]) {
    managers.sort_by(|a, b| {
        let key = |m: &Manager| {
            (m.operation != "Apply", m.time.clone(), m.name.clone(), m.api_version.clone(), m.subresource.clone())
        };
        key(a).cmp(&key(b))
    });
}

fn read(entries: &[Value]) -> Option<Vec<Manager>> {
    entries
        .iter()
        .map(|entry| {
            let text = |key: &str| tree::text(entry, &[key]).to_owned();
            if !matches!(entry["fieldsType"].as_str(), None | Some("" | "FieldsV1")) {
                return None;
            }
            let fields = match &entry["fieldsV1"] {
                Value::Null => Set::default(),
                fields => fields_v1::read(fields)?,
            };
            Some(Manager {
                name: text("manager"),
                operation: text("operation"),
                api_version: text("apiVersion"),
                subresource: text("subresource"),
                time: text("time"),
                fields,
            })
        })
        .collect()
}

fn write(object: &mut Value, managers: &[Manager]) {
    let entries: Vec<Value> = managers.iter().map(Manager::entry).collect();
    let metadata = tree::ensure_map(object, &["metadata"]);
    if entries.is_empty() {
        metadata.remove("managedFields");
    } else {
        metadata.insert("managedFields".to_owned(), Value::Array(entries));
    }
}

impl Manager {
    fn entry(&self) -> Value {
        let mut entry = Map::new();
        for (key, value) in [
            ("manager", &self.name),
            ("operation", &self.operation),
            ("apiVersion", &self.api_version),
            ("time", &self.time),
            ("subresource", &self.subresource),
        ] {
            if !value.is_empty() {
                entry.insert(key.to_owned(), json!(value));
            }
        }
        entry.insert("fieldsType".to_owned(), json!("FieldsV1"));
        entry.insert("fieldsV1".to_owned(), fields_v1::write(&self.fields));
        Value::Object(entry)
    }
}

/// Whether two objects differ in nothing but the times of their managers.
pub fn same_but_times(one: &Value, other: &Value) -> bool {
    let plain = |object: &Value| {
        let mut object = object.clone();
        if let Some(entries) = tree::get_mut(&mut object, &["metadata", "managedFields"]).and_then(Value::as_array_mut)
        {
            entries.iter_mut().filter_map(Value::as_object_mut).for_each(|entry| _ = entry.remove("time"));
        }
        object
    };
    plain(one) == plain(other)
}
