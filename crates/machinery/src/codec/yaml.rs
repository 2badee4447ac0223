//! YAML as Kubernetes reads it: YAML 1.1 words (`yes`, `017`), anchors and merge keys, the first document only.

use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Options, Parser, ScalarStyle, ScanError, Tag};
use serde_json::{Map, Value};

use super::resolve::{self, Scalar};
use super::{KEPT_DEPTH, MAX_DEPTH, Parsed, json};
use crate::Error;
use crate::go::{json as go_json, quote};

pub use super::yaml_writer::write;

/// How many values aliases may stand for altogether, so that a small body does not unfold without end.
const MAX_ALIASED: usize = 200_000;

/// Reads the first document of a YAML stream.
pub fn parse(body: &[u8]) -> Result<Parsed, Error> {
    // JSON is YAML, and what most clients send; its duplicates are told by line below.
    if body.first() == Some(&b'{')
        && let Ok(parsed) = json::parse(body)
        && parsed.duplicates.is_empty()
    {
        return Ok(parsed);
    }
    let text = std::str::from_utf8(body).map_err(|_| Error::Yaml("yaml: invalid leading UTF-8 octet".to_owned()))?;
    Composer::default().run(text)
}

/// A list or a map whose end is not reached yet.
struct Open {
    anchor: usize,
    at: Where,
    line: usize,
}

enum Where {
    List(Vec<Value>),
    Map { map: Map<String, Value>, merged: Vec<Map<String, Value>>, key: Option<Key> },
}

enum Key {
    Name(String),
    /// `<<`: the map that follows is merged in.
    Merge,
}

#[derive(Default)]
struct Composer {
    stack: Vec<Open>,
    anchors: HashMap<usize, (Value, (usize, usize))>,
    aliased: usize,
    duplicates: Vec<String>,
    too_deep: bool,
}

impl Composer {
    fn run(mut self, text: &str) -> Result<Parsed, Error> {
        let options = Options::default();
        let mut parser = Parser::new_from_str_with_options(text, options);
        let mut root = Value::Null;
        while let Some(next) = parser.next_event() {
            let (event, span) = next.map_err(|error| scan_error(&error))?;
            let line = span.start.line();
            let done = match event {
                Event::Scalar(text, style, anchor, tag) => {
                    let merge = style == ScalarStyle::Plain && text == "<<" && tag.is_none() && self.wants_key();
                    if merge {
                        self.merge_key()
                    } else {
                        self.finish(scalar(&text, style, tag.as_deref())?, anchor, line)?
                    }
                }
                Event::Alias(id) => {
                    let aliased = self.aliased(id)?;
                    self.finish(aliased, 0, line)?
                }
                Event::SequenceStart(_, anchor, _) => self.open(Where::List(Vec::new()), anchor, line)?,
                Event::MappingStart(_, anchor, _) => {
                    self.open(Where::Map { map: Map::new(), merged: Vec::new(), key: None }, anchor, line)?
                }
                Event::SequenceEnd | Event::MappingEnd => self.close()?,
                Event::DocumentEnd | Event::StreamEnd => break,
                _ => None,
            };
            if let Some(done) = done {
                root = done;
            }
        }
        let duplicates = match self.duplicates.as_slice() {
            [] => Vec::new(),
            lines => vec![format!("yaml: unmarshal errors:\n  {}", lines.join("\n  "))],
        };
        Ok(Parsed { value: root, duplicates, too_deep: self.too_deep })
    }

    fn wants_key(&self) -> bool {
        matches!(self.stack.last(), Some(Open { at: Where::Map { key: None, .. }, .. }))
    }

    fn merge_key(&mut self) -> Option<Value> {
        if let Some(Open { at: Where::Map { key, .. }, .. }) = self.stack.last_mut() {
            *key = Some(Key::Merge);
        }
        None
    }

    fn open(&mut self, at: Where, anchor: usize, line: usize) -> Result<Option<Value>, Error> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(Error::Yaml(format!("yaml: exceeded max depth of {MAX_DEPTH}")));
        }
        if self.wants_key() {
            let what = if matches!(at, Where::List(_)) { "[]interface {}" } else { "map[interface {}]interface {}" };
            return Err(Error::Yaml(format!("yaml: invalid map key: {what}{{}}")));
        }
        self.stack.push(Open { anchor, at, line });
        Ok(None)
    }

    fn close(&mut self) -> Result<Option<Value>, Error> {
        let Some(open) = self.stack.pop() else { return Ok(None) };
        let value = match open.at {
            Where::List(list) => Value::Array(list),
            Where::Map { mut map, merged, .. } => {
                for (key, value) in merged.into_iter().flatten() {
                    map.entry(key).or_insert(value);
                }
                Value::Object(map)
            }
        };
        let value = if self.stack.len() < KEPT_DEPTH {
            value
        } else {
            self.too_deep = true;
            Value::Null
        };
        self.finish(value, open.anchor, open.line)
    }

    /// A value is complete: it goes into what is open, or is the document.
    fn finish(&mut self, value: Value, anchor: usize, line: usize) -> Result<Option<Value>, Error> {
        if anchor != 0 {
            let size = size(&value);
            self.anchors.insert(anchor, (value.clone(), size));
        }
        match self.stack.last_mut().map(|open| &mut open.at) {
            None => return Ok(Some(value)),
            Some(Where::List(list)) => list.push(value),
            Some(Where::Map { map, merged, key }) => match key.take() {
                None => *key = Some(Key::Name(key_name(&value)?)),
                Some(Key::Merge) => merge(merged, value)?,
                Some(Key::Name(name)) => {
                    if map.contains_key(&name) {
                        self.duplicates.push(format!("line {line}: key {} already set in map", quote(&name)));
                    }
                    map.insert(name, value);
                }
            },
        }
        Ok(None)
    }

    fn aliased(&mut self, id: usize) -> Result<Value, Error> {
        let Some((value, (size, depth))) = self.anchors.get(&id) else {
            return Err(Error::Yaml("yaml: anchor value contains itself".to_owned()));
        };
        self.aliased += size;
        if self.stack.len() + depth > KEPT_DEPTH {
            self.too_deep = true;
            return Ok(Value::Null);
        }
        if self.aliased > MAX_ALIASED {
            return Err(Error::Yaml("yaml: document contains excessive aliasing".to_owned()));
        }
        Ok(value.clone())
    }
}

fn merge(merged: &mut Vec<Map<String, Value>>, value: Value) -> Result<(), Error> {
    let wrong = || Error::Yaml("yaml: map merge requires map or sequence of maps as the value".to_owned());
    match value {
        Value::Object(map) => merged.push(map),
        Value::Array(list) => {
            for item in list {
                match item {
                    Value::Object(map) => merged.push(map),
                    _ => return Err(wrong()),
                }
            }
        }
        _ => return Err(wrong()),
    }
    Ok(())
}

/// How many values a value holds, and how deep it is.
fn size(value: &Value) -> (usize, usize) {
    let (mut count, mut depth) = (0, 0);
    let mut todo = vec![(value, 0)];
    while let Some((value, at)) = todo.pop() {
        count += 1;
        depth = depth.max(at);
        match value {
            Value::Array(list) => todo.extend(list.iter().map(|value| (value, at + 1))),
            Value::Object(map) => todo.extend(map.values().map(|value| (value, at + 1))),
            _ => {}
        }
    }
    (count, depth)
}

fn key_name(value: &Value) -> Result<String, Error> {
    Ok(match value {
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Null => {
            return Err(Error::Yaml("unsupported map key of type: %!s(<nil>), key: <nil>, value: <nil>".to_owned()));
        }
        other => return Err(Error::Yaml(format!("yaml: invalid map key: {}", go_json(other)))),
    })
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, Error> {
    let short = tag.and_then(Tag::core_suffix);
    let wrong =
        |found: &str, wanted: &str| Error::Yaml(format!("yaml: cannot decode !!{found} `{text}` as a !!{wanted}"));
    let resolved = match (short, style) {
        (Some("str"), _) => return Ok(text.into()),
        (None, _) if tag.is_some() => return Ok(text.into()),
        (None, ScalarStyle::Plain) | (Some(_), _) => match resolve::plain(text) {
            Scalar::Value(value) => value,
            Scalar::Unsupported(name) => return Err(Error::Yaml(format!("json: unsupported value: {name}"))),
        },
        (None, _) => return Ok(text.into()),
    };
    let found = match &resolved {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        _ => "str",
    };
    match short {
        Some(wanted) if wanted != found && !(wanted == "float" && found == "int") => Err(wrong(found, wanted)),
        _ => Ok(resolved),
    }
}

/// The parser's error in the words of the library that Kubernetes reads YAML with.
fn scan_error(error: &ScanError) -> Error {
    let line = error.marker().line();
    // That library counts lines from zero where its parser complains, from one where its scanner does, and leaves
    // the first line out.
    let (words, scanner) = match error.kind() {
        ErrorKind::MappingValueNotAllowed | ErrorKind::FlowMappingValueAdjacentCollection => {
            ("mapping values are not allowed in this context".to_owned(), true)
        }
        ErrorKind::BlockSequenceEntryNotAllowed | ErrorKind::BlockEntryInFlowCollection => {
            ("block sequence entries are not allowed in this context".to_owned(), true)
        }
        ErrorKind::UnexpectedCharacter { .. }
        | ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation => ("found character that cannot start any token".to_owned(), true),
        ErrorKind::UnclosedQuotedScalar => ("found unexpected end of stream".to_owned(), true),
        ErrorKind::UnknownQuotedScalarEscape => ("found unknown escape character".to_owned(), true),
        ErrorKind::InvalidSimpleKey | ErrorKind::SimpleKeyExpected => ("could not find expected ':'".to_owned(), true),
        ErrorKind::ExpectedBlockMappingKey => ("did not find expected key".to_owned(), false),
        ErrorKind::ExpectedNodeContent => ("did not find expected node content".to_owned(), false),
        ErrorKind::ExpectedBlockSequenceEntry => ("did not find expected '-' indicator".to_owned(), false),
        ErrorKind::ExpectedFlowSequenceSeparator | ErrorKind::UnclosedFlowCollection { open: '[' } => {
            ("did not find expected ',' or ']'".to_owned(), false)
        }
        ErrorKind::ExpectedFlowMappingSeparator | ErrorKind::UnclosedFlowCollection { .. } => {
            ("did not find expected ',' or '}'".to_owned(), false)
        }
        ErrorKind::ExpectedDocumentStart => ("did not find expected <document start>".to_owned(), false),
        ErrorKind::UnknownAnchor => ("unknown anchor referenced".to_owned(), false),
        ErrorKind::UndeclaredTagHandle => ("found undefined tag handle".to_owned(), false),
        ErrorKind::UnsupportedYamlMajorVersion => ("found incompatible YAML document".to_owned(), false),
        _ => (error.info(), true),
    };
    let line = if scanner && line > 1 { line } else { line.saturating_sub(1) };
    Error::Yaml(if line == 0 { format!("yaml: {words}") } else { format!("yaml: line {line}: {words}") })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value(text: &str) -> Value {
        parse(text.as_bytes()).unwrap().value
    }

    fn error(text: &str) -> String {
        parse(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn words_mean_what_they_mean_in_yaml_1_1() {
        assert_eq!(
            value(
                "a: 0x1F\nb: 0o17\nc: 017\nd: 1_000\ne: .5\nf: yes\ng: ~\ni: 1e3\nk: 0b11\nl: 12345678901234567890\nj: on\no: 'y'\np: 1.0\nq: +5\ns: -0\nt: 10.96.0.1\nu: 1Gi\nv: 2026-01-01\nw:"
            ),
            json!({"a": 31, "b": 15, "c": 15, "d": 1000, "e": 0.5, "f": true, "g": null, "i": 1000, "k": 3,
                   "l": 12345678901234567890u64, "j": true, "o": "y", "p": 1, "q": 5, "s": 0, "t": "10.96.0.1",
                   "u": "1Gi", "v": "2026-01-01", "w": null})
        );
        assert_eq!(value(""), Value::Null);
        assert_eq!(value("a: 1\n---\nb: 2"), json!({"a": 1}));
        assert_eq!(value("1: a\ntrue: b\n1.5: c"), json!({"1": "a", "true": "b", "1.5": "c"}));
    }

    #[test]
    fn structures_anchors_and_merges() {
        assert_eq!(
            value("x: &a {k: v, l: 0}\nw:\n  <<: *a\n  l: 1\nz: [*a, {}]\nt: |\n  one\n  two\nu: >-\n  three\n  four"),
            json!({"x": {"k": "v", "l": 0}, "w": {"k": "v", "l": 1}, "z": [{"k": "v", "l": 0}, {}], "t": "one\ntwo\n", "u": "three four"})
        );
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for i in 1..9 {
            let list = vec![format!("*a{}", i - 1); 10].join(", ");
            bomb += &format!("a{i}: &a{i} [{list}]\n");
        }
        assert_eq!(error(&bomb), "yaml: document contains excessive aliasing");
    }

    #[test]
    fn errors_are_those_of_kubernetes() {
        assert_eq!(error("a: b: c"), "yaml: mapping values are not allowed in this context");
        assert_eq!(error("a: 1\n b: 2"), "yaml: line 2: mapping values are not allowed in this context");
        assert_eq!(error("a:\n\t- b"), "yaml: line 2: found character that cannot start any token");
        assert_eq!(
            error("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n data: x"),
            "yaml: line 4: did not find expected key"
        );
        assert_eq!(error("a: 'x"), "yaml: found unexpected end of stream");
        assert_eq!(error("a: \"\\q\""), "yaml: found unknown escape character");
        assert_eq!(error("a: .nan"), "json: unsupported value: NaN");
        assert_eq!(error("a: !!int x"), "yaml: cannot decode !!str `x` as a !!int");
    }

    #[test]
    fn keys_that_stand_twice_are_told_with_their_line() {
        let parsed = parse(b"apiVersion: v1\ndata:\n  a: 'x'\n  a: 'y'\n").unwrap();
        assert_eq!(parsed.value, json!({"apiVersion": "v1", "data": {"a": "y"}}));
        assert_eq!(parsed.duplicates, ["yaml: unmarshal errors:\n  line 4: key \"a\" already set in map"]);
        let parsed = parse(b"{\"a\": 1,\n\"a\": 2}").unwrap();
        assert_eq!(parsed.duplicates, ["yaml: unmarshal errors:\n  line 2: key \"a\" already set in map"]);
    }

    #[test]
    fn what_is_written_is_read_back() {
        let object = json!({"a": "yes", "b": "1", "c": "", "d": [], "e": {}, "f": [1, {"x": "y", "z": ["w", [2]]}],
            "g": "two\nlines\n", "h": " lead", "i": "a: b", "j": "x # y", "k": "- z", "l": null, "m": 1.5, "n": true,
            "o": "tab\there", "p": "~", "q": "2026-01-01T00:00:00Z", "r": "0x1F", "s": "\u{e9}", "t": "no newline\nat end",
            "10": "key", "null": "word", "u": "*a", "v": "'q'", "w": "\"dq\"", "x": "end:", "y": "%d", "z": "@a",
            "multi": {"deep": {"deeper": [{"a": 1, "b": [{"c": 2}]}]}}});
        let text = write(&object);
        assert_eq!(value(&text), object, "{text}");
    }
}
