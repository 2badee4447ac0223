//! Strategic merge patch: a merge patch that knows the schema, so that lists are merged by their keys.
//!
//! A patch may hold directives: `$patch` (`replace`, `delete`) in a map, `$retainKeys`,
//! `$deleteFromPrimitiveList/<list>` and `$setElementOrder/<list>` beside a list.

mod lists;

use serde_json::{Map, Value};

use crate::Error;
use crate::codec::json::kind_of;
use crate::go::{quote, sprint};
use crate::schema::{Schema, Shape, TypeId};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// The object with the patch merged in.
pub fn apply(object: &Value, patch: &Value, schema: &Schema, ty: TypeId) -> Result<Value, Error> {
    let patch = match patch {
        Value::Object(map) => map.clone(),
        Value::Null => Map::new(),
        other => {
            return Err(Error::PatchForm(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                kind_of(other)
            )));
        }
    };
    let object = object.as_object().cloned().unwrap_or_default();
    Merger { schema }.map(object, patch, Some(ty)).map(Value::Object)
}

/// How a field is patched.
#[derive(Clone, Copy)]
struct Rule<'a> {
    /// The type of the field's value.
    ty: Option<TypeId>,
    merge: bool,
    replace: bool,
    key: Option<&'a str>,
}

struct Merger<'a> {
    schema: &'a Schema,
}

impl<'a> Merger<'a> {
    fn rule(&self, ty: Option<TypeId>, key: &str) -> Result<Rule<'a>, Error> {
        let free = |ty| Rule { ty, merge: false, replace: false, key: None };
        let Some(ty) = ty else { return Ok(free(None)) };
        match self.schema.shape(ty) {
            Shape::Object(object) => match object.field(key) {
                Some(field) => Ok(Rule {
                    ty: Some(field.ty),
                    merge: field.patch_strategy.merge,
                    replace: field.patch_strategy.replace,
                    key: field.patch_merge_key.as_deref(),
                }),
                None if object.preserve_unknown => Ok(free(None)),
                None => Err(failed(format!(
                    "unable to find api field in struct {} for the json field {}",
                    self.type_name(ty),
                    quote(key)
                ))),
            },
            _ => Ok(free(self.schema.child(ty, key))),
        }
    }

    fn type_name(&self, ty: TypeId) -> &'a str {
        let name = &self.schema.get(ty).go;
        name.rsplit_once('.').map_or(&**name, |(_, name)| name)
    }

    fn map(
        &self,
        mut object: Map<String, Value>,
        mut patch: Map<String, Value>,
        ty: Option<TypeId>,
    ) -> Result<Map<String, Value>, Error> {
        if let Some(directive) = patch.get(DIRECTIVE) {
            return match directive.as_str() {
                Some("replace") => {
                    patch.remove(DIRECTIVE);
                    Ok(patch)
                }
                Some("delete") => Ok(Map::new()),
                _ => Err(failed(unknown_directive(directive, &patch))),
            };
        }
        retain_keys(&mut object, &mut patch)?;
        self.ordered_lists(&mut object, &mut patch, ty)?;
        for (name, value) in patch {
            let (key, deleting) = match name.strip_prefix(DELETE_FROM_LIST) {
                None => (name.as_str(), false),
                Some(rest) => (after_slash(rest, "invalid patch format of primitive list")?, true),
            };
            if value.is_null() {
                object.remove(key);
                continue;
            }
            let merged = match (object.remove(key), value) {
                (Some(Value::Object(own)), Value::Object(patch)) => {
                    let rule = self.rule(ty, key)?;
                    Some(Value::Object(if rule.replace { patch } else { self.map(own, patch, rule.ty)? }))
                }
                (Some(Value::Array(own)), Value::Array(patch)) => {
                    let rule = self.rule(ty, key)?;
                    Some(Value::Array(self.list(own, patch, rule, deleting)?))
                }
                (own, _) if deleting => own,
                (_, value) => fresh(value),
            };
            if let Some(merged) = merged {
                object.insert(key.to_owned(), merged);
            }
        }
        Ok(object)
    }

    /// Merges the lists that the patch gives an order for, and takes them out of the patch.
    fn ordered_lists(
        &self,
        object: &mut Map<String, Value>,
        patch: &mut Map<String, Value>,
        ty: Option<TypeId>,
    ) -> Result<(), Error> {
        const FORM: &str = "invalid patch format of setElementOrder list";
        let names: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
        for name in names {
            let order = list_of(patch.remove(&name).unwrap_or_default())?;
            let key = after_slash(&name[SET_ORDER.len()..], FORM)?;
            let own = object.get(key).cloned().map(list_of).transpose()?;
            let patched = patch.get(key).cloned().map(list_of).transpose()?;
            let rule = self.rule(ty, key)?;
            lists::check_order(patched.as_deref().unwrap_or_default(), &order, rule.key)?;
            let before = own.clone().unwrap_or_default();
            let merged = match (own, patched) {
                (None, None) => continue,
                (Some(own), None) => own,
                (None, Some(patched)) => match without_directives(Value::Array(patched)) {
                    Some(Value::Array(patched)) => patched,
                    _ => continue,
                },
                (Some(own), Some(patched)) => self.list(own, patched, rule, false)?,
            };
            let (named, others) = lists::split(merged, &order, rule.key)?;
            let ordered = lists::arrange(named, others, &order, &before, rule.key);
            patch.remove(key);
            object.insert(key.to_owned(), Value::Array(ordered));
        }
        Ok(())
    }
}

/// Removes the keys of the object that the patch does not name.
fn retain_keys(object: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), Error> {
    let form = || Error::PatchForm("invalid patch format of retainKeys".to_owned());
    let Some(directive) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(retained) = directive else { return Err(form()) };
    let named = |key: &str| retained.iter().any(|name| name == key);
    let stray = patch.iter().any(|(key, value)| {
        !value.is_null() && !key.starts_with(DELETE_FROM_LIST) && !key.starts_with(SET_ORDER) && !named(key)
    });
    if stray {
        return Err(form());
    }
    object.retain(|key, _| named(key));
    Ok(())
}

/// A value that is new in the object: without nulls, and without what is only there to delete.
fn fresh(value: Value) -> Option<Value> {
    without_directives(without_nulls(value))
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key, without_nulls(value)))
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => Some(Value::Object(
            map.into_iter().filter_map(|(key, value)| Some((key, without_directives(value)?))).collect(),
        )),
        Value::Array(list) => Some(Value::Array(list.into_iter().filter_map(without_directives).collect())),
        other => Some(other),
    }
}

fn after_slash<'t>(rest: &'t str, form: &str) -> Result<&'t str, Error> {
    rest.strip_prefix('/').ok_or_else(|| Error::PatchForm(form.to_owned()))
}

fn list_of(value: Value) -> Result<Vec<Value>, Error> {
    match value {
        Value::Array(list) => Ok(list),
        other => Err(failed(format!("expected a []interface {{}}, but received a {}", go_type(&other)))),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn unknown_directive(directive: &Value, map: &Map<String, Value>) -> String {
    format!("unknown patch type: {} in map: {}", sprint(directive), sprint(&Value::Object(map.clone())))
}

fn no_merge_key(map: &Map<String, Value>, key: &str) -> Error {
    failed(format!("map: {} does not contain declared merge key: {key}", sprint(&Value::Object(map.clone()))))
}

fn failed(why: String) -> Error {
    Error::PatchFailed(why)
}

#[cfg(test)]
mod tests;
