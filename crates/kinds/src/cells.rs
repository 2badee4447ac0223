//! What stands in the cells of Tables.

use jiff::Timestamp;
use serde_json::Value;
use trireme_machinery::labels::Selector;
use trireme_machinery::quantity::Quantity;

static NULL: Value = Value::Null;

/// The value at a dotted path, `null` if there is none.
pub(crate) fn at<'a>(obj: &'a Value, path: &str) -> &'a Value {
    path.split('.').try_fold(obj, |value, key| value.get(key)).unwrap_or(&NULL)
}

/// The text at a path, empty if there is none.
pub(crate) fn str<'a>(obj: &'a Value, path: &str) -> &'a str {
    at(obj, path).as_str().unwrap_or_default()
}

/// The items at a path.
pub(crate) fn list<'a>(obj: &'a Value, path: &str) -> &'a [Value] {
    at(obj, path).as_array().map_or(&[], Vec::as_slice)
}

/// The number at a path, 0 if there is none.
pub(crate) fn int(obj: &Value, path: &str) -> i64 {
    at(obj, path).as_i64().unwrap_or_default()
}

/// A cell with the text at a path.
pub(crate) fn text(obj: &Value, path: &str) -> Value {
    Value::from(str(obj, path))
}

/// A cell with the text at a path, or these words if there is none.
pub(crate) fn text_or(obj: &Value, path: &str, otherwise: &str) -> Value {
    let text = str(obj, path);
    Value::from(if text.is_empty() { otherwise } else { text })
}

/// A cell with the number at a path.
pub(crate) fn number(obj: &Value, path: &str) -> Value {
    Value::from(int(obj, path))
}

/// A cell with the truth at a path.
pub(crate) fn truth(obj: &Value, path: &str, otherwise: bool) -> Value {
    Value::from(at(obj, path).as_bool().unwrap_or(otherwise))
}

/// A cell with the number of items or keys at a path.
pub(crate) fn count(obj: &Value, path: &str) -> Value {
    Value::from(match at(obj, path) {
        Value::Array(items) => items.len(),
        Value::Object(map) => map.len(),
        _ => 0,
    })
}

/// A cell with the age of the object.
pub(crate) fn age(obj: &Value, now: Timestamp) -> Value {
    Value::from(since(at(obj, "metadata.creationTimestamp"), now))
}

/// How long ago a time was.
pub(crate) fn since(time: &Value, now: Timestamp) -> String {
    match time.as_str().and_then(|t| t.parse::<Timestamp>().ok()) {
        Some(then) => human(now.as_second() - then.as_second()),
        None => "<unknown>".to_owned(),
    }
}

/// A duration in two units at most, as people say it.
pub(crate) fn human(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    let two = |whole: i64, unit: &str, rest: i64, small: &str| {
        if rest == 0 { format!("{whole}{unit}") } else { format!("{whole}{unit}{rest}{small}") }
    };
    match seconds {
        s if s < -1 => "<invalid>".to_owned(),
        s if s < 0 => "0s".to_owned(),
        s if s < 120 => format!("{s}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => two(days, "d", hours % 24, "h"),
        _ if days < 365 * 2 => format!("{days}d"),
        _ if days < 365 * 8 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

/// A cell with labels as `a=b,c=d`.
pub(crate) fn labels(obj: &Value, path: &str) -> Value {
    let pairs: Vec<String> = at(obj, path)
        .as_object()
        .into_iter()
        .flatten()
        .map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()))
        .collect();
    Value::from(if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") })
}

/// A cell with a label selector.
pub(crate) fn selector(obj: &Value, path: &str) -> Value {
    let selector = at(obj, path);
    let text = match Selector::from_label_selector(selector) {
        Ok(_) if selector.is_null() => String::new(),
        Ok(selector) => selector.to_string(),
        Err(_) => return Value::from("<error>"),
    };
    Value::from(if text.is_empty() { "<none>".to_owned() } else { text })
}

/// A cell with one text of each container.
fn of_containers(obj: &Value, path: &str, key: &str) -> Value {
    let texts: Vec<&str> = list(obj, path).iter().map(|c| c[key].as_str().unwrap_or_default()).collect();
    Value::from(texts.join(","))
}

/// A cell with the names of containers.
pub(crate) fn names(obj: &Value, path: &str) -> Value {
    of_containers(obj, path, "name")
}

/// A cell with the images of containers.
pub(crate) fn images(obj: &Value, path: &str) -> Value {
    of_containers(obj, path, "image")
}

/// At most `max` texts, then how many more there are.
pub(crate) fn first(texts: &[String], max: usize, none: &str) -> String {
    match texts.len() {
        0 => none.to_owned(),
        n if n > max => format!("{} + {} more...", texts[..max].join(","), n - max),
        _ => texts.join(","),
    }
}

/// Access modes in their short forms.
pub(crate) fn access_modes(obj: &Value, path: &str) -> Value {
    let given: Vec<&str> = list(obj, path).iter().filter_map(Value::as_str).collect();
    let known =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let short: Vec<&str> = known.iter().filter(|(long, _)| given.contains(long)).map(|(_, short)| *short).collect();
    Value::from(short.join(","))
}

/// A quantity, `0` if there is none.
pub(crate) fn quantity(value: &Value) -> String {
    value.as_str().and_then(|t| Quantity::parse(t).ok()).unwrap_or_else(Quantity::zero).to_string()
}

/// Whether a condition of that type is `True`.
pub(crate) fn has_condition(obj: &Value, ty: &str) -> bool {
    list(obj, "status.conditions").iter().any(|c| c["type"] == ty && c["status"] == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_said_as_people_say_them() {
        for (seconds, words) in
            [(-5, "<invalid>"), (0, "0s"), (119, "119s"), (120, "2m"), (330, "5m30s"), (3600, "60m"), (10800, "3h")]
        {
            assert_eq!(human(seconds), words);
        }
        assert_eq!(human(3600 * 7 + 60 * 5), "7h5m");
        assert_eq!(human(86400 * 3 + 3600 * 2), "3d2h");
        assert_eq!(human(86400 * 400), "400d");
        assert_eq!(human(86400 * 800), "2y70d");
    }
}
