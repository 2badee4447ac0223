//! JSON as Go's `encoding/json` reads it: the same texts pass, and what does not gets the same error.
//!
//! The parser keeps its own stack, so the depth of a body costs memory on the heap only.

use serde_json::{Map, Number, Value};

use super::{KEPT_DEPTH, MAX_DEPTH, Parsed};
use crate::Error;
use crate::go::quote_byte;

/// More keys than this that stand twice are not told.
const MAX_DUPLICATES: usize = 100;

/// Reads one JSON value.
pub fn parse(body: &[u8]) -> Result<Parsed, Error> {
    Parser { body, at: 0, stack: Vec::new(), duplicates: Vec::new(), too_deep: false }.run()
}

/// What Go calls the type of a value in its errors.
pub fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A list or a map whose end is not reached yet.
enum Open {
    List(Vec<Value>),
    Map { map: Map<String, Value>, key: String },
}

struct Parser<'a> {
    body: &'a [u8],
    at: usize,
    stack: Vec<Open>,
    duplicates: Vec<String>,
    too_deep: bool,
}

impl Parser<'_> {
    fn run(mut self) -> Result<Parsed, Error> {
        loop {
            // A value starts here; a list or a map that is not empty is opened and its first value starts.
            let mut value = match self.value()? {
                Some(value) => value,
                None => continue,
            };
            // A value ended here; lists and maps that end with it are closed.
            loop {
                self.skip_space();
                let next = match self.stack.pop() {
                    None => return self.end(value),
                    Some(Open::List(mut list)) => {
                        list.push(value);
                        match self.byte() {
                            Some(b']') => self.kept(Value::Array(list)),
                            Some(b',') => {
                                self.stack.push(Open::List(list));
                                self.at += 1;
                                break;
                            }
                            _ => return Err(self.unexpected("after array element")),
                        }
                    }
                    Some(Open::Map { mut map, key }) => {
                        if map.contains_key(&key) {
                            self.duplicate(&key);
                        }
                        map.insert(key, value);
                        match self.byte() {
                            Some(b'}') => self.kept(Value::Object(map)),
                            Some(b',') => {
                                self.at += 1;
                                self.skip_space();
                                let key = self.key()?;
                                self.stack.push(Open::Map { map, key });
                                break;
                            }
                            _ => return Err(self.unexpected("after object key:value pair")),
                        }
                    }
                };
                self.at += 1;
                value = next;
            }
        }
    }

    fn end(self, value: Value) -> Result<Parsed, Error> {
        if self.at < self.body.len() {
            return Err(self.unexpected("after top-level value"));
        }
        Ok(Parsed { value, duplicates: self.duplicates, too_deep: self.too_deep })
    }

    /// A list or a map that ends, unless it lies too deep.
    fn kept(&mut self, value: Value) -> Value {
        if self.stack.len() < KEPT_DEPTH {
            return value;
        }
        self.too_deep = true;
        Value::Null
    }

    /// A value that needs no stack; `None` after opening one that does.
    fn value(&mut self) -> Result<Option<Value>, Error> {
        self.skip_space();
        let value = match self.byte() {
            Some(b'"') => Value::String(self.string()?),
            Some(b't') => self.literal("true", Value::Bool(true))?,
            Some(b'f') => self.literal("false", Value::Bool(false))?,
            Some(b'n') => self.literal("null", Value::Null)?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b'[') => {
                self.check_depth()?;
                self.at += 1;
                self.skip_space();
                if self.byte() == Some(b']') {
                    self.at += 1;
                    return Ok(Some(Value::Array(Vec::new())));
                }
                self.stack.push(Open::List(Vec::new()));
                return Ok(None);
            }
            Some(b'{') => {
                self.check_depth()?;
                self.at += 1;
                self.skip_space();
                if self.byte() == Some(b'}') {
                    self.at += 1;
                    return Ok(Some(Value::Object(Map::new())));
                }
                let key = self.key()?;
                self.stack.push(Open::Map { map: Map::new(), key });
                return Ok(None);
            }
            _ => return Err(self.unexpected("looking for beginning of value")),
        };
        Ok(Some(value))
    }

    fn check_depth(&self) -> Result<(), Error> {
        if self.stack.len() >= MAX_DEPTH { Err(self.unexpected("exceeded max depth")) } else { Ok(()) }
    }

    fn key(&mut self) -> Result<String, Error> {
        if self.byte() != Some(b'"') {
            return Err(self.unexpected("looking for beginning of object key string"));
        }
        let key = self.string()?;
        self.skip_space();
        if self.byte() != Some(b':') {
            return Err(self.unexpected("after object key"));
        }
        self.at += 1;
        Ok(key)
    }

    fn literal(&mut self, word: &str, value: Value) -> Result<Value, Error> {
        for (i, expected) in word.bytes().enumerate() {
            if self.byte() != Some(expected) {
                debug_assert!(i > 0, "the first letter chose the word");
                let context = format!("in literal {word} (expecting '{}')", char::from(expected));
                return Err(self.unexpected_inside(&context));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn number(&mut self) -> Result<Value, Error> {
        let start = self.at;
        if self.byte() == Some(b'-') {
            self.at += 1;
        }
        match self.byte() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.unexpected_inside("in numeric literal")),
        }
        let mut whole = true;
        if self.byte() == Some(b'.') {
            whole = false;
            self.at += 1;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if matches!(self.byte(), Some(b'e' | b'E')) {
            whole = false;
            self.at += 1;
            if matches!(self.byte(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        let text = String::from_utf8_lossy(&self.body[start..self.at]);
        if whole {
            if let Ok(number) = text.parse::<i64>() {
                return Ok(number.into());
            }
            if let Ok(number) = text.parse::<u64>() {
                return Ok(number.into());
            }
        }
        text.parse()
            .ok()
            .and_then(Number::from_f64)
            .map(Value::Number)
            .ok_or_else(|| Error::Json(format!("json: cannot unmarshal number {text} into Go value of type float64")))
    }

    fn some_digits(&mut self, context: &str) -> Result<(), Error> {
        if !self.byte().is_some_and(|b| b.is_ascii_digit()) {
            return Err(self.unexpected_inside(context));
        }
        self.digits();
        Ok(())
    }

    fn digits(&mut self) {
        while self.byte().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn string(&mut self) -> Result<String, Error> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let start = self.at;
            while self.byte().is_some_and(|b| b >= 0x20 && b != b'"' && b != b'\\') {
                self.at += 1;
            }
            text.push_str(&String::from_utf8_lossy(&self.body[start..self.at]));
            match self.byte() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => {
                    self.at += 1;
                    let c = self.escape()?;
                    text.push(c);
                }
                _ => return Err(self.unexpected("in string literal")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Error> {
        let c = match self.byte() {
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(c @ (b'\\' | b'/' | b'"')) => char::from(c),
            Some(b'u') => {
                self.at += 1;
                return self.unicode();
            }
            _ => return Err(self.unexpected_inside("in string escape code")),
        };
        self.at += 1;
        Ok(c)
    }

    /// Half of a surrogate pair alone stands for the replacement character.
    fn unicode(&mut self) -> Result<char, Error> {
        let high = self.four_hex()?;
        if (0xd800..0xdc00).contains(&high) && self.body[self.at..].starts_with(b"\\u") {
            let before = self.at;
            self.at += 2;
            let low = self.four_hex()?;
            if (0xdc00..0xe000).contains(&low) {
                let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = before;
        }
        Ok(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn four_hex(&mut self) -> Result<u32, Error> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.byte().and_then(|b| char::from(b).to_digit(16));
            let Some(digit) = digit else {
                return Err(self.unexpected_inside("in \\u hexadecimal character escape"));
            };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }

    fn byte(&self) -> Option<u8> {
        self.body.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.byte(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// What stands here may not, or the body ends.
    fn unexpected(&self, context: &str) -> Error {
        match self.byte() {
            Some(byte) => Error::Json(format!("invalid character {} {context}", quote_byte(byte))),
            None => Error::Json("unexpected end of JSON input".to_owned()),
        }
    }

    /// The same in the middle of a word, where Go takes the end for a blank.
    fn unexpected_inside(&self, context: &str) -> Error {
        Error::Json(format!("invalid character {} {context}", quote_byte(self.byte().unwrap_or(b' '))))
    }

    fn duplicate(&mut self, key: &str) {
        let mut path = String::new();
        for open in &self.stack {
            match open {
                Open::List(list) => path.push_str(&format!("[{}]", list.len())),
                Open::Map { key, .. } => push_key(&mut path, key),
            }
        }
        push_key(&mut path, key);
        let complaint = format!("duplicate field \"{path}\"");
        if self.duplicates.len() < MAX_DUPLICATES && !self.duplicates.contains(&complaint) {
            self.duplicates.push(complaint);
        }
    }
}

fn push_key(path: &mut String, key: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn error(body: &[u8]) -> String {
        parse(body).unwrap_err().to_string()
    }

    #[test]
    fn errors_are_those_of_go() {
        for (body, message) in [
            (&b""[..], "unexpected end of JSON input"),
            (b"{nope", "invalid character 'n' looking for beginning of object key string"),
            (b"{\"a\":01}", "invalid character '1' after object key:value pair"),
            (b"{\"a\":1.}", "invalid character '}' after decimal point in numeric literal"),
            (b"{\"a\":1e}", "invalid character '}' in exponent of numeric literal"),
            (b"{\"a\":-}", "invalid character '}' in numeric literal"),
            (b"{\"a\":tru}", "invalid character '}' in literal true (expecting 'e')"),
            (b"{\"a\":nul", "invalid character ' ' in literal null (expecting 'l')"),
            (b"{\"a\" 1}", "invalid character '1' after object key"),
            (b"{\"a\":1 \"b\"}", "invalid character '\"' after object key:value pair"),
            (b"[1 2]", "invalid character '2' after array element"),
            (b"{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
            (b"[1,]", "invalid character ']' looking for beginning of value"),
            (b"{\"a\":\"\x01\"}", "invalid character '\\x01' in string literal"),
            (b"{\"a\":\"\\x\"}", "invalid character 'x' in string escape code"),
            (b"{\"a\":\"\\u12g4\"}", "invalid character 'g' in \\u hexadecimal character escape"),
            (b"{\"a\":\"", "unexpected end of JSON input"),
            (b"{\"a\":\"\\", "invalid character ' ' in string escape code"),
            (b"\xff", "invalid character '\u{ff}' looking for beginning of value"),
            (b"{\"a\":1}}", "invalid character '}' after top-level value"),
            (b"{'a':1}", "invalid character '\\'' looking for beginning of object key string"),
            (b"\x00", "invalid character '\\x00' looking for beginning of value"),
        ] {
            assert_eq!(error(body), message, "{}", String::from_utf8_lossy(body));
        }
    }

    #[test]
    fn texts_and_numbers_are_read() {
        let parsed =
            parse(br#" {"a":"\ud83d\ude00\ud800x\u00e9\n\/","b":[1,-2,18446744073709551615,1.5,1e3,null,true]} "#)
                .unwrap();
        assert_eq!(
            parsed.value,
            json!({"a": "\u{1f600}\u{fffd}x\u{e9}\n/", "b": [1, -2, 18446744073709551615u64, 1.5, 1e3, null, true]})
        );
        assert_eq!(parse(b"\"\xff\"").unwrap().value, json!("\u{fffd}"));
    }

    #[test]
    fn keys_that_stand_twice_are_told_once() {
        let parsed = parse(br#"{"a":1,"a":2,"a":3,"b":[{},{"c":{"d":1,"d":2}}]}"#).unwrap();
        assert_eq!(parsed.value, json!({"a": 3, "b": [{}, {"c": {"d": 2}}]}));
        assert_eq!(parsed.duplicates, ["duplicate field \"a\"", "duplicate field \"b[1].c.d\""]);
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert_eq!(error(nested(MAX_DEPTH + 1).as_bytes()), "invalid character '[' exceeded max depth");
        let deepest = parse(nested(MAX_DEPTH).as_bytes()).unwrap();
        assert!(deepest.too_deep);
        assert_eq!(deepest.value.to_string(), format!("{}null{}", "[".repeat(KEPT_DEPTH), "]".repeat(KEPT_DEPTH)));
        let kept = parse(nested(KEPT_DEPTH).as_bytes()).unwrap();
        assert!(!kept.too_deep);
        assert_eq!(kept.value.clone().to_string(), nested(KEPT_DEPTH));
    }

    proptest! {
        #[test]
        fn what_serde_writes_is_read_back(text in "\\PC{0,20}", number in any::<i64>(), float in -1e9f64..1e9) {
            let value = json!({"text": text.clone(), text: [number, float, {"nested": {}}]});
            prop_assert_eq!(parse(value.to_string().as_bytes()).unwrap().value, value);
        }

        #[test]
        fn no_body_makes_it_panic(body in prop::collection::vec(prop::sample::select(b"{}[]\",:\\u019e-+.tfn \x00\xff".to_vec()), 0..40)) {
            let ours = parse(&body).is_ok();
            let lossy = String::from_utf8_lossy(&body).into_owned();
            // serde_json refuses half surrogate pairs and numbers beyond floats, which are no matter of form.
            if let Err(theirs) = serde_json::from_str::<Value>(&lossy) {
                let form = !theirs.to_string().contains("surrogate") && !theirs.to_string().contains("out of range")
                    && !theirs.to_string().contains("hex escape");
                prop_assert!(!ours || !form, "{} is taken, serde says {}", lossy, theirs);
            } else {
                prop_assert!(ours, "{} is refused", lossy);
            }
        }
    }
}
