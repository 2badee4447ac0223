//! Durations in Go's notation: `1h30m`, `-1.5s`.

use crate::Error;
use crate::go::quote;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
/// The most nanoseconds that a negative duration has.
const MOST: u64 = 1 << 63;

/// The nanoseconds of a duration, as Go reads it.
pub fn parse(text: &str) -> Result<i64, Error> {
    let invalid = || Error::Duration(format!("time: invalid duration {}", quote(text)));
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = 0u64;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (name, after) = after.split_at(end);
        let unit = match name {
            "ns" => 1,
            "us" | "µs" | "μs" => MICROSECOND,
            "ms" => MILLISECOND,
            "s" => SECOND,
            "m" => MINUTE,
            "h" => HOUR,
            "" => return Err(Error::Duration(format!("time: missing unit in duration {}", quote(text)))),
            _ => {
                return Err(Error::Duration(format!("time: unknown unit {} in duration {}", quote(name), quote(text))));
            }
        };
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
        total = whole
            .checked_mul(unit)
            .and_then(|nanoseconds| nanoseconds.checked_add(part_of(fraction, unit)))
            .and_then(|nanoseconds| nanoseconds.checked_add(total))
            .filter(|nanoseconds| *nanoseconds <= MOST)
            .ok_or_else(invalid)?;
        rest = after;
    }
    match i64::try_from(total) {
        Ok(nanoseconds) => Ok(if negative { -nanoseconds } else { nanoseconds }),
        Err(_) if negative => Ok(i64::MIN),
        Err(_) => Err(invalid()),
    }
}

/// The form in which Go writes a duration of so many nanoseconds.
pub fn format(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let text = match nanoseconds.unsigned_abs() {
        0 => "0s".to_owned(),
        n if n < MICROSECOND => format!("{n}ns"),
        n if n < MILLISECOND => in_unit(n, MICROSECOND, "µs"),
        n if n < SECOND => in_unit(n, MILLISECOND, "ms"),
        n => {
            let (hours, minutes, seconds) = (n / HOUR, n % HOUR / MINUTE, in_unit(n % MINUTE, SECOND, "s"));
            match (hours, minutes) {
                (0, 0) => seconds,
                (0, minutes) => format!("{minutes}m{seconds}"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
            }
        }
    };
    format!("{sign}{text}")
}

/// The form that Kubernetes answers with.
pub fn canonical(text: &str) -> Result<String, Error> {
    parse(text).map(format)
}

/// The digits at the start of a text, and what follows them.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// The nanoseconds of what stands after the point. Places that a number has no room for are dropped.
fn part_of(fraction: &str, unit: u64) -> u64 {
    let (mut number, mut scale) = (0u64, 1f64);
    for digit in fraction.bytes() {
        let Some(next) = number.checked_mul(10).and_then(|n| n.checked_add(u64::from(digit - b'0'))) else { break };
        number = next;
        scale *= 10.0;
    }
    (number as f64 * (unit as f64 / scale)) as u64
}

/// With the places after the point that are not zero.
fn in_unit(nanoseconds: u64, unit: u64, name: &str) -> String {
    let fraction = format!("{:09}", nanoseconds % unit * (SECOND / unit));
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{}{point}{fraction}{name}", nanoseconds / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Answers of Go's `time.ParseDuration` and `Duration.String`.
    #[test]
    fn durations_are_canonical() {
        let same = |text: &str| canonical(text).unwrap();
        assert_eq!(same("90m"), "1h30m0s");
        assert_eq!(same("1500ms"), "1.5s");
        assert_eq!(same("1h15m30.918s"), "1h15m30.918s");
        assert_eq!(same("4.35us"), "4.35µs");
        assert_eq!(same("0.7us"), "700ns");
        assert_eq!(same("2.9999999ms"), "2.999999ms");
        assert_eq!(same("-.5h"), "-30m0s");
        assert_eq!(same("+0"), "0s");
        assert_eq!(same("0.3333333333333333333h"), "20m0s");
        assert_eq!(same("9223372036854775807ns"), "2562047h47m16.854775807s");
        assert_eq!(same("-9223372036854775808ns"), "-2562047h47m16.854775808s");
    }

    #[test]
    fn what_is_no_duration_is_told_like_go_tells_it() {
        let error = |text: &str| canonical(text).unwrap_err().to_string();
        for text in ["", "x", ".s", "-", "9223372036854775808ns", "3000000h"] {
            assert_eq!(error(text), format!("time: invalid duration {text:?}"));
        }
        assert_eq!(error("3.3.3s"), r#"time: missing unit in duration "3.3.3s""#);
        assert_eq!(error("3"), r#"time: missing unit in duration "3""#);
        assert_eq!(error("3d"), r#"time: unknown unit "d" in duration "3d""#);
    }
}
