//! What is told about an object stands in the API in the order in which it was told.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, ObjectReference, Pod};
use k8s_openapi::api::events::v1::Event as Modern;
use serde_json::json;
use trireme_client::{Clock, EventRecorder, EventType, ListParams, SeriesRecorder};
use trireme_testkit::poll;

use crate::{Stage, over_both_doors};

over_both_doors!(
    events_of_one_second_are_listed_as_they_were_told,
    an_event_whose_answer_got_lost_is_one_and_counted,
    one_that_fails_does_not_hold_up_those_behind_it,
    what_a_scheduler_tells_has_no_last_time,
);

fn pod(name: &str) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default", "uid": "u"}})).unwrap()
}

fn count(stage: &Stage) -> usize {
    stage.fake.list("events", "default").0.len()
}

async fn listed(stage: &Stage) -> Vec<Event> {
    stage.client.namespaced::<Event>("default").list(&ListParams::default()).await.unwrap().items
}

async fn events_of_one_second_are_listed_as_they_were_told(stage: Stage) {
    // As in one process: several recorders.
    let clock = Clock::system();
    let recorders = ["kubelet", "other"].map(|one| EventRecorder::new(&stage.client, one, "", &clock, &stage.tasks));
    let reasons: Vec<String> = (0..20).map(|number| format!("Reason{number}")).collect();
    for (reason, recorder) in reasons.iter().zip(recorders.iter().cycle()) {
        recorder.event(&pod("web"), EventType::Normal, reason, "text");
    }
    poll::holds("all are written", || count(&stage) == reasons.len()).await.unwrap();
    let events = listed(&stage).await;
    assert_eq!(events.iter().map(|event| event.reason.clone().unwrap()).collect::<Vec<_>>(), reasons);
    for event in events {
        let (name, time) = (event.metadata.name.unwrap(), event.first_timestamp.unwrap().0);
        let nanos = i128::from_str_radix(name.strip_prefix("web.").unwrap(), 16).unwrap();
        assert!((nanos - time.as_nanosecond()).abs() < 2_000_000_000, "{name} is not named after {time}");
    }
}

async fn an_event_whose_answer_got_lost_is_one_and_counted(stage: Stage) {
    let recorder = EventRecorder::new(&stage.client, "kubelet", "", &Clock::system(), &stage.tasks);
    stage.fake.lose_answers(1);
    recorder.event(&pod("web"), EventType::Warning, "BackOff", "again");
    recorder.event(&pod("web"), EventType::Warning, "BackOff", "again");
    poll::holds("both are written", || stage.fake.writes() == 2).await.unwrap();
    let events = listed(&stage).await;
    assert_eq!(events.iter().map(|event| event.count).collect::<Vec<_>>(), [Some(2)]);
}

async fn one_that_fails_does_not_hold_up_those_behind_it(stage: Stage) {
    let clock = Clock::system();
    let recorder = EventRecorder::new(&stage.client, "kubelet", "", &clock, &stage.tasks);
    let series = SeriesRecorder::new(&stage.client, "default-scheduler", "default-scheduler-h", &clock, &stage.tasks);
    stage.fake.fail("bad.");
    for name in ["bad", "web"] {
        recorder.event(&pod(name), EventType::Normal, "Told", "text");
        series.event(&pod(name), None, EventType::Normal, ("Scheduled", "Binding"), "note");
    }
    // Twelve tries, as many as upstream makes, would take more than a minute.
    let behind = poll::found("those behind it", Duration::from_secs(30), async || (count(&stage) == 2).then_some(()));
    behind.await.unwrap();
    let (written, _) = stage.fake.list("events", "default");
    assert!(written.iter().all(|(event, _)| event["metadata"]["name"].as_str().unwrap().starts_with("web.")));
}

async fn what_a_scheduler_tells_has_no_last_time(stage: Stage) {
    let recorder =
        SeriesRecorder::new(&stage.client, "default-scheduler", "default-scheduler-h", &Clock::system(), &stage.tasks);
    let related = ObjectReference { name: Some("other".into()), ..ObjectReference::default() };
    for _ in 0..2 {
        let note = "Successfully assigned default/web to node-1";
        recorder.event(&pod("web"), Some(related.clone()), EventType::Normal, ("Scheduled", "Binding"), note);
    }
    poll::holds("both are written", || stage.fake.writes() == 2).await.unwrap();
    let events = stage.client.namespaced::<Modern>("default").list(&ListParams::default()).await.unwrap().items;
    let [event] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(event.series.as_ref().map(|series| series.count), Some(2));
    assert_eq!((event.action.as_deref(), event.reason.as_deref()), (Some("Binding"), Some("Scheduled")));
    assert_eq!(event.reporting_instance.as_deref(), Some("default-scheduler-h"));
    assert!(event.deprecated_last_timestamp.is_none() && event.deprecated_count.is_none());
    assert_eq!(event.related, Some(related));
}
