//! What an informer sees when the server and the way to it misbehave.

use std::collections::BTreeMap;
use std::pin::pin;

use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::timeout;
use trireme_client::{Change, Informer, Object, ObjectKey, Subscription};
use trireme_testkit::poll::{self, PATIENCE};

use crate::{Door, Stage, over_both_doors};

over_both_doors!(
    lists_then_watches,
    sees_each_version_once_over_cut_connections,
    lists_again_after_a_gap,
    late_subscribers_get_everything,
    answers_when_it_has_seen_a_revision,
    refreshes_up_to_now,
    indexes_are_kept,
);

fn text(object: &ConfigMap) -> &str {
    object.data.as_ref().map_or("", |d| d["text"].as_str())
}

fn informer(stage: &Stage) -> Informer<ConfigMap> {
    Informer::builder(&stage.client).index("text", |o: &ConfigMap| vec![text(o).to_owned()]).start(&stage.tasks)
}

async fn lists_then_watches(stage: Stage) {
    stage.fake.put("configmaps", "default", "a", "1");
    let informer = informer(&stage);
    informer.synced().await;
    assert_eq!(informer.store().len(), 1);
    stage.fake.put("configmaps", "default", "b", "2");
    stage.fake.remove("configmaps", "default", "a");
    poll::holds("b alone", || {
        let store = informer.store();
        store.len() == 1 && store.find("default", "b").is_some()
    })
    .await
    .unwrap();
}

/// Replays events: every one must fit what came before.
fn replay(events: &mut Subscription<ConfigMap>, seen: &mut BTreeMap<ObjectKey, i64>) -> usize {
    let mut count = 0;
    while let Ok(event) = events.try_recv() {
        count += 1;
        let key = event.change.object().key();
        let before = seen.get(&key).copied();
        match event.change {
            Change::Added(_) => assert_eq!(before, None, "{key} was added twice"),
            Change::Updated { old, new } => {
                assert_eq!(before, Some(old.revision()), "{key}: a version is missing or doubled");
                assert!(new.revision() > old.revision(), "{key} went back in time");
            }
            Change::Deleted(_) => {
                assert!(before.is_some(), "{key} was deleted twice");
                seen.remove(&key);
                continue;
            }
        }
        seen.insert(key, event.revision);
    }
    count
}

async fn sees_each_version_once_over_cut_connections(stage: Stage) {
    let informer = informer(&stage);
    let mut events = informer.subscribe();
    let mut seen = BTreeMap::new();
    let mut count = 0;
    for round in 0..200u32 {
        stage.fake.put("configmaps", "default", &format!("m{}", round % 7), &round.to_string());
        if round % 11 == 0 {
            stage.fake.remove("configmaps", "default", &format!("m{}", round % 5));
        }
        if round % 20 == 19 {
            // The stream must stand for the cut to mean something.
            informer.reached(stage.fake.revision() - 1).await;
            stage.fake.cut();
        }
    }
    informer.reached(stage.fake.revision()).await;
    count += replay(&mut events, &mut seen);
    let (listed, _) = stage.fake.list("configmaps", "");
    assert_eq!(seen.len(), listed.len());
    for (object, _) in listed {
        let key = ObjectKey::new("default", object["metadata"]["name"].as_str().unwrap());
        assert_eq!(seen[&key].to_string(), object["metadata"]["resourceVersion"].as_str().unwrap());
    }
    assert!(count > 0);
}

async fn lists_again_after_a_gap(stage: Stage) {
    for name in ["a", "b", "c"] {
        stage.fake.put("configmaps", "default", name, "1");
    }
    let informer = informer(&stage);
    let mut events = informer.subscribe();
    informer.synced().await;
    let mut seen = BTreeMap::new();
    stage.fake.hold("configmaps");
    stage.fake.remove("configmaps", "default", "a");
    stage.fake.put("configmaps", "default", "b", "2");
    stage.fake.put("configmaps", "default", "d", "1");
    stage.fake.compact();
    stage.fake.release();
    stage.fake.cut();
    poll::holds("the difference", || {
        let store = informer.store();
        store.find("default", "a").is_none() && store.find("default", "d").is_some()
    })
    .await
    .unwrap();
    informer.reached(stage.fake.revision()).await;
    replay(&mut events, &mut seen);
    assert_eq!(seen.keys().map(|k| k.name.as_str()).collect::<Vec<_>>(), ["b", "c", "d"]);
}

async fn late_subscribers_get_everything(stage: Stage) {
    stage.fake.put("configmaps", "default", "a", "1");
    let informer = informer(&stage);
    informer.synced().await;
    let mut events = informer.subscribe();
    let first = events.recv().await.unwrap();
    assert!(first.initial && matches!(first.change, Change::Added(_)));
    stage.fake.put("configmaps", "default", "a", "2");
    assert!(matches!(events.recv().await.unwrap().change, Change::Updated { .. }));
}

async fn answers_when_it_has_seen_a_revision(stage: Stage) {
    let informer = informer(&stage);
    informer.synced().await;
    // A revision of another resource: only asking (or listing) tells that it was passed.
    stage.fake.put("secrets", "default", "s", "1");
    timeout(PATIENCE, informer.reached(stage.fake.revision())).await.unwrap();
    // And one that does not exist yet is waited for, though the server says how far it is.
    let ahead = stage.fake.revision() + 1;
    let mut waiting = pin!(informer.reached(ahead));
    for _ in 0..3 {
        assert!(futures::poll!(&mut waiting).is_pending());
        informer.refresh().await;
    }
    assert!(futures::poll!(&mut waiting).is_pending());
    stage.fake.put("configmaps", "default", "a", "1");
    timeout(PATIENCE, waiting).await.unwrap();
}

async fn refreshes_up_to_now(stage: Stage) {
    let informer = informer(&stage);
    informer.synced().await;
    for round in 0..20 {
        stage.fake.put("configmaps", "default", "a", &round.to_string());
        let revision = informer.refresh().await;
        assert!(revision >= stage.fake.revision());
        assert_eq!(text(&informer.store().find("default", "a").unwrap()), round.to_string());
    }
    if stage.door == Door::Grpc {
        stage.fake.hold("configmaps");
        stage.fake.put("configmaps", "default", "a", "late");
        let questions = stage.fake.questions();
        let mut waiting = pin!(informer.refresh());
        assert!(futures::poll!(&mut waiting).is_pending());
        poll::holds("the question", || stage.fake.questions() > questions).await.unwrap();
        assert!(futures::poll!(&mut waiting).is_pending(), "what is held back was not seen");
        // The stream that was asked breaks: the question is asked again.
        stage.fake.cut();
        stage.fake.release();
        timeout(PATIENCE, waiting).await.unwrap();
        assert_eq!(text(&informer.store().find("default", "a").unwrap()), "late");
    }
}

async fn indexes_are_kept(stage: Stage) {
    stage.fake.put("configmaps", "default", "a", "red");
    stage.fake.put("configmaps", "default", "b", "red");
    let informer = informer(&stage);
    informer.synced().await;
    assert_eq!(informer.store().by_index("text", "red").len(), 2);
    stage.fake.put("configmaps", "default", "b", "blue");
    informer.reached(stage.fake.revision()).await;
    assert_eq!(informer.store().by_index("text", "red").len(), 1);
    assert_eq!(informer.store().by_index("text", "blue")[0].metadata.name.as_deref(), Some("b"));
}
