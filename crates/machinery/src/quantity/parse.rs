//! Reading a quantity's text.

use num_bigint::BigInt;

use super::Format;
use super::amount::Amount;
use crate::Error;

/// Digits that surely fit 64 bits.
const SMALL_DIGITS: i32 = 18;
const NANO: i32 = -9;
/// Exponents beyond this are refused: nothing has so many of anything, and computing with them would take forever.
const MAX_EXPONENT: i32 = 100_000;
/// Digits beyond this are refused for the same reason.
const MAX_LENGTH: usize = 10_000;

/// What a text says: the amount, how to write it, and whether the text is already in canonical form.
pub(super) struct Parsed {
    pub(super) amount: Amount,
    pub(super) format: Format,
    pub(super) keep_text: bool,
}

/// The parts of a text.
struct Parts<'a> {
    positive: bool,
    /// Sign and digits, with the point.
    value: &'a str,
    /// Digits before the point, without leading zeros.
    whole: &'a str,
    /// Digits after the point.
    fraction: &'a str,
    suffix: &'a str,
}

pub(super) fn parse(text: &str) -> Result<Parsed, Error> {
    if text.is_empty() || text.len() > MAX_LENGTH {
        return Err(Error::QuantityForm);
    }
    if text == "0" {
        return Ok(Parsed { amount: Amount::ZERO, format: Format::DecimalSi, keep_text: true });
    }
    let parts = split(text)?;
    let (base, exponent, format) = suffix(parts.suffix).ok_or(Error::QuantitySuffix)?;
    if exponent.unsigned_abs() > MAX_EXPONENT.unsigned_abs() {
        return Err(Error::QuantitySuffix);
    }
    let digits = (parts.whole.len() + parts.fraction.len()) as i32;
    let (mut scale, precision, factor) = match format {
        Format::DecimalExponent | Format::DecimalSi => (exponent, SMALL_DIGITS - digits, 1),
        Format::BinarySi if parts.fraction.is_empty() => {
            (0, 15 - parts.whole.len() as i32 - exponent * 3 / 10 - 1, 1i64 << exponent)
        }
        Format::BinarySi => (0, -1, 1),
    };
    scale -= parts.fraction.len() as i32;
    if precision >= 0 && scale >= NANO {
        let shifted = format!("{}{}", parts.whole, parts.fraction);
        let value: i64 = shifted.parse().map_err(|_| Error::QuantityNumber)?;
        if let Some(result) = value.checked_mul(factor) {
            let keep_text = match format {
                Format::BinarySi => value & 7 != 0,
                _ => scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0'),
            };
            let value = if parts.positive { result } else { -result };
            return Ok(Parsed { amount: Amount::Small { value, scale }, format, keep_text });
        }
    }
    big(&parts, base, exponent, format)
}

fn big(parts: &Parts<'_>, base: u32, exponent: i32, format: Format) -> Result<Parsed, Error> {
    let unsigned = parts.value.trim_start_matches(['+', '-']);
    let fraction = unsigned.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let digits: String = unsigned.chars().filter(|c| *c != '.').collect();
    let mut value: BigInt = digits.parse().map_err(|_| Error::QuantityNumber)?;
    let mut scale = -(fraction as i32);
    match base {
        2 => value <<= exponent.unsigned_abs(),
        _ => scale += exponent,
    }
    let (mut amount, _) = Amount::Big { value, scale }.rounded_up(NANO);
    let max = Amount::Small { value: i64::MAX, scale: 0 };
    if format == Format::BinarySi && amount.compare(&max).is_gt() {
        let (value, scale) = max.big();
        amount = Amount::Big { value, scale };
    }
    let below_one = amount.compare(&Amount::Small { value: 1, scale: 0 }).is_lt() && amount.sign().is_gt();
    let format = if format == Format::BinarySi && below_one { Format::DecimalSi } else { format };
    let amount = if parts.positive { amount } else { amount.negated() };
    Ok(Parsed { amount, format, keep_text: false })
}

fn split(text: &str) -> Result<Parts<'_>, Error> {
    let (positive, signed) = match text.as_bytes().first() {
        Some(b'-') => (false, 1),
        Some(b'+') => (true, 1),
        _ => (true, 0),
    };
    let run =
        |from: usize, accept: fn(u8) -> bool| from + text.as_bytes()[from..].iter().take_while(|b| accept(**b)).count();
    let digits_start = run(signed, |b| b == b'0');
    if digits_start == text.len() {
        return Ok(Parts { positive: true, value: "0", whole: "0", fraction: "", suffix: "" });
    }
    let digits_end = run(digits_start, |b| b.is_ascii_digit());
    let whole = match &text[digits_start..digits_end] {
        "" => "0",
        digits => digits,
    };
    let mut end = digits_end;
    let mut fraction = "";
    if text.as_bytes().get(end) == Some(&b'.') {
        end = run(digits_end + 1, |b| b.is_ascii_digit());
        fraction = &text[digits_end + 1..end];
    }
    let letters = run(end, |b| b"eEinumkKMGTP".contains(&b));
    let sign = letters + usize::from(matches!(text.as_bytes().get(letters), Some(b'-' | b'+')));
    if run(sign, |b| b.is_ascii_digit()) != text.len() {
        return Err(Error::QuantityForm);
    }
    Ok(Parts { positive, value: &text[..end], whole, fraction, suffix: &text[end..] })
}

fn suffix(suffix: &str) -> Option<(u32, i32, Format)> {
    if let Some((_, exponent)) = super::DECIMAL_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
        return Some((10, *exponent, Format::DecimalSi));
    }
    if let Some((_, exponent)) = super::BINARY_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
        return Some((2, *exponent, Format::BinarySi));
    }
    let digits = suffix.strip_prefix(['e', 'E'])?;
    let exponent: i64 = digits.parse().ok()?;
    Some((10, exponent as i32, Format::DecimalExponent))
}
