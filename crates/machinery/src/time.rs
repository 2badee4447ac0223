//! Times as Kubernetes writes them: RFC 3339 with whole seconds, and `MicroTime` with six digits more.

use jiff::tz::Offset;
use jiff::{Timestamp, civil};

use crate::Error;
use crate::go::quote;

const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
const MICRO_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";

/// A time in whole seconds, in UTC: `2026-01-02T03:04:05Z`.
pub fn format(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A time in microseconds, in UTC: `2026-01-02T03:04:05.678901Z`.
pub fn format_micro(at: Timestamp) -> String {
    format!("{}.{:06}Z", at.strftime("%Y-%m-%dT%H:%M:%S"), at.subsec_nanosecond() / 1000)
}

/// Reads a time as Kubernetes does; fractions of a second are taken too.
pub fn parse(text: &str) -> Result<Timestamp, Error> {
    Reader { all: text, rest: text, layout: LAYOUT }.time(false)
}

/// Reads a `MicroTime` as Kubernetes does: with exactly six digits after the point.
pub fn parse_micro(text: &str) -> Result<Timestamp, Error> {
    Reader { all: text, rest: text, layout: MICRO_LAYOUT }.time(true)
}

/// The form in which Kubernetes answers a time.
pub fn canonical(text: &str) -> Result<String, Error> {
    parse(text).map(format)
}

/// The form in which Kubernetes answers a `MicroTime`.
pub fn canonical_micro(text: &str) -> Result<String, Error> {
    parse_micro(text).map(format_micro)
}

/// Whether a time is Go's zero time, which JSON writes as null.
pub fn is_zero(at: Timestamp) -> bool {
    at.as_second() == -62_135_596_800 && at.subsec_nanosecond() == 0
}

/// Walks over a text along Go's layout, so that its errors name what Go's name.
struct Reader<'a> {
    all: &'a str,
    rest: &'a str,
    layout: &'static str,
}

impl Reader<'_> {
    fn time(mut self, micro: bool) -> Result<Timestamp, Error> {
        let year = self.digits(4, "2006")?;
        self.literal("-")?;
        let month = self.in_range(2, "01", 1..=12, "month")?;
        self.literal("-")?;
        let day = self.digits(2, "02")?;
        self.literal("T")?;
        // Go's layout takes an hour of one digit too.
        let hour_digits = if self.rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit) { 2 } else { 1 };
        let hour = self.in_range(hour_digits, "15", 0..=23, "hour")?;
        self.literal(":")?;
        let minute = self.in_range(2, "04", 0..=59, "minute")?;
        self.literal(":")?;
        let second = self.in_range(2, "05", 0..=59, "second")?;
        let nanosecond = if micro { self.micro_fraction()? } else { self.any_fraction() };
        let offset = self.offset()?;
        if !self.rest.is_empty() {
            return Err(self.fault(&format!("extra text: {}", quote(self.rest))));
        }
        let last = if day >= 1 { civil::date(year as i16, month as i8, 1).days_in_month() } else { 0 };
        if day < 1 || day > i32::from(last) {
            return Err(self.fault("day out of range"));
        }
        civil::date(year as i16, month as i8, day as i8)
            .at(hour as i8, minute as i8, second as i8, nanosecond)
            .to_zoned(offset.to_time_zone())
            .map(|zoned| zoned.timestamp())
            .map_err(|_| self.fault("day out of range"))
    }

    fn digits(&mut self, count: usize, element: &str) -> Result<i32, Error> {
        match self.rest.get(..count).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit())) {
            Some(digits) => {
                let value = digits.parse().unwrap_or_default();
                self.rest = &self.rest[count..];
                Ok(value)
            }
            None => Err(self.expected(element)),
        }
    }

    fn in_range(
        &mut self,
        count: usize,
        element: &str,
        range: std::ops::RangeInclusive<i32>,
        word: &str,
    ) -> Result<i32, Error> {
        let value = self.digits(count, element)?;
        if range.contains(&value) { Ok(value) } else { Err(self.fault(&format!("{word} out of range"))) }
    }

    fn literal(&mut self, literal: &str) -> Result<(), Error> {
        match self.rest.strip_prefix(literal) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => Err(self.expected(literal)),
        }
    }

    fn any_fraction(&mut self) -> i32 {
        let digits = self.rest.get(1..).map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
        if digits == 0 || !self.rest.starts_with(['.', ',']) {
            return 0;
        }
        let fraction = &self.rest[1..=digits];
        self.rest = &self.rest[digits + 1..];
        nanoseconds(fraction)
    }

    fn micro_fraction(&mut self) -> Result<i32, Error> {
        let fraction = self
            .rest
            .get(..7)
            .and_then(|text| text.strip_prefix(['.', ',']))
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        match fraction {
            Some(fraction) => {
                self.rest = &self.rest[7..];
                Ok(nanoseconds(fraction))
            }
            None => Err(self.expected(".000000")),
        }
    }

    fn offset(&mut self) -> Result<Offset, Error> {
        const ELEMENT: &str = "Z07:00";
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(Offset::UTC);
        }
        let bytes = self.rest.as_bytes();
        let number = |at: usize| Some(i32::from(digit(*bytes.get(at)?)?) * 10 + i32::from(digit(*bytes.get(at + 1)?)?));
        let (Some(sign), Some(hours), Some(b':'), Some(minutes)) = (bytes.first(), number(1), bytes.get(3), number(4))
        else {
            return Err(self.expected(ELEMENT));
        };
        let sign = match sign {
            b'+' => 1,
            b'-' => -1,
            _ => return Err(self.expected(ELEMENT)),
        };
        if hours > 24 {
            return Err(self.fault("time zone offset hour out of range"));
        }
        if minutes > 60 {
            return Err(self.fault("time zone offset minute out of range"));
        }
        let offset = Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).map_err(|_| self.expected(ELEMENT))?;
        self.rest = &self.rest[6..];
        Ok(offset)
    }

    fn expected(&self, element: &str) -> Error {
        Error::Time(format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quote(self.all),
            quote(self.layout),
            quote(self.rest),
            quote(element)
        ))
    }

    fn fault(&self, what: &str) -> Error {
        Error::Time(format!("parsing time {}: {what}", quote(self.all)))
    }
}

fn digit(byte: u8) -> Option<u8> {
    byte.is_ascii_digit().then(|| byte - b'0')
}

fn nanoseconds(fraction: &str) -> i32 {
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    digits.parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        let at = parse("2026-01-02T05:04:05.678901234+02:00").unwrap();
        assert_eq!(format(at), "2026-01-02T03:04:05Z");
        assert_eq!(format_micro(at), "2026-01-02T03:04:05.678901Z");
        assert_eq!(parse_micro("2026-01-02T03:04:05.678901Z").map(format_micro).unwrap(), format_micro(at));
        assert!(is_zero(parse("0001-01-01T00:00:00Z").unwrap()));
    }

    // Answers of Go's `time.Parse`.
    #[test]
    fn what_go_takes_is_taken() {
        let same = |text: &str| canonical(text).unwrap();
        assert_eq!(same("2026-01-02T03:04:05.678+02:00"), "2026-01-02T01:04:05Z");
        assert_eq!(same("2026-01-02T3:04:05Z"), "2026-01-02T03:04:05Z");
        assert_eq!(same("2026-01-02T03:04:05,5Z"), "2026-01-02T03:04:05Z");
        assert_eq!(same("2026-01-02T03:04:05+24:00"), "2026-01-01T03:04:05Z");
        assert_eq!(same("2026-01-02T03:04:05+01:60"), "2026-01-02T01:04:05Z");
        assert_eq!(canonical_micro("2026-01-02T03:04:05.678000Z").unwrap(), "2026-01-02T03:04:05.678000Z");
    }

    #[test]
    fn errors_are_those_of_go() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(error("x"), r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#);
        assert_eq!(
            error("2020-01-01"),
            r#"parsing time "2020-01-01" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T""#
        );
        assert_eq!(error("2020-13-01T00:00:00Z"), r#"parsing time "2020-13-01T00:00:00Z": month out of range"#);
        assert_eq!(error("2020-02-30T00:00:00Z"), r#"parsing time "2020-02-30T00:00:00Z": day out of range"#);
        assert_eq!(error("2020-02-03T00:00:00Zx"), r#"parsing time "2020-02-03T00:00:00Zx": extra text: "x""#);
        assert_eq!(error("2020-02-03T24:00:00Z"), r#"parsing time "2020-02-03T24:00:00Z": hour out of range"#);
        assert_eq!(
            error("2026-01-02T03:04:05+01:61"),
            r#"parsing time "2026-01-02T03:04:05+01:61": time zone offset minute out of range"#
        );
        assert_eq!(
            error("2026-01-02T03:04:05.Z"),
            r#"parsing time "2026-01-02T03:04:05.Z" as "2006-01-02T15:04:05Z07:00": cannot parse ".Z" as "Z07:00""#
        );
        assert_eq!(
            parse_micro("2020-02-03T00:00:00Z").unwrap_err().to_string(),
            r#"parsing time "2020-02-03T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#
        );
    }
}
