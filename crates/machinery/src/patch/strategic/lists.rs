//! Merging lists: by key where the items are maps, as sets where they are scalars; and the order of the result.
//!
//! The order: what the patch names stands in the patch's order, what only the object has in the object's, and the two
//! are merged so that the object's order is kept where it decides.

use serde_json::{Map, Value};

use super::{DIRECTIVE, Merger, Rule, SET_ORDER, failed, go_type, no_merge_key, unknown_directive};
use crate::Error;
use crate::go::sprint;

impl Merger<'_> {
    pub(super) fn list(
        &self,
        own: Vec<Value>,
        patch: Vec<Value>,
        rule: Rule<'_>,
        deleting: bool,
    ) -> Result<Vec<Value>, Error> {
        if !rule.merge && !deleting {
            return Ok(patch);
        }
        if own.is_empty() && patch.is_empty() {
            return Ok(own);
        }
        if !of_maps(&own, &patch)? {
            if deleting {
                return Ok(own.into_iter().filter(|item| !patch.contains(item)).collect());
            }
            let mut merged: Vec<Value> = Vec::with_capacity(own.len() + patch.len());
            for item in own.iter().chain(&patch) {
                if !merged.contains(item) {
                    merged.push(item.clone());
                }
            }
            let (named, others) = split(merged, &patch, None)?;
            return Ok(arrange(named, others, &patch, &own, None));
        }
        let item_type = rule.ty.and_then(|ty| self.schema.item(ty));
        let Some(key) = rule.key else {
            let name = item_type.map_or("", |ty| self.type_name(ty));
            return Err(failed(format!("cannot merge lists without merge key for {name}")));
        };
        let (own, patch) = directives(own, patch, key)?;
        let mut merged = own.clone();
        for item in &patch {
            let Value::Object(item) = item else { continue };
            let value = item.get(key).ok_or_else(|| no_merge_key(item, key))?;
            match find(&merged, key, value)? {
                Some(at) => {
                    let before = std::mem::take(&mut merged[at]);
                    let before = before.as_object().cloned().unwrap_or_default();
                    merged[at] = Value::Object(self.map(before, item.clone(), item_type)?);
                }
                None => merged.push(Value::Object(item.clone())),
            }
        }
        let (named, others) = split(merged, &patch, Some(key))?;
        Ok(arrange(named, others, &patch, &own, Some(key)))
    }
}

/// Takes the items out of the patch that only direct, and does what they say.
fn directives(mut own: Vec<Value>, patch: Vec<Value>, key: &str) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let mut rest = Vec::with_capacity(patch.len());
    let mut replace = false;
    for item in patch {
        let Some(map) = item.as_object() else { continue };
        let Some(directive) = map.get(DIRECTIVE) else {
            rest.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let value = map.get(key).ok_or_else(|| no_merge_key(map, key))?;
                while let Some(at) = find(&own, key, value)? {
                    own.remove(at);
                }
            }
            Some("replace") => replace = true,
            Some("merge") => return Err(failed("merging lists cannot yet be specified in the patch".to_owned())),
            _ => return Err(failed(unknown_directive(directive, map))),
        }
    }
    Ok(if replace { (rest, Vec::new()) } else { (own, rest) })
}

/// Whether the items are maps; all must be of one type.
fn of_maps(own: &[Value], patch: &[Value]) -> Result<bool, Error> {
    let mut types = own.iter().chain(patch).map(go_type);
    let first = types.next().unwrap_or_default();
    if first == "[]interface {}" {
        return Err(Error::PatchApply("lists of lists are not supported".to_owned()));
    }
    if types.any(|other| other != first) {
        let lists = Value::Array(vec![Value::Array(own.to_vec()), Value::Array(patch.to_vec())]);
        return Err(failed(format!("list element types are not identical: {}", sprint(&lists))));
    }
    Ok(first == "map[string]interface {}")
}

fn find(list: &[Value], key: &str, value: &Value) -> Result<Option<usize>, Error> {
    for (at, item) in list.iter().enumerate() {
        let Value::Object(map) = item else { return Err(failed(format!("value for key {at} is not a map"))) };
        if map.get(key) == Some(value) {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Splits a list into the items that `by` names and the others.
pub(super) fn split(list: Vec<Value>, by: &[Value], key: Option<&str>) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let (mut named, mut others) = (Vec::new(), Vec::new());
    for item in list {
        if let Some(key) = key {
            let map = item.as_object().ok_or_else(|| expected_map(&item))?;
            if !map.contains_key(key) {
                return Err(no_merge_key(map, key));
            }
        }
        if position(by, &item, key).is_some() { named.push(item) } else { others.push(item) }
    }
    Ok((named, others))
}

/// Puts the two parts of a list together again: `named` in the order of `order`, `others` in that of `before`.
pub(super) fn arrange(
    mut named: Vec<Value>,
    mut others: Vec<Value>,
    order: &[Value],
    before: &[Value],
    key: Option<&str>,
) -> Vec<Value> {
    named.sort_by_key(|item| position(order, item, key).unwrap_or(usize::MAX));
    others.sort_by_key(|item| position(before, item, key).unwrap_or(usize::MAX));
    let mut out = Vec::with_capacity(named.len() + others.len());
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    loop {
        let other_first = match (named.peek(), others.peek()) {
            (None, None) => return out,
            (None, Some(_)) => true,
            (Some(_), None) => false,
            (Some(named), Some(other)) => match (position(before, other, key), position(before, named, key)) {
                (Some(other), Some(named)) => other < named,
                _ => false,
            },
        };
        out.extend(if other_first { others.next() } else { named.next() });
    }
}

/// Whether the patch's items stand in the order that the patch itself gives.
pub(super) fn check_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), Error> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut kept = Vec::with_capacity(patch.len());
    for item in patch {
        match key {
            Some(_) => {
                let map = item.as_object().ok_or_else(|| expected_map(item))?;
                if !map.contains_key(DIRECTIVE) {
                    kept.push(item);
                }
            }
            None => kept.push(item),
        }
    }
    let mut kept = kept.into_iter().peekable();
    for named in order {
        let Some(item) = kept.peek() else { return Ok(()) };
        let equal = match key {
            None => *item == named,
            Some(key) => key_of(item, key)? == key_of(named, key)?,
        };
        if equal {
            kept.next();
        }
    }
    match kept.peek() {
        None => Ok(()),
        Some(_) => Err(failed(format!(
            "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
            sprint(&Value::Array(patch.to_vec())),
            sprint(&Value::Array(order.to_vec()))
        ))),
    }
}

fn key_of<'v>(item: &'v Value, key: &str) -> Result<&'v Value, Error> {
    let map: &Map<String, Value> = item.as_object().ok_or_else(|| expected_map(item))?;
    map.get(key).ok_or_else(|| no_merge_key(map, key))
}

fn expected_map(found: &Value) -> Error {
    failed(format!("expected a map[string]interface {{}}, but received a {}", go_type(found)))
}

fn position(list: &[Value], item: &Value, key: Option<&str>) -> Option<usize> {
    match key {
        None => list.iter().position(|other| other == item),
        Some(key) => list.iter().position(|other| other.get(key) == item.get(key)),
    }
}
