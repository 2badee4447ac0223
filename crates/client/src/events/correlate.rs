//! What becomes of one more event: told as new, counted, merged with similar ones, or left out. Pure.

use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;

/// Similar events (same object, type and reason, other text) from the tenth on within the interval become one.
const SIMILAR: usize = 10;
const SIMILAR_SECONDS: i64 = 600;
/// An object is told about so often at once, and once more every five minutes.
const BURST: f64 = 25.0;
const REFILL_SECONDS: f64 = 300.0;
/// So many things are remembered.
const REMEMBERED: usize = 4096;

/// How an event is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    /// The event object that it counts in; none: a new one.
    pub(super) name: Option<String>,
    pub(super) count: i32,
    pub(super) text: String,
    /// The text under which it is counted; empty for merged ones.
    counted_as: String,
}

/// What events about one object with one reason have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    object: String,
    what: String,
}

pub(super) fn key(object: &ObjectReference, kind: &str, reason: &str) -> Key {
    let field = |f: &Option<String>| f.clone().unwrap_or_default();
    Key {
        object: [
            field(&object.kind),
            field(&object.namespace),
            field(&object.name),
            field(&object.uid),
            field(&object.api_version),
            field(&object.field_path),
        ]
        .join("\n"),
        what: format!("{kind}\n{reason}"),
    }
}

#[derive(Debug)]
struct Similar {
    texts: Vec<String>,
    last: Timestamp,
}

#[derive(Debug)]
struct Counted {
    name: String,
    count: i32,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    at: Timestamp,
}

#[derive(Debug, Default)]
pub(super) struct Correlator {
    similar: HashMap<Key, Similar>,
    counted: HashMap<(Key, String), Counted>,
    buckets: HashMap<String, Bucket>,
}

impl Correlator {
    /// One more event; `None`: not told.
    pub(super) fn tell(&mut self, key: &Key, text: &str, now: Timestamp) -> Option<Told> {
        self.bound();
        let similar = self
            .similar
            .entry(key.clone())
            .and_modify(|s| {
                if now.as_second() - s.last.as_second() > SIMILAR_SECONDS {
                    s.texts.clear();
                }
                s.last = now;
            })
            .or_insert_with(|| Similar { texts: Vec::new(), last: now });
        if !similar.texts.iter().any(|t| t == text) && similar.texts.len() < SIMILAR {
            similar.texts.push(text.to_owned());
        }
        let merged = similar.texts.len() >= SIMILAR;
        let (text, counted_as) = if merged {
            (format!("(combined from similar events): {text}"), String::new())
        } else {
            (text.to_owned(), text.to_owned())
        };
        if !self.may_tell(&key.object, now) {
            return None;
        }
        let known = self.counted.get(&(key.clone(), counted_as.clone()));
        Some(Told {
            name: known.map(|c| c.name.clone()),
            count: known.map_or(1, |c| c.count.saturating_add(1)),
            text,
            counted_as,
        })
    }

    /// It was written as this event object.
    pub(super) fn written(&mut self, key: &Key, told: &Told, name: String) {
        self.counted.insert((key.clone(), told.counted_as.clone()), Counted { name, count: told.count });
    }

    fn may_tell(&mut self, object: &str, now: Timestamp) -> bool {
        let bucket = self.buckets.entry(object.to_owned()).or_insert(Bucket { tokens: BURST, at: now });
        let passed = now.duration_since(bucket.at).as_secs_f64().max(0.0);
        bucket.tokens = (bucket.tokens + passed / REFILL_SECONDS).min(BURST);
        bucket.at = now;
        if bucket.tokens < 1.0 {
            return false;
        }
        bucket.tokens -= 1.0;
        true
    }

    /// What is remembered is a convenience: when it is too much, it starts anew.
    fn bound(&mut self) {
        if self.similar.len() > REMEMBERED {
            self.similar.clear();
        }
        if self.counted.len() > REMEMBERED {
            self.counted.clear();
        }
        if self.buckets.len() > REMEMBERED {
            self.buckets.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn pod() -> Key {
        let object = ObjectReference { kind: Some("Pod".into()), name: Some("a".into()), ..Default::default() };
        key(&object, "Warning", "BackOff")
    }

    #[test]
    fn the_same_is_counted() {
        let mut correlator = Correlator::default();
        let first = correlator.tell(&pod(), "x", at(0)).unwrap();
        assert_eq!((first.name.as_deref(), first.count), (None, 1));
        correlator.written(&pod(), &first, "a.1".into());
        let second = correlator.tell(&pod(), "x", at(1)).unwrap();
        assert_eq!((second.name.as_deref(), second.count), (Some("a.1"), 2));
    }

    #[test]
    fn many_similar_ones_become_one() {
        let mut correlator = Correlator::default();
        for i in 0..9 {
            assert_eq!(correlator.tell(&pod(), &format!("x{i}"), at(i)).unwrap().text, format!("x{i}"));
        }
        let merged = correlator.tell(&pod(), "x9", at(9)).unwrap();
        assert_eq!(merged.text, "(combined from similar events): x9");
        correlator.written(&pod(), &merged, "a.9".into());
        let again = correlator.tell(&pod(), "x10", at(10)).unwrap();
        assert_eq!((again.name.as_deref(), again.count), (Some("a.9"), 2));
        assert_eq!(correlator.tell(&pod(), "y", at(2000)).unwrap().text, "y");
    }

    #[test]
    fn without_end_is_told_less() {
        let mut correlator = Correlator::default();
        let told = (0..100).filter(|_| correlator.tell(&pod(), "x", at(0)).is_some()).count();
        assert_eq!(told, 25);
        assert!(correlator.tell(&pod(), "x", at(301)).is_some());
        assert!(correlator.tell(&pod(), "x", at(302)).is_none());
    }
}
