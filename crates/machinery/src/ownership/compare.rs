//! What an update did to an object, field by field.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::set::{Element, Set};
use crate::schema::{ListKind, Schema, Shape, TypeId};

/// The fields that are new, that have another value, and that are gone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Not there before.
    pub added: Set,
    /// With another value.
    pub modified: Set,
    /// No longer there.
    pub removed: Set,
}

/// Compares two objects of a type.
pub fn compare(schema: &Schema, ty: TypeId, old: &Value, new: &Value) -> Comparison {
    let mut walker = Walker { schema, out: Comparison::default(), path: Vec::new() };
    walker.visit(ty, false, Some(old), Some(new));
    walker.out
}

struct Walker<'a> {
    schema: &'a Schema,
    out: Comparison,
    path: Vec<Element>,
}

impl Walker<'_> {
    /// At least one side is there. `atomic` is what the field says about its value, whatever the type says.
    fn visit(&mut self, ty: TypeId, atomic: bool, old: Option<&Value>, new: Option<&Value>) {
        let leaf = match self.schema.shape(ty) {
            _ if atomic => true,
            Shape::List { of, kind } => self.list(*of, kind, old, new),
            Shape::Map { atomic: true, .. } => true,
            Shape::Map { of, .. } => {
                let of = *of;
                self.map(old, new, |_| Some((of, false)))
            }
            Shape::Object(object) if object.atomic => true,
            Shape::Object(object) => {
                self.map(old, new, |name| object.field(name).map(|field| (field.ty, field.atomic)))
            }
            _ => true,
        };
        if leaf {
            self.leaf(old, new);
        } else if old.is_none() {
            self.out.added.insert(&self.path);
        } else if new.is_none() {
            self.out.removed.insert(&self.path);
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, _) => self.out.added.insert(&self.path),
            (_, None) => self.out.removed.insert(&self.path),
            (Some(old), Some(new)) if old != new => self.out.modified.insert(&self.path),
            _ => {}
        }
    }

    /// Answers whether the whole is a leaf: both sides are empty.
    fn map(
        &mut self,
        old: Option<&Value>,
        new: Option<&Value>,
        child: impl Fn(&str) -> Option<(TypeId, bool)>,
    ) -> bool {
        let empty = Map::new();
        let entries = |side: Option<&Value>| side.and_then(Value::as_object).cloned();
        let (old, new) = (entries(old), entries(new));
        let (old, new) = (old.as_ref().unwrap_or(&empty), new.as_ref().unwrap_or(&empty));
        if old.is_empty() && new.is_empty() {
            return true;
        }
        let gone = old.keys().filter(|key| !new.contains_key(*key));
        for key in new.keys().chain(gone) {
            let Some((ty, atomic)) = child(key) else { continue };
            self.path.push(Element::field(key));
            self.visit(ty, atomic, old.get(key), new.get(key));
            self.path.pop();
        }
        false
    }

    /// Answers whether the whole is a leaf: it is atomic, or both sides are empty.
    fn list(&mut self, of: TypeId, kind: &ListKind, old: Option<&Value>, new: Option<&Value>) -> bool {
        let items = |side: Option<&Value>| side.and_then(Value::as_array).cloned().unwrap_or_default();
        let (old, new) = (items(old), items(new));
        if *kind == ListKind::Atomic || (old.is_empty() && new.is_empty()) {
            return true;
        }
        let group = |items: Vec<Value>| {
            let mut grouped: BTreeMap<Element, Vec<Value>> = BTreeMap::new();
            for item in items {
                let element = match kind {
                    ListKind::Map(keys) => Element::keyed(&item, keys),
                    _ => Some(Element::Value(item.to_string())),
                };
                // What has no identity has no owner.
                if let Some(element) = element {
                    grouped.entry(element).or_default().push(item);
                }
            }
            grouped
        };
        let (old, new) = (group(old), group(new));
        let gone = old.keys().filter(|element| !new.contains_key(*element));
        for element in new.keys().chain(gone) {
            self.path.push(element.clone());
            let side = |items: &BTreeMap<Element, Vec<Value>>| items.get(element).cloned().unwrap_or_default();
            let (before, after) = (side(&old), side(&new));
            match (before.len(), after.len()) {
                (0 | 1, 0 | 1) => self.visit(of, false, before.first(), after.first()),
                // Items that stand more than once are one thing.
                (2.., 2..) => {
                    if before != after {
                        self.out.modified.insert(&self.path);
                    }
                }
                (2.., _) => {
                    if let Some(first) = after.first() {
                        self.visit(of, false, None, Some(first));
                    }
                    self.out.removed.insert(&self.path);
                }
                (_, _) => {
                    if let Some(first) = before.first() {
                        self.visit(of, false, Some(first), None);
                    }
                    self.out.added.insert(&self.path);
                }
            }
            self.path.pop();
        }
        false
    }
}
