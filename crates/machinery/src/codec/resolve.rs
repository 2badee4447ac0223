//! What a plain word in YAML stands for, by the rules of YAML 1.1 that Kubernetes' reader follows.

use serde_json::{Number, Value};

/// What a scalar stands for.
pub(super) enum Scalar {
    Value(Value),
    /// A number that JSON cannot say.
    Unsupported(&'static str),
}

/// The value of a plain scalar without a tag.
pub(super) fn plain(text: &str) -> Scalar {
    let value = match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Value::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Value::Bool(false),
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        ".nan" | ".NaN" | ".NAN" => return Scalar::Unsupported("NaN"),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Scalar::Unsupported("+Inf"),
        "-.inf" | "-.Inf" | "-.INF" => return Scalar::Unsupported("-Inf"),
        _ => match text.as_bytes().first() {
            Some(b'.') => return float(text).unwrap_or_else(|| Scalar::Value(text.into())),
            Some(b'+' | b'-' | b'0'..=b'9') => return number(text).unwrap_or_else(|| Scalar::Value(text.into())),
            _ => text.into(),
        },
    };
    Scalar::Value(value)
}

fn number(text: &str) -> Option<Scalar> {
    let plain = text.replace('_', "");
    if let Some(whole) = integer(&plain) {
        return Some(Scalar::Value(whole));
    }
    float(&plain)
}

/// Go's integers with base prefixes: `0x`, `0b`, `0o`, and `0` alone for octal.
fn integer(text: &str) -> Option<Value> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    if digits.is_empty() || digits.starts_with(['+', '-']) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, base).ok()?;
    match (negative, i64::try_from(magnitude)) {
        (false, _) => Some(magnitude.into()),
        (true, Ok(magnitude)) => Some((-magnitude).into()),
        (true, Err(_)) => (magnitude == 1 << 63).then(|| i64::MIN.into()),
    }
}

fn float(text: &str) -> Option<Scalar> {
    let unsigned = text.trim_start_matches(['+', '-']);
    if text.len() - unsigned.len() > 1 || !unsigned.starts_with(|c: char| c == '.' || c.is_ascii_digit()) {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    if value.is_infinite() {
        return Some(Scalar::Value(text.into()));
    }
    // Go's encoder writes a float without a fraction as a whole number.
    if value.fract() == 0.0 && value.abs() < 1e18 {
        return Some(Scalar::Value((value as i64).into()));
    }
    Number::from_f64(value).map(|number| Scalar::Value(Value::Number(number)))
}
