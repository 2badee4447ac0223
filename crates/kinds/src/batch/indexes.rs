//! Indexes of a Job in their short form: `1,3-5,7`.

/// How many indexes there are; each must be below `completions`, and they must grow.
pub(super) fn count(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let number = |part: &str| part.parse::<i64>().ok().filter(|n| *n >= 0 && !part.starts_with('+'));
    let mut last: Option<i64> = None;
    let mut total = 0;
    for interval in text.split(',') {
        let parts: Vec<&str> = interval.split('-').collect();
        let bounds: Vec<i64> = parts
            .iter()
            .map(|part| number(part).ok_or_else(|| format!("cannot convert string to integer for index: {part:?}")))
            .collect::<Result<_, _>>()?;
        if parts.len() > 2 {
            return Err(format!(
                "the fragment {interval:?} violates the requirement that an index interval can have at most two parts separated by '-'"
            ));
        }
        if let Some(out) = parts.iter().zip(&bounds).find(|(_, n)| **n >= completions).map(|(part, _)| part) {
            return Err(format!("too large index: {out:?}"));
        }
        let (from, to) = match bounds.as_slice() {
            [one] => (*one, *one),
            [from, to] => (*from, *to),
            _ => continue,
        };
        if last.is_some_and(|last| last >= from) {
            return Err(format!("non-increasing order, previous: {}, current: {from}", last.unwrap_or_default()));
        }
        if parts.len() == 2 && from >= to {
            return Err(format!("non-increasing order, previous: {from}, current: {to}"));
        }
        total += to - from + 1;
        last = Some(to);
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_counted() {
        assert_eq!(count("1,3-5,7", 10), Ok(5));
        assert_eq!(count("", 10), Ok(0));
        assert!(count("3-1", 10).is_err());
        assert!(count("12", 10).is_err());
        assert!(count("a", 10).is_err());
    }
}
