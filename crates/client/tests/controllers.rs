//! The engine: one worker a key, back-off, its own writes seen before the next round.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;
use trireme_client::{
    Action, Client, Controller, DeleteParams, Informer, Object, ObjectKey, PostParams, ReconcileError, Reconciler,
    Store,
};

use crate::{Stage, over_both_doors, until};

over_both_doors!(makes_no_child_twice, failures_come_back, a_panic_is_a_failure, requeues_after);

/// For each Secret so many ConfigMaps as its text says.
struct Children {
    client: Client,
    parents: Store<Secret>,
    children: Store<ConfigMap>,
    rounds: AtomicUsize,
}

fn wanted(secret: &Secret) -> usize {
    serde_json::to_value(secret).unwrap()["data"]["text"].as_str().and_then(|t| t.len().checked_sub(1)).unwrap_or(0)
}

#[async_trait::async_trait]
impl Reconciler for Children {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        self.rounds.fetch_add(1, Ordering::SeqCst);
        let wanted = self.parents.get(key).map_or(0, |p| wanted(&p));
        let mut have = self.children.in_namespace(&key.namespace);
        have.retain(|c| c.metadata.name.as_deref().is_some_and(|n| n.starts_with(&key.name)));
        let api = self.client.namespaced::<ConfigMap>(&key.namespace);
        for _ in have.len()..wanted {
            let name = format!("{}-{}", key.name, rand::random::<u32>());
            let child = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            api.create(&PostParams::default(), &child).await?;
        }
        for child in have.iter().skip(wanted) {
            api.delete(&child.key().name, &DeleteParams::uid(child.uid())).await?;
        }
        Ok(Action::Done)
    }
}

async fn makes_no_child_twice(stage: Stage) {
    // Secrets in the fake carry plain text; a Secret's data is base64 of any length.
    let parents = Informer::<Secret>::builder(&stage.client).start(&stage.tasks);
    let children = Informer::<ConfigMap>::builder(&stage.client).start(&stage.tasks);
    let reconciler = Arc::new(Children {
        client: stage.client.clone(),
        parents: parents.store(),
        children: children.store(),
        rounds: AtomicUsize::new(0),
    });
    let controller = Controller::new("children").watch(&parents, |s| vec![s.key()]).watch(&children, |c| {
        let key = c.key();
        vec![ObjectKey::new(key.namespace, key.name.split('-').next().unwrap_or_default())]
    });
    stage.tasks.spawn("controller", controller.run(4, reconciler.clone()));
    for size in ["AAAA", "AAAAAAAA", "AAAA", "AAAAAAAAAAAA"] {
        for parent in ["p", "q", "r"] {
            stage.fake.put("secrets", "default", parent, size);
        }
        // Slow eyes must not make it write again.
        stage.fake.hold.send_replace(true);
        tokio::time::sleep(Duration::from_millis(30)).await;
        stage.fake.hold.send_replace(false);
        let settled = wanted(&serde_json::from_value(json!({"data": {"text": size}})).unwrap()) * 3;
        until("the children", || stage.fake.list("configmaps", "").0.len() == settled).await;
    }
    let before = stage.fake.writes();
    parents.refresh().await;
    children.refresh().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(stage.fake.writes(), before, "it goes on writing");
    // 3 parents: 3, 7, 3, 11 children each, and the writes of the parents themselves: nothing was made to be deleted again.
    assert_eq!(before, 3 * (3 + 4 + 4 + 8) + 3 * 4);
}

struct Flaky {
    rounds: AtomicUsize,
    until: usize,
    how: How,
}

#[derive(Clone, Copy)]
enum How {
    Fails,
    Panics,
    Requeues,
}

#[async_trait::async_trait]
impl Reconciler for Flaky {
    async fn reconcile(&self, _: &ObjectKey) -> Result<Action, ReconcileError> {
        let round = self.rounds.fetch_add(1, Ordering::SeqCst);
        match self.how {
            _ if round >= self.until => Ok(Action::Done),
            How::Fails => Err(ReconcileError::other("not yet")),
            How::Panics => panic!("not yet"),
            How::Requeues => Ok(Action::RequeueAfter(Duration::from_millis(10))),
        }
    }
}

async fn rounds(stage: Stage, how: How) {
    stage.fake.put("configmaps", "default", "a", "1");
    let maps = Informer::<ConfigMap>::builder(&stage.client).start(&stage.tasks);
    let flaky = Arc::new(Flaky { rounds: AtomicUsize::new(0), until: 4, how });
    let controller = Controller::new("flaky").watch(&maps, |m| vec![m.key()]);
    stage.tasks.spawn("controller", controller.run(2, flaky.clone()));
    until("five rounds", || flaky.rounds.load(Ordering::SeqCst) == 5).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(flaky.rounds.load(Ordering::SeqCst), 5);
}

async fn failures_come_back(stage: Stage) {
    rounds(stage, How::Fails).await;
}

async fn a_panic_is_a_failure(stage: Stage) {
    rounds(stage, How::Panics).await;
}

async fn requeues_after(stage: Stage) {
    rounds(stage, How::Requeues).await;
}
