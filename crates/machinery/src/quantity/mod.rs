//! Quantities: amounts of a resource as people write them, `100m`, `1.5`, `2Gi`, `12e6`.
//!
//! The canonical form has no fraction, the largest suffix that leaves none, and no exponent that the writer did not
//! use. A text that is in that form already stays as it is.

mod amount;
mod parse;

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use self::amount::Amount;
use crate::Error;

const DECIMAL_SUFFIXES: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY_SUFFIXES: [(&str, i32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// The family of suffixes that a quantity is written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// `k`, `M`, `G`: powers of 1000.
    #[default]
    DecimalSi,
    /// `Ki`, `Mi`, `Gi`: powers of 1024.
    BinarySi,
    /// `e3`, `e6`: powers of ten.
    DecimalExponent,
}

/// An amount of a resource.
#[derive(Debug, Clone)]
pub struct Quantity {
    amount: Amount,
    format: Format,
    text: Option<Box<str>>,
}

// === impl Quantity ===

impl Quantity {
    /// Reads a quantity.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let parsed = parse::parse(text)?;
        Ok(Self { amount: parsed.amount, format: parsed.format, text: parsed.keep_text.then(|| text.into()) })
    }

    /// Nothing.
    pub fn zero() -> Self {
        Self::from_value(0, Format::DecimalSi)
    }

    /// A whole number.
    pub fn from_value(value: i64, format: Format) -> Self {
        Self { amount: Amount::Small { value, scale: 0 }, format, text: None }
    }

    /// A number of thousandths.
    pub fn from_milli(value: i64, format: Format) -> Self {
        Self { amount: Amount::Small { value, scale: -3 }, format, text: None }
    }

    /// How it is written.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The whole number, rounded up.
    pub fn value(&self) -> i64 {
        self.amount.scaled(0)
    }

    /// The number of thousandths, rounded up.
    pub fn milli_value(&self) -> i64 {
        self.amount.scaled(-3)
    }

    /// The number of units of `10^scale`, rounded up.
    pub fn scaled_value(&self, scale: i32) -> i64 {
        self.amount.scaled(scale)
    }

    /// The number as a float, roughly.
    pub fn as_f64(&self) -> f64 {
        self.amount.approximate()
    }

    /// Whether it is nothing.
    pub fn is_zero(&self) -> bool {
        self.amount.sign() == Ordering::Equal
    }

    /// Whether it is less than nothing.
    pub fn is_negative(&self) -> bool {
        self.amount.sign() == Ordering::Less
    }

    /// Whether it is a whole number.
    pub fn is_whole(&self) -> bool {
        self.amount.rounded_up(0).1
    }

    /// The sum; written as this quantity is, unless that is zero.
    #[must_use]
    pub fn add(&self, other: &Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self { amount: self.amount.plus(&other.amount), format, text: None }
    }

    /// The difference; written as this quantity is, unless that is zero.
    #[must_use]
    pub fn sub(&self, other: &Self) -> Self {
        self.add(&Self { amount: other.amount.negated(), format: other.format, text: None })
    }

    /// The product with a whole number.
    #[must_use]
    pub fn mul(&self, factor: i64) -> Self {
        Self { amount: self.amount.times(factor), format: self.format, text: None }
    }

    /// The same with the other sign.
    #[must_use]
    pub fn neg(&self) -> Self {
        Self { amount: self.amount.negated(), format: self.format, text: None }
    }

    fn canonical(&self) -> String {
        if self.is_zero() {
            return "0".to_owned();
        }
        if self.format == Format::BinarySi
            && !self.is_small()
            && let (whole, true) = self.amount.rounded_up(0)
        {
            let (digits, exponent) = whole.canonical_binary();
            return format!("{digits}{}", name_of(&BINARY_SUFFIXES, exponent * 10));
        }
        let (digits, exponent) = self.amount.canonical_decimal();
        match self.format {
            Format::DecimalExponent if exponent == 0 => digits,
            Format::DecimalExponent => format!("{digits}e{exponent}"),
            _ => format!("{digits}{}", name_of(&DECIMAL_SUFFIXES, exponent)),
        }
    }

    /// Whether it is below the first binary suffix, on either side of zero.
    fn is_small(&self) -> bool {
        let bound = |value| Amount::Small { value, scale: 0 };
        self.amount.compare(&bound(-1024)).is_gt() && self.amount.compare(&bound(1024)).is_lt()
    }
}

fn name_of(suffixes: &[(&'static str, i32)], exponent: i32) -> &'static str {
    suffixes.iter().find(|(_, own)| *own == exponent).map_or("", |(name, _)| name)
}

impl Default for Quantity {
    fn default() -> Self {
        Self::zero()
    }
}

impl FromStr for Quantity {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => f.write_str(&self.canonical()),
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.amount.compare(&other.amount)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                Quantity::parse(text.trim()).map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }
        }
        deserializer.deserialize_any(Text)
    }
}

#[cfg(test)]
mod tests;
