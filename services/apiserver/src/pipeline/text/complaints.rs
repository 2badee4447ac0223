//! The order of what strict decoding minds.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use trireme_machinery::go;

use super::Text;

const UNKNOWN: &str = "unknown field ";
const DUPLICATE: &str = "duplicate field ";

/// Where a path stands in a text.
struct Place {
    first: usize,
    again: Option<usize>,
}

/// Complaints about a text as a decoder makes them that reads on and on: where they stand, and none about what lies in
/// a field that it does not know.
pub(crate) fn in_order(text: &[u8], duplicates: Vec<String>, unknown: Vec<String>) -> Vec<String> {
    if duplicates.len() + unknown.len() < 2 {
        return duplicates.into_iter().chain(unknown).collect();
    }
    match Text::read(text) {
        Some(text) => text.in_order(duplicates, unknown),
        None => duplicates.into_iter().chain(unknown).collect(),
    }
}

impl Text {
    /// See [`in_order`].
    pub(crate) fn in_order(&self, duplicates: Vec<String>, unknown: Vec<String>) -> Vec<String> {
        let mut places = HashMap::new();
        self.walk(&mut String::new(), &mut 0, &mut places);
        let skipped: Vec<&str> = unknown.iter().filter_map(|text| path(text, UNKNOWN)).collect();
        let heard = |duplicate: &String| {
            let Some(path) = path(duplicate, DUPLICATE) else { return true };
            !skipped.iter().any(|outer| {
                path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
            })
        };
        let place = |complaint: &String| {
            let quoted = complaint.strip_prefix(UNKNOWN).or_else(|| complaint.strip_prefix(DUPLICATE));
            let place = quoted.and_then(|quoted| places.get(quoted));
            place.map_or(usize::MAX, |place| match place.again {
                Some(again) if complaint.starts_with(DUPLICATE) => again,
                _ => place.first,
            })
        };
        let mut all: Vec<String> = duplicates.iter().filter(|text| heard(text)).chain(&unknown).cloned().collect();
        all.sort_by_key(place);
        all
    }

    /// Notes where every path stands, by the path as complaints quote it.
    fn walk(&self, path: &mut String, at: &mut usize, places: &mut HashMap<String, Place>) {
        let length = path.len();
        match self {
            Self::Scalar(_) => {}
            Self::List(list) => {
                for (i, item) in list.iter().enumerate() {
                    path.push_str(&format!("[{i}]"));
                    item.walk(path, at, places);
                    path.truncate(length);
                }
            }
            Self::Map(entries) => {
                for (key, value) in entries {
                    if length > 0 {
                        path.push('.');
                    }
                    path.push_str(key);
                    *at += 1;
                    match places.entry(go::quote(path)) {
                        Entry::Vacant(entry) => drop(entry.insert(Place { first: *at, again: None })),
                        Entry::Occupied(mut entry) => _ = entry.get_mut().again.get_or_insert(*at),
                    }
                    value.walk(path, at, places);
                    path.truncate(length);
                }
            }
        }
    }
}

/// The path that a complaint quotes.
fn path<'a>(complaint: &'a str, what: &str) -> Option<&'a str> {
    complaint.strip_prefix(what)?.strip_prefix('"')?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(text: &str, duplicates: &[&str], unknown: &[&str]) -> Vec<String> {
        let said = |what: &str, paths: &[&str]| paths.iter().map(|path| format!("{what}\"{path}\"")).collect();
        in_order(text.as_bytes(), said(DUPLICATE, duplicates), said(UNKNOWN, unknown))
    }

    /// As sigs.k8s.io/json tells them.
    #[test]
    fn complaints_stand_as_their_fields_do() {
        let text = r#"{"z":1,"spec":{"y":1,"l":[{"b":1},{"b":1,"a":2}],"n":1,"n":2},"a":{"q":1,"q":1}}"#;
        assert_eq!(
            ordered(text, &["spec.n", "a.q"], &["a", "spec.l[1].a", "spec.l[1].b", "spec.y", "z"]),
            [
                "unknown field \"z\"",
                "unknown field \"spec.y\"",
                "unknown field \"spec.l[1].b\"",
                "unknown field \"spec.l[1].a\"",
                "duplicate field \"spec.n\"",
                "unknown field \"a\"",
            ]
        );
        assert_eq!(ordered("{nope", &["b"], &["a"]), ["duplicate field \"b\"", "unknown field \"a\""]);
    }
}
