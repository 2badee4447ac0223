//! Values that are a number or a text: ports by number or name, counts absolute or in percent.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;
use crate::go::quote;

/// A number or a text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// A number.
    Int(i32),
    /// A text.
    String(String),
}

// === impl IntOrString ===

impl IntOrString {
    /// Takes a text for a number if it is one.
    pub fn parse(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::String(text.to_owned()), Self::Int)
    }

    /// Reads a number or a text out of an object.
    pub fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Number(number) => Some(Self::Int(i32::try_from(number.as_i64()?).ok()?)),
            Value::String(text) => Some(Self::String(text.clone())),
            _ => None,
        }
    }

    /// The number; of a text the number that it spells, else 0.
    pub fn int_value(&self) -> i32 {
        match self {
            Self::Int(number) => *number,
            Self::String(text) => text.parse().unwrap_or_default(),
        }
    }

    /// The number, or the share of `total` that a percentage means. Any other text is an error.
    pub fn scaled(&self, total: i32, round_up: bool) -> Result<i32, Error> {
        let text = match self {
            Self::Int(number) => return Ok(*number),
            Self::String(text) => text,
        };
        let invalid = |why: String| Error::IntOrString(format!("invalid value for IntOrString: {why}"));
        let digits =
            text.strip_suffix('%').ok_or_else(|| invalid("invalid type: string is not a percentage".to_owned()))?;
        let percent: i64 = digits.parse().map_err(|_| {
            invalid(format!("invalid value {}: strconv.Atoi: parsing {}: invalid syntax", quote(text), quote(digits)))
        })?;
        let exact = percent as f64 * f64::from(total) / 100.0;
        Ok(if round_up { exact.ceil() } else { exact.floor() } as i32)
    }
}

impl fmt::Display for IntOrString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => write!(f, "{number}"),
            Self::String(text) => f.write_str(text),
        }
    }
}

impl From<i32> for IntOrString {
    fn from(number: i32) -> Self {
        Self::Int(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_shares() {
        let quarter = IntOrString::parse("25%");
        assert_eq!(quarter.scaled(10, true), Ok(3));
        assert_eq!(quarter.scaled(10, false), Ok(2));
        assert_eq!(IntOrString::parse("7"), IntOrString::Int(7));
        assert_eq!(IntOrString::Int(7).scaled(1, true), Ok(7));
        assert_eq!(
            IntOrString::parse("x").scaled(1, true).unwrap_err().to_string(),
            "invalid value for IntOrString: invalid type: string is not a percentage"
        );
        assert_eq!(
            IntOrString::parse("x%").scaled(1, true).unwrap_err().to_string(),
            "invalid value for IntOrString: invalid value \"x%\": strconv.Atoi: parsing \"x\": invalid syntax"
        );
    }
}
