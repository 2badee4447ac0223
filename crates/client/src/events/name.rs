//! Names of event objects. The API lists objects by name, and those who sort events (kubectl does, by whole seconds)
//! leave the order of one second to it: so names of later events come after names of earlier ones.

use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;

/// The newest moment that a name was given for in this process.
static NEWEST: AtomicI64 = AtomicI64::new(0);

/// The nanosecond that an event is named after: now, but always later than the one before, whoever recorded that.
pub(super) fn moment(now: Timestamp) -> i64 {
    let now = i64::try_from(now.as_nanosecond()).unwrap_or(i64::MAX);
    let later = |newest: i64| now.max(newest.saturating_add(1));
    // Given a closure that always answers, an update cannot fail.
    NEWEST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |newest| Some(later(newest))).map_or(now, later)
}

/// The object's name and the moment. Of a name that events cannot have (too long, or with a colon as roles have) it is
/// something that no other has.
pub(super) fn of(object: &str, moment: i64) -> String {
    let name = format!("{object}.{moment:x}");
    if trireme_machinery::names::is_dns1123_subdomain(&name).is_empty() {
        name
    } else {
        uuid::Uuid::new_v4().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_grow_though_the_clock_stands_or_goes_back() {
        let at = |nanos: i128| Timestamp::from_nanosecond(4_000_000_000_000_000_000 + nanos).unwrap();
        let names: Vec<_> = [5, 5, 5, 2, 9].map(|nanos| of("web", moment(at(nanos)))).into();
        assert_eq!(names[0], "web.3782dace9d900005");
        assert!(names.is_sorted_by(|earlier, later| earlier < later), "{names:?}");
    }

    #[test]
    fn many_recorders_give_no_name_twice() {
        let now = Timestamp::from_second(1_000_000_000).unwrap();
        let many = move || (0..1000).map(|_| moment(now)).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(many)).collect();
        let mut all: Vec<i64> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 4000);
    }

    #[test]
    fn what_is_no_name_of_an_event() {
        for object in ["system:node", &"a".repeat(253)] {
            assert!(uuid::Uuid::parse_str(&of(object, 1)).is_ok(), "{object}");
        }
    }
}
