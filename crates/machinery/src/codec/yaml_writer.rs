//! YAML in block style, keys in order, quotes only where a word would be read as something else.

use std::fmt::Write;

use serde_json::Value;

use super::resolve::{self, Scalar};

/// A value as a YAML document.
pub fn write(value: &Value) -> String {
    let mut out = String::new();
    node(&mut out, value, 0, false);
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

/// Writes a value; `inline` when something (`key:` or `-`) stands before it on the line.
fn node(out: &mut String, value: &Value, indent: usize, inline: bool) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (i, (key, value)) in map.iter().enumerate() {
                if i > 0 || !inline {
                    pad(out, indent);
                }
                out.push_str(&text(key, indent, false));
                out.push(':');
                entry(out, value, indent);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for (i, item) in list.iter().enumerate() {
                if i > 0 || !inline {
                    pad(out, indent);
                }
                out.push_str("- ");
                node(out, item, indent + 2, true);
            }
        }
        other => {
            out.push_str(&scalar(other, indent));
            out.push('\n');
        }
    }
}

/// Writes what follows `key:`. A list stands at the key's own indentation, as Go's writer has it.
fn entry(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            node(out, value, indent + 2, false);
        }
        Value::Array(list) if !list.is_empty() => {
            out.push('\n');
            node(out, value, indent, false);
        }
        other => {
            out.push(' ');
            out.push_str(&scalar(other, indent));
            out.push('\n');
        }
    }
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

fn scalar(value: &Value, indent: usize) -> String {
    match value {
        Value::String(string) => text(string, indent, true),
        Value::Object(_) => "{}".to_owned(),
        Value::Array(_) => "[]".to_owned(),
        other => other.to_string(),
    }
}

fn text(string: &str, indent: usize, block: bool) -> String {
    let printable = string.chars().all(|c| c == '\n' || (!c.is_control() && c != '\u{feff}'));
    if !printable {
        return double_quoted(string);
    }
    if string.contains('\n') {
        let starts_blank = string.starts_with([' ', '\n']);
        return if block && !starts_blank { literal(string, indent + 2) } else { double_quoted(string) };
    }
    if !matches!(resolve::plain(string), Scalar::Value(Value::String(_))) || string == "<<" || looks_like_time(string) {
        return format!("\"{}\"", string.replace('\\', "\\\\").replace('"', "\\\""));
    }
    if plain_is_fine(string) { string.to_owned() } else { format!("'{}'", string.replace('\'', "''")) }
}

fn literal(string: &str, indent: usize) -> String {
    let chomp = match (string.ends_with('\n'), string.ends_with("\n\n")) {
        (false, _) => "-",
        (true, false) => "",
        (true, true) => "+",
    };
    let mut out = format!("|{chomp}");
    for line in string.strip_suffix('\n').unwrap_or(string).split('\n') {
        out.push('\n');
        if !line.is_empty() {
            pad(&mut out, indent);
            out.push_str(line);
        }
    }
    out
}

fn double_quoted(string: &str) -> String {
    let mut out = String::from("\"");
    for c in string.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || c == '\u{feff}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn looks_like_time(string: &str) -> bool {
    let bytes = string.as_bytes();
    bytes.len() >= 8 && bytes[..4].iter().all(u8::is_ascii_digit) && bytes[4] == b'-'
}

fn plain_is_fine(string: &str) -> bool {
    let special_start = string.starts_with([
        '-', '?', ':', ',', '[', ']', '{', '}', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`', ' ', '=',
    ]);
    let dash_word =
        string.starts_with('-') && string.len() > 1 && !string.starts_with("- ") && !string.starts_with("---");
    (!special_start || dash_word) && !string.ends_with([' ', ':']) && !string.contains(": ") && !string.contains(" #")
}
