//! One holder at a time, and none that writes after it lost.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use trireme_client::claims::Settings;
use trireme_client::{Claim, PostParams, Tasks, context};

use crate::{Door, Stage, connect, over_both_doors, until};

over_both_doors!(one_of_two_holds_and_gives_back, a_silent_holder_is_replaced, a_lost_holder_cannot_write);

fn settings() -> Settings {
    Settings::single("trireme-test-0", "host").duration(Duration::from_millis(1000))
}

async fn one_of_two_holds_and_gives_back(stage: Stage) {
    let (first_tasks, second_tasks) = (Tasks::new(CancellationToken::new()), Tasks::new(CancellationToken::new()));
    let first = Claim::start(&stage.client, settings(), &first_tasks);
    let epoch = first.held().await.epoch;
    let second = Claim::start(&stage.client, settings(), &second_tasks);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(first.current().map(|h| h.epoch), Some(epoch), "a renewing holder keeps it");
    assert!(second.current().is_none());
    first_tasks.shutdown().await;
    let started = tokio::time::Instant::now();
    second.held().await;
    assert!(started.elapsed() < Duration::from_millis(900), "what was given back is free at once");
    second_tasks.shutdown().await;
}

async fn a_silent_holder_is_replaced(stage: Stage) {
    // The first worker's way to the server is cut for good.
    let first_client = connect(stage.door, &stage.fake).await;
    let dead = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let first = {
        let client = first_client.clone();
        let _inside = dead.enter();
        Claim::start(&client, settings(), &stage.tasks)
    };
    let old = first.held().await.epoch;
    dead.shutdown_background();
    let second = Claim::start(&stage.client, settings(), &stage.tasks);
    let started = tokio::time::Instant::now();
    let new = tokio::time::timeout(Duration::from_secs(8), second.held()).await.unwrap().epoch;
    assert!(new > old);
    assert!(started.elapsed() >= Duration::from_millis(1000), "taken over too early: {:?}", started.elapsed());
}

async fn a_lost_holder_cannot_write(stage: Stage) {
    let claim = Claim::start(&stage.client, settings(), &stage.tasks);
    claim.held().await;
    let fence = claim.fence("test", "default/a").unwrap();
    let maps = stage.client.namespaced::<ConfigMap>("default");
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    context::fenced(fence.clone(), maps.create(&PostParams::default(), &map)).await.unwrap();
    if stage.door == Door::Rest {
        // A foreign server does not know fences.
        return;
    }
    // Somebody else writes the record.
    let (leases, _) = stage.fake.list("leases", "kube-system");
    let record = leases.into_iter().map(|(l, _)| l).find(|l| l["metadata"]["name"] == "trireme-test-0").unwrap();
    let mut moved = record.clone();
    moved["spec"]["holderIdentity"] = json!("other_worker");
    let ask = crate::fake::Ask {
        verb: "update".into(),
        resource: "leases".into(),
        namespace: "kube-system".into(),
        name: "trireme-test-0".into(),
        body: moved,
        ..Default::default()
    };
    stage.fake.handle(ask).unwrap();
    let mut other = map.clone();
    other.metadata.name = Some("b".into());
    let refused = context::fenced(fence.clone(), maps.create(&PostParams::default(), &other)).await.unwrap_err();
    assert!(refused.is_claim_lost() && !refused.is_outcome_unknown());
    claim.doubt();
    until("it notices", || claim.current().is_none()).await;
    // The other never gives a sign of life: it is taken back, in a later epoch.
    let again = tokio::time::timeout(Duration::from_secs(8), claim.held()).await.unwrap();
    assert!(again.epoch > fence.epoch);
}
