//! Times and durations in JSON: parsed with Go's layouts and errors, written canonically (UTC; seconds or microseconds).

use jiff::civil;
use jiff::tz::{Offset, TimeZone};

use crate::go::quote;

const SECONDS: &str = "2006-01-02T15:04:05Z07:00";
const MICROS: &str = "2006-01-02T15:04:05.000000Z07:00";

/// The canonical form of an RFC 3339 time: UTC, whole seconds.
pub fn canonical(text: &str) -> Result<String, String> {
    let time = Parser { layout: SECONDS, text, rest: text }.parse(false)?;
    Ok(format!("{}Z", time.strftime("%Y-%m-%dT%H:%M:%S")))
}

/// The canonical form of an RFC 3339 time with microseconds: UTC, six digits.
pub fn canonical_micro(text: &str) -> Result<String, String> {
    let time = Parser { layout: MICROS, text, rest: text }.parse(true)?;
    Ok(format!("{}Z", time.strftime("%Y-%m-%dT%H:%M:%S.%6f")))
}

/// Walks a text along a layout of Go's `time` package.
struct Parser<'a> {
    layout: &'static str,
    text: &'a str,
    rest: &'a str,
}

impl Parser<'_> {
    fn parse(mut self, micros: bool) -> Result<civil::DateTime, String> {
        let year = self.digits(4, "2006")?;
        self.literal("-")?;
        let month = self.digits(2, "01")?;
        self.range("month", (1..=12).contains(&month))?;
        self.literal("-")?;
        let day = self.digits(2, "02")?;
        self.literal("T")?;
        let hour =
            self.digits(if self.rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit) { 2 } else { 1 }, "15")?;
        self.range("hour", hour < 24)?;
        self.literal(":")?;
        let minute = self.digits(2, "04")?;
        self.range("minute", minute < 60)?;
        self.literal(":")?;
        let second = self.digits(2, "05")?;
        self.range("second", second < 60)?;
        let nanos = if micros { self.fraction()? } else { self.any_fraction() };
        let offset = self.zone()?;
        if !self.rest.is_empty() {
            return Err(format!("parsing time {}: extra text: {}", quote(self.text), quote(self.rest)));
        }
        let out_of_range = |what: &str| format!("parsing time {}: {what} out of range", quote(self.text));
        let (Ok(year), Ok(month), Ok(hour), Ok(minute), Ok(second)) =
            (i16::try_from(year), i8::try_from(month), i8::try_from(hour), i8::try_from(minute), i8::try_from(second))
        else {
            return Err(out_of_range("time"));
        };
        let day = i8::try_from(day).ok().filter(|d| *d >= 1).ok_or_else(|| out_of_range("day"))?;
        let time =
            civil::DateTime::new(year, month, day, hour, minute, second, nanos).map_err(|_| out_of_range("day"))?;
        let zone = Offset::from_seconds(offset).map(TimeZone::fixed).map_err(|_| out_of_range("time zone offset"))?;
        let instant = time.to_zoned(zone).map_err(|_| out_of_range("year"))?.timestamp();
        Ok(TimeZone::UTC.to_datetime(instant))
    }

    fn cannot(&self, element: &str) -> String {
        format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quote(self.text),
            quote(self.layout),
            quote(self.rest),
            quote(element)
        )
    }

    fn range(&self, what: &str, within: bool) -> Result<(), String> {
        if within { Ok(()) } else { Err(format!("parsing time {}: {what} out of range", quote(self.text))) }
    }

    fn literal(&mut self, text: &str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(text).ok_or_else(|| self.cannot(text))?;
        Ok(())
    }

    fn digits(&mut self, count: usize, element: &str) -> Result<i64, String> {
        match self.rest.get(..count).filter(|d| d.bytes().all(|b| b.is_ascii_digit())) {
            Some(digits) => {
                self.rest = &self.rest[count..];
                digits.parse().map_err(|_| self.cannot(element))
            }
            None => Err(self.cannot(element)),
        }
    }

    /// Six digits, as microseconds demand them.
    fn fraction(&mut self) -> Result<i32, String> {
        let digits = self
            .rest
            .strip_prefix(['.', ','])
            .and_then(|r| r.get(..6))
            .filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
        let Some(micros) = digits.and_then(|d| d.parse::<i32>().ok()) else { return Err(self.cannot(".000000")) };
        self.rest = &self.rest[7..];
        Ok(micros * 1000)
    }

    /// Any number of digits, which whole seconds let pass and drop.
    fn any_fraction(&mut self) -> i32 {
        if let Some(rest) = self.rest.strip_prefix(['.', ',']) {
            let end = rest.bytes().take_while(u8::is_ascii_digit).count();
            if end > 0 {
                self.rest = &rest[end..];
            }
        }
        0
    }

    fn zone(&mut self) -> Result<i32, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let bytes = self.rest.as_bytes();
        let sign = match bytes.first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Err(self.cannot("Z07:00")),
        };
        let number = |at: usize| {
            self.rest
                .get(at..at + 2)
                .filter(|d| d.bytes().all(|b| b.is_ascii_digit()))
                .and_then(|d| d.parse::<i32>().ok())
        };
        let (Some(hours), Some(b':'), Some(minutes)) = (number(1), bytes.get(3), number(4)) else {
            return Err(self.cannot("Z07:00"));
        };
        self.range("time zone offset hour", hours <= 24)?;
        self.range("time zone offset minute", minutes < 60)?;
        self.rest = &self.rest[6..];
        Ok(sign * (hours * 3600 + minutes * 60))
    }
}

/// The canonical form of a duration in Go's notation.
pub fn canonical_duration(text: &str) -> Result<String, String> {
    let invalid = || format!("time: invalid duration {}", quote(text));
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok("0s".to_owned());
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut nanos = 0f64;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..end].parse().map_err(|_| invalid())?;
        rest = &rest[end..];
        let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            "" => return Err(format!("time: missing unit in duration {}", quote(text))),
            unit => return Err(format!("time: unknown unit {} in duration {}", quote(unit), quote(text))),
        };
        nanos += number * unit;
        rest = &rest[end..];
    }
    if nanos > i64::MAX as f64 {
        return Err(invalid());
    }
    Ok(duration_text(nanos as i64, negative))
}

fn duration_text(nanos: i64, negative: bool) -> String {
    let sign = if negative && nanos != 0 { "-" } else { "" };
    let trimmed = |value: i64, unit: i64, name: &str| {
        let fraction = format!("{:09}", (value % unit) * (1_000_000_000 / unit));
        let fraction = fraction.trim_end_matches('0');
        let point = if fraction.is_empty() { "" } else { "." };
        format!("{}{point}{fraction}{name}", value / unit)
    };
    let text = match nanos {
        0 => "0s".to_owned(),
        n if n < 1_000 => format!("{n}ns"),
        n if n < 1_000_000 => trimmed(n, 1_000, "µs"),
        n if n < 1_000_000_000 => trimmed(n, 1_000_000, "ms"),
        n => {
            let (minutes, seconds) = (n / 60_000_000_000, trimmed(n % 60_000_000_000, 1_000_000_000, "s"));
            match (minutes / 60, minutes % 60) {
                (0, 0) => seconds,
                (0, m) => format!("{m}m{seconds}"),
                (h, m) => format!("{h}h{m}m{seconds}"),
            }
        }
    };
    format!("{sign}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_become_utc() {
        assert_eq!(canonical("2026-01-02T03:04:05.678+02:00").unwrap(), "2026-01-02T01:04:05Z");
        assert_eq!(canonical_micro("2026-01-02T03:04:05.678000Z").unwrap(), "2026-01-02T03:04:05.678000Z");
    }

    #[test]
    fn what_is_no_time_is_told_like_go_tells_it() {
        let error = canonical("yesterday").unwrap_err();
        assert_eq!(
            error,
            r#"parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006""#
        );
        assert_eq!(
            canonical("2026-13-02T03:04:05Z").unwrap_err(),
            r#"parsing time "2026-13-02T03:04:05Z": month out of range"#
        );
        assert_eq!(
            canonical("2026-02-30T03:04:05Z").unwrap_err(),
            r#"parsing time "2026-02-30T03:04:05Z": day out of range"#
        );
        assert!(canonical_micro("2026-01-02T03:04:05Z").unwrap_err().ends_with(r#"cannot parse "Z" as ".000000""#));
    }

    #[test]
    fn durations_are_canonical() {
        assert_eq!(canonical_duration("90m").unwrap(), "1h30m0s");
        assert_eq!(canonical_duration("1500ms").unwrap(), "1.5s");
        assert_eq!(canonical_duration("x").unwrap_err(), "time: invalid duration \"x\"");
    }
}
