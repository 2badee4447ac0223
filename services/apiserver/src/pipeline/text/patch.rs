//! What patches do to texts. The object itself is patched by the machinery; this is only how it would have been written,
//! so what does not fit is passed over.

use serde_json::Value;

use super::Text;

impl Text {
    /// The text with a merge patch merged in.
    pub(crate) fn merged(mut self, patch: Text) -> Self {
        if let (Self::Map(own), Self::Map(patch)) = (&mut self, patch) {
            merge(own, patch);
        }
        self
    }

    /// The text after the operations of a JSON patch.
    pub(crate) fn patched(mut self, operations: &Text) -> Self {
        self.enter();
        let Self::List(operations) = operations else { return self };
        for operation in operations {
            self.operate(operation);
        }
        self
    }

    fn operate(&mut self, operation: &Text) -> Option<()> {
        let path = || operation.text("path");
        match operation.text("op")? {
            "add" | "replace" if path() == Some("") => {
                *self = operation.get("value")?.clone();
                self.enter();
                Some(())
            }
            "add" => self.set(path()?, operation.get("value").cloned().unwrap_or(NULL), true),
            "replace" => self.set(path()?, operation.get("value").cloned().unwrap_or(NULL), false),
            "remove" => self.take(path()?).map(drop),
            "test" => {
                // To compare, everything is entered.
                let tested = if path()?.is_empty() { self } else { self.at(path()?)? };
                tested.enter_all();
                Some(())
            }
            "move" => {
                let moved = self.take(operation.text("from")?)?;
                self.set(path()?, moved, true)
            }
            "copy" => {
                let copy = self.at(operation.text("from")?).map_or(NULL, |found| found.clone());
                self.set(path()?, copy, true)
            }
            _ => None,
        }
    }

    /// What lies under a path.
    fn at(&mut self, path: &str) -> Option<&mut Self> {
        let (place, step) = self.holder(path)?;
        match place {
            Self::Map(entries) => entries.iter_mut().find(|(key, _)| *key == step).map(|(_, value)| value),
            Self::List(list) => index(list.len(), &step).and_then(|at| list.get_mut(at)),
            Self::Scalar(_) => None,
        }
    }

    fn take(&mut self, path: &str) -> Option<Self> {
        let (place, step) = self.holder(path)?;
        match place {
            Self::Map(entries) => {
                let at = entries.iter().position(|(key, _)| *key == step)?;
                Some(entries.remove(at).1)
            }
            Self::List(list) => index(list.len(), &step).map(|at| list.remove(at)),
            Self::Scalar(_) => None,
        }
    }

    /// Puts a value under a path; in a list before what is there if it `inserts`.
    fn set(&mut self, path: &str, value: Self, inserts: bool) -> Option<()> {
        let (place, step) = self.holder(path)?;
        match place {
            Self::Map(entries) => put(entries, step, value),
            Self::List(list) if inserts && step == "-" => list.push(value),
            Self::List(list) if inserts => list.insert(index(list.len() + 1, &step)?, value),
            Self::List(list) => {
                let at = index(list.len(), &step)?;
                *list.get_mut(at)? = value;
            }
            Self::Scalar(_) => return None,
        }
        Some(())
    }

    /// What holds what a path names, and the path's last step. Everything on the way is entered.
    fn holder(&mut self, path: &str) -> Option<(&mut Self, String)> {
        let (above, last) = path.rsplit_once('/')?;
        let mut place = self;
        for step in above.split('/').skip(1) {
            let step = unescape(step);
            place = match place {
                Self::Map(entries) => &mut entries.iter_mut().find(|(key, _)| *key == step)?.1,
                Self::List(list) => {
                    let at = index(list.len(), &step)?;
                    list.get_mut(at)?
                }
                Self::Scalar(_) => return None,
            };
            place.enter();
        }
        Some((place, unescape(last)))
    }

    /// A map that is entered is a map of Go's from then on: sorted, each key once.
    fn enter(&mut self) {
        if let Self::Map(entries) = self {
            enter(entries);
        }
    }

    fn enter_all(&mut self) {
        self.enter();
        match self {
            Self::Map(entries) => entries.iter_mut().for_each(|(_, value)| value.enter_all()),
            Self::List(list) => list.iter_mut().for_each(Self::enter_all),
            Self::Scalar(_) => {}
        }
    }

    /// What a merge patch adds keeps no nulls.
    fn prune(&mut self) {
        match self {
            Self::Map(entries) => {
                enter(entries);
                entries.retain(|(_, value)| !value.is_null());
                entries.iter_mut().for_each(|(_, value)| value.prune());
            }
            Self::List(list) => list.iter_mut().for_each(Self::prune),
            Self::Scalar(_) => {}
        }
    }

    fn is_null(&self) -> bool {
        matches!(self, Self::Scalar(Value::Null))
    }

    fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(entries) => entries.iter().rev().find(|(own, _)| own == key).map(|(_, value)| value),
            _ => None,
        }
    }

    fn text(&self, key: &str) -> Option<&str> {
        match self.get(key)? {
            Self::Scalar(Value::String(text)) => Some(text),
            _ => None,
        }
    }
}

const NULL: Text = Text::Scalar(Value::Null);

fn enter(entries: &mut Vec<(String, Text)>) {
    // Of a key that stands twice the last counts.
    entries.reverse();
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    entries.dedup_by(|(a, _), (b, _)| a == b);
}

fn put(entries: &mut Vec<(String, Text)>, key: String, value: Text) {
    match entries.binary_search_by(|(own, _)| own.cmp(&key)) {
        Ok(at) => entries[at].1 = value,
        Err(at) => entries.insert(at, (key, value)),
    }
}

fn merge(own: &mut Vec<(String, Text)>, mut patch: Vec<(String, Text)>) {
    enter(own);
    enter(&mut patch);
    for (key, mut value) in patch {
        let at = own.binary_search_by(|(own, _)| own.cmp(&key)).ok();
        if value.is_null() {
            if let Some(at) = at {
                own.remove(at);
            }
            continue;
        }
        match (at.map(|at| &mut own[at].1), value) {
            (Some(Text::Map(own)), Text::Map(patch)) => merge(own, patch),
            // What takes the place of a map is left as it was written.
            (Some(place @ Text::Map(_)), other) => *place = other,
            (_, other) => {
                value = other;
                value.prune();
                put(own, key, value);
            }
        }
    }
}

/// An index below `length`; negative ones count from the end.
fn index(length: usize, step: &str) -> Option<usize> {
    let number: i64 = step.parse().ok()?;
    let at = if number < 0 { number + i64::try_from(length).ok()? } else { number };
    usize::try_from(at).ok().filter(|at| *at < length)
}

fn unescape(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Text {
        Text::read(text.as_bytes()).unwrap()
    }

    const OBJECT: &str =
        r#"{"kind":"K","apiVersion":"v1","m":{"z":1,"a":{"y":1,"b":2}},"l":[{"d":1,"c":{"q":1,"p":2}}]}"#;

    /// What evanphx/json-patch v4, which upstream patches with, makes of the same.
    #[test]
    fn a_merge_sorts_what_it_enters() {
        let merged = |patch: &str| read(OBJECT).merged(read(patch)).json();
        assert_eq!(
            merged(r#"{"kind":"X"}"#),
            r#"{"apiVersion":"v1","kind":"X","l":[{"d":1,"c":{"q":1,"p":2}}],"m":{"z":1,"a":{"y":1,"b":2}}}"#
        );
        assert_eq!(
            merged(r#"{"m":{"n":{"z":null,"y":1,"b":[{"f":1,"e":null}]}},"l":null}"#),
            r#"{"apiVersion":"v1","kind":"K","m":{"a":{"y":1,"b":2},"n":{"b":[{"f":1}],"y":1},"z":1}}"#
        );
        assert_eq!(
            merged(r#"{"m":[{"z":1,"a":null}],"none":null}"#),
            r#"{"apiVersion":"v1","kind":"K","l":[{"d":1,"c":{"q":1,"p":2}}],"m":[{"z":1,"a":null}]}"#
        );
    }

    #[test]
    fn operations_sort_what_they_pass() {
        let patched = |patch: &str| read(OBJECT).patched(&read(patch)).json();
        assert_eq!(
            patched(r#"[{"op":"add","path":"/l/0/b","value":{"y":1,"x":2}}]"#),
            r#"{"apiVersion":"v1","kind":"K","l":[{"b":{"y":1,"x":2},"c":{"q":1,"p":2},"d":1}],"m":{"z":1,"a":{"y":1,"b":2}}}"#
        );
        assert_eq!(
            patched(r#"[{"op":"test","path":"/m/a","value":{"b":2,"y":1}},{"op":"remove","path":"/l"}]"#),
            r#"{"apiVersion":"v1","kind":"K","m":{"a":{"b":2,"y":1},"z":1}}"#
        );
        assert_eq!(
            patched(
                r#"[{"op":"move","from":"/l/0/c","path":"/n"},{"op":"copy","from":"/m","path":"/l/-"},{"op":"replace","path":"/l/0","value":1}]"#
            ),
            r#"{"apiVersion":"v1","kind":"K","l":[1,{"z":1,"a":{"y":1,"b":2}}],"m":{"z":1,"a":{"y":1,"b":2}},"n":{"q":1,"p":2}}"#
        );
    }
}
