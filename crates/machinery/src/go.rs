//! How Go prints values, where clients see it: quoted strings, floats, and JSON with its HTML escapes.

use serde_json::Value;

/// A string as Go's `%q` prints it.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        if c == '"' { out.push_str("\\\"") } else { push_escaped(&mut out, c) }
    }
    out.push('"');
    out
}

/// A byte as Go's JSON scanner names it in its errors.
pub fn quote_byte(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        other => {
            let mut out = String::from("'");
            push_escaped(&mut out, char::from(other));
            out.push('\'');
            out
        }
    }
}

fn push_escaped(out: &mut String, c: char) {
    match c {
        '\\' => out.push_str("\\\\"),
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{b}' => out.push_str("\\v"),
        ' '..='~' => out.push(c),
        c if (c as u32) < 0x80 => out.push_str(&format!("\\x{:02x}", c as u32)),
        c if is_print(c) => out.push(c),
        c if (c as u32) < 0x10000 => out.push_str(&format!("\\u{:04x}", c as u32)),
        c => out.push_str(&format!("\\U{:08x}", c as u32)),
    }
}

/// Whether Go calls a character beyond ASCII printable. Rust's own escaping knows the same table, except that it
/// escapes combining marks at the start of a string, hence the letter before it.
fn is_print(c: char) -> bool {
    !c.is_whitespace() && ['a', c].iter().collect::<String>().escape_debug().count() == 2
}

/// A float as Go's `%v` prints it.
pub fn float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// A value as Go's `json.Marshal` prints it: compact, with `<`, `>` and `&` escaped.
pub fn json(value: &Value) -> String {
    let plain = value.to_string();
    if !plain.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return plain;
    }
    plain.chars().fold(String::with_capacity(plain.len() + 16), |mut out, c| {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            c => out.push(c),
        }
        out
    })
}

/// A value as Go's `%v` prints it: `map[spec:map[replicas:2] tags:[a b]]`.
pub fn sprint(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => float(number.as_f64().unwrap_or_default()),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(list) => format!("[{}]", list.iter().map(sprint).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let entries: Vec<String> = map.iter().map(|(key, value)| format!("{key}:{}", sprint(value))).collect();
            format!("map[{}]", entries.join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted_like_go() {
        assert_eq!(quote("a\"b\\c\n\u{1}é\u{a0}\u{1f600}"), "\"a\\\"b\\\\c\\n\\x01é\\u00a0\u{1f600}\"");
        assert_eq!(quote_byte(b'n'), "'n'");
        assert_eq!(quote_byte(b'\''), "'\\''");
        assert_eq!(quote_byte(0x81), "'\\u0081'");
        assert_eq!(quote_byte(0), "'\\x00'");
    }

    #[test]
    fn floats_are_printed_like_go() {
        assert_eq!(float(1.5), "1.5");
        assert_eq!(float(1e6), "1e+06");
        assert_eq!(float(123456789.0), "1.23456789e+08");
        assert_eq!(float(100000.0), "100000");
        assert_eq!(float(0.00001), "1e-05");
        assert_eq!(float(0.0001), "0.0001");
        assert_eq!(float(-2.0), "-2");
    }

    #[test]
    fn json_escapes_what_html_minds() {
        assert_eq!(json(&serde_json::json!({"a": "<&>"})), "{\"a\":\"\\u003c\\u0026\\u003e\"}");
    }
}
