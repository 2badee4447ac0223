//! One holder at a time, and none that writes after it lost.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use trireme_client::claims::Settings;
use trireme_client::{Claim, PostParams, Tasks, context};
use trireme_testkit::poll::{self, PATIENCE};

use crate::{Door, Stage, connect, over_both_doors};

over_both_doors!(one_of_two_holds_and_gives_back, a_silent_holder_is_replaced, a_lost_holder_cannot_write);

const CLAIM: &str = "trireme-test-0";
const DURATION: Duration = Duration::from_secs(3);

fn settings() -> Settings {
    Settings::single(CLAIM, "host").duration(DURATION)
}

/// What one Lease went through: its holder and when that holder last gave a sign of life, version by version.
fn history(stage: &Stage, name: &str) -> Vec<(String, jiff::Timestamp)> {
    let (all, _) = stage.fake.since(0, "leases").unwrap();
    all.iter()
        .filter(|one| one.object["metadata"]["name"] == name)
        .map(|one| {
            let spec = &one.object["spec"];
            (spec["holderIdentity"].as_str().unwrap().to_owned(), spec["renewTime"].as_str().unwrap().parse().unwrap())
        })
        .collect()
}

async fn one_of_two_holds_and_gives_back(stage: Stage) {
    let (first_tasks, second_tasks) = (Tasks::new(CancellationToken::new()), Tasks::new(CancellationToken::new()));
    let first = Claim::start(&stage.client, settings(), &first_tasks);
    let epoch = first.held().await.epoch;
    let second = Claim::start(&stage.client, settings(), &second_tasks);
    // Where there are fences the holder gives its signs of life in a Lease of its own.
    let id = first.identity().rsplit_once('_').unwrap().1;
    let alive = if stage.door == Door::Grpc { format!("trireme-worker-{id}") } else { CLAIM.to_owned() };
    poll::holds("the holder renews beyond the claim's duration", || {
        let signs = history(&stage, &alive);
        let last = signs.last().unwrap().1;
        signs.first().is_some_and(|first| last.duration_since(first.1).unsigned_abs() > DURATION * 3 / 2)
    })
    .await
    .unwrap();
    assert_eq!(first.current().map(|h| h.epoch), Some(epoch), "a renewing holder keeps it");
    assert!(second.current().is_none());
    first_tasks.shutdown().await;
    timeout(PATIENCE, second.held()).await.unwrap();
    // It was never taken, and what was given back is free at once: nobody's silence was waited for.
    let mut holders: Vec<String> = history(&stage, CLAIM).into_iter().map(|(holder, _)| holder).collect();
    holders.dedup();
    assert_eq!(holders, [first.identity(), "", second.identity()]);
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
    let started = Instant::now();
    let second = Claim::start(&stage.client, settings(), &stage.tasks);
    let new = timeout(PATIENCE, second.held()).await.unwrap().epoch;
    assert!(new > old);
    assert!(started.elapsed() >= DURATION, "taken over too early: {:?}", started.elapsed());
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
    let record = leases.into_iter().map(|(l, _)| l).find(|l| l["metadata"]["name"] == CLAIM).unwrap();
    let mut moved = record.clone();
    moved["spec"]["holderIdentity"] = json!("other_worker");
    let ask = crate::fake::Ask {
        verb: "update".into(),
        resource: "leases".into(),
        namespace: "kube-system".into(),
        name: CLAIM.into(),
        body: moved,
        ..Default::default()
    };
    stage.fake.handle(ask).unwrap();
    let mut other = map.clone();
    other.metadata.name = Some("b".into());
    let refused = context::fenced(fence.clone(), maps.create(&PostParams::default(), &other)).await.unwrap_err();
    assert!(refused.is_claim_lost() && !refused.is_outcome_unknown());
    claim.doubt();
    poll::holds("it notices", || claim.current().is_none()).await.unwrap();
    // The other never gives a sign of life: it is taken back, in a later epoch.
    let again = timeout(PATIENCE, claim.held()).await.unwrap();
    assert!(again.epoch > fence.epoch);
}
