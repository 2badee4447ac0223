use serde_json::json;

use super::*;
use crate::testing::pod;

const SECOND: Duration = Duration::from_secs(1);

fn add(queue: &mut Queue, pod: Arc<PodInfo>, now: Instant) {
    queue.set(pod, Wakes::default(), now, |_, _, _| false);
}

fn pop(queue: &mut Queue, now: Instant) -> Option<String> {
    queue.pop(now).map(|waiting| waiting.pod.name().to_owned())
}

fn because_of(plugin: &'static str) -> BTreeSet<&'static str> {
    BTreeSet::from([plugin])
}

#[test]
fn the_most_important_comes_first_then_the_oldest() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    add(&mut queue, pod("old").info(), now);
    add(&mut queue, pod("young").info(), now + SECOND);
    add(&mut queue, pod("high").priority(9).info(), now + SECOND);
    let order: Vec<String> = std::iter::from_fn(|| pop(&mut queue, now + SECOND)).collect();
    assert_eq!(order, ["high", "old", "young"]);
}

#[test]
fn a_parked_pod_waits_for_what_helps_it() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    add(&mut queue, pod("p").info(), now);
    let waiting = queue.pop(now).unwrap();
    queue.failed(waiting, because_of("Fit"), now);
    assert!(!queue.has_next(now));
    queue.happened(&Wakes::default(), now, |plugins, _| plugins.contains("Taint"));
    assert!(!queue.has_next(now));
    queue.happened(&Wakes::default(), now, |plugins, _| plugins.contains("Fit"));
    // It still backs off, but there is nothing else to do.
    assert_eq!(queue.counts(), [0, 1, 0, 0]);
    assert_eq!(pop(&mut queue, now).as_deref(), Some("p"));
}

#[test]
fn errors_back_off_and_longer_each_time() {
    let (mut queue, mut now) = (Queue::default(), Instant::now());
    add(&mut queue, pod("p").info(), now);
    for wait in [1, 2, 4, 8, 10, 10] {
        let waiting = queue.pop(now).unwrap();
        queue.errored(waiting, now);
        assert!(!queue.has_next(now));
        assert_eq!(queue.next_due(), Some(now + SECOND * wait));
        now += SECOND * wait;
        assert!(queue.has_next(now));
    }
}

#[test]
fn nobody_is_parked_for_ever() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    add(&mut queue, pod("p").info(), now);
    let waiting = queue.pop(now).unwrap();
    queue.failed(waiting, because_of("Fit"), now);
    let due = queue.next_due().unwrap();
    assert_eq!(due, now + LONGEST_PARKED);
    assert_eq!(pop(&mut queue, due).as_deref(), Some("p"));
}

#[test]
fn a_gated_pod_waits_for_its_gates() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    let gated = pod("p").set(&["spec", "schedulingGates"], json!([{"name": "g"}]));
    add(&mut queue, gated.info(), now);
    assert_eq!(queue.counts(), [0, 0, 0, 1]);
    assert_eq!(pop(&mut queue, now), None);
    add(&mut queue, pod("p").info(), now);
    assert_eq!(pop(&mut queue, now).as_deref(), Some("p"));
}

#[test]
fn a_change_during_the_attempt_is_not_lost() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    add(&mut queue, pod("p").info(), now);
    let waiting = queue.pop(now).unwrap();
    add(&mut queue, pod("p").label("new", "yes").info(), now);
    assert_eq!(pop(&mut queue, now), None, "it is in flight");
    queue.errored(waiting, now);
    let waiting = queue.pop(now + SECOND).unwrap();
    assert_eq!(waiting.pod.labels().get("new").map(String::as_str), Some("yes"));
    queue.done("p");
    queue.remove("p");
    assert_eq!(queue.counts(), [0; 4]);
}

#[test]
fn a_pod_that_goes_during_the_attempt_does_not_come_back() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    add(&mut queue, pod("p").info(), now);
    let waiting = queue.pop(now).unwrap();
    queue.remove(waiting.pod.uid());
    assert!(queue.errored(waiting, now).is_none());
    assert_eq!(queue.counts(), [0; 4]);
    // Nothing of that time stays.
    add(&mut queue, pod("p").info(), now);
    assert_eq!(pop(&mut queue, now).as_deref(), Some("p"));
}

#[test]
fn a_change_of_the_pod_itself_can_help() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    add(&mut queue, pod("p").info(), now);
    let waiting = queue.pop(now).unwrap();
    queue.failed(waiting, because_of("Taint"), now);
    queue.set(pod("p").info(), Wakes::default(), now, |_, _, _| false);
    assert!(!queue.has_next(now));
    queue.set(pod("p").info(), Wakes::default(), now, |plugins, _, _| plugins.contains("Taint"));
    assert!(queue.has_next(now));
}

#[test]
fn a_second_look_waits_for_the_back_off_but_help_does_not() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    add(&mut queue, pod("p").info(), now);
    let waiting = queue.pop(now).unwrap();
    queue.failed(waiting, because_of("Fit"), now);
    queue.look_again(now, |_| true);
    assert!(!queue.has_next(now));
    assert_eq!(queue.next_due(), Some(now + SECOND));
    queue.happened(&Wakes::default(), now, |plugins, _| plugins.contains("Fit"));
    assert!(queue.has_next(now));
}
