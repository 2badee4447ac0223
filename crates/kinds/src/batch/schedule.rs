//! Schedules of CronJobs: five fields, or a word like `@daily`.

use trireme_machinery::field::{self, ErrorList};

use crate::check::Node;

const DESCRIPTORS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The schedule of a spec.
pub(super) fn validate(spec: &Node<'_>, errors: &mut ErrorList) {
    let text = spec.str("schedule");
    if let Err(why) = parse(text) {
        spec.invalid("schedule", why, errors);
    }
    if text.contains("TZ") {
        let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.push(field::invalid(&spec.path.child("schedule"), text, why));
    }
}

fn parse(text: &str) -> Result<(), String> {
    let text = match text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) {
        Some(rest) => rest.split_once(' ').map_or("", |(_, schedule)| schedule.trim()),
        None => text,
    };
    if text.starts_with('@') {
        if DESCRIPTORS.contains(&text) {
            return Ok(());
        }
        return match text.strip_prefix("@every ") {
            Some(duration) => match trireme_machinery::duration::parse(duration) {
                Ok(_) => Ok(()),
                Err(why) => Err(format!("failed to parse duration {text}: {why}")),
            },
            None => Err(format!("unrecognized descriptor: {text}")),
        };
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() != 5 {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    let bounds: [(u32, u32, &[&str]); 5] = [(0, 59, &[]), (0, 23, &[]), (1, 31, &[]), (1, 12, &MONTHS), (0, 6, &DAYS)];
    fields.iter().zip(bounds).try_for_each(|(field, (min, max, names))| field_of(field, min, max, names))
}

fn field_of(text: &str, min: u32, max: u32, names: &[&str]) -> Result<(), String> {
    text.split(',').filter(|part| !part.is_empty()).try_for_each(|part| range(part, min, max, names))
}

fn range(text: &str, min: u32, max: u32, names: &[&str]) -> Result<(), String> {
    let parts: Vec<&str> = text.split('/').collect();
    let bounds: Vec<&str> = parts[0].split('-').collect();
    let (start, mut end) = if matches!(bounds[0], "*" | "?") {
        if bounds.len() > 1 {
            return Err(format!("too many hyphens: {text}"));
        }
        (min, max)
    } else {
        let start = number_or_name(bounds[0], min, names)?;
        let end = match bounds.as_slice() {
            [_] => start,
            [_, end] => number_or_name(end, min, names)?,
            _ => return Err(format!("too many hyphens: {text}")),
        };
        (start, end)
    };
    let step = match parts.as_slice() {
        [_] => 1,
        [_, step] => {
            if bounds.len() == 1 {
                end = max;
            }
            number(step)?
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    if start < min {
        return Err(format!("beginning of range ({start}) below minimum ({min}): {text}"));
    }
    if end > max {
        return Err(format!("end of range ({end}) above maximum ({max}): {text}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

fn number_or_name(text: &str, min: u32, names: &[&str]) -> Result<u32, String> {
    let lower = text.to_lowercase();
    match names.iter().position(|name| *name == lower) {
        Some(at) => Ok(min + u32::try_from(at).unwrap_or_default()),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u32, String> {
    match text.parse::<i64>() {
        Ok(n) => u32::try_from(n).map_err(|_| format!("negative number ({n}) not allowed: {text}")),
        Err(_) => Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")),
    }
}

/// The name of a time zone.
pub(super) fn time_zone(zone: &Node<'_>, errors: &mut ErrorList) {
    let name = zone.text();
    if name.is_empty() {
        errors.push(field::invalid(&zone.path, name, "timeZone must be nil or non-empty string"));
        return;
    }
    let allowed = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '_' | '/' | '.'))
        && !name.contains("..");
    if !allowed {
        errors.push(field::invalid(&zone.path, name, format!("unknown time zone {name}")));
        return;
    }
    if name.eq_ignore_ascii_case("local") {
        errors.push(field::invalid(
            &zone.path,
            name,
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
        ));
        return;
    }
    if name != "UTC" && jiff::tz::TimeZone::get(name).is_err() {
        errors.push(field::invalid(&zone.path, name, format!("unknown time zone {name}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_understood() {
        for good in ["*/5 * * * *", "0 0 1 jan mon-fri", "@hourly", "@every 1h", "1,2,5-9 0 * * ?"] {
            assert_eq!(parse(good), Ok(()), "{good}");
        }
        assert_eq!(parse("a"), Err("expected exactly 5 fields, found 1: [a]".to_owned()));
        assert!(parse("60 * * * *").unwrap_err().contains("above maximum (59)"));
        assert!(parse("@never").unwrap_err().contains("unrecognized descriptor"));
    }
}
