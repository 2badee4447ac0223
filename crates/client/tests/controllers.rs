//! The engine: one worker a key, back-off, its own writes seen before the next round.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;
use trireme_client::{
    Action, Client, Controller, DeleteParams, Informer, Object, ObjectKey, PostParams, ReconcileError, Reconciler,
    Store,
};
use trireme_testkit::poll;

use crate::{Stage, over_both_doors};

over_both_doors!(makes_no_child_twice, failures_come_back, a_panic_is_a_failure, requeues_after);

/// For each Secret so many ConfigMaps as its text says.
struct Children {
    client: Client,
    parents: Store<Secret>,
    children: Store<ConfigMap>,
}

fn wanted(secret: &Secret) -> usize {
    serde_json::to_value(secret).unwrap()["data"]["text"].as_str().and_then(|t| t.len().checked_sub(1)).unwrap_or(0)
}

#[async_trait::async_trait]
impl Reconciler for Children {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
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
    let reconciler =
        Arc::new(Children { client: stage.client.clone(), parents: parents.store(), children: children.store() });
    let controller = Controller::new("children").watch(&parents, |s| vec![s.key()]).watch(&children, |c| {
        let key = c.key();
        vec![ObjectKey::new(key.namespace, key.name.split('-').next().unwrap_or_default())]
    });
    stage.tasks.spawn("controller", controller.run(4, reconciler.clone()));
    let made = || stage.fake.list("configmaps", "").0.len();
    let sizes = ["AAAA", "AAAAAAAA", "AAAA", "AAAAAAAAAAAA"];
    for (step, size) in sizes.into_iter().enumerate() {
        // Slow eyes must not make it write again.
        stage.fake.hold("configmaps");
        let settled = 3 * (step + size.len() - 1);
        for _ in 0..2 {
            for parent in ["p", "q", "r"] {
                stage.fake.put("secrets", "default", parent, size);
            }
            poll::holds("the children, which it does not see yet", || made() == settled).await.unwrap();
        }
        // Its events come after those of the others: when its children are made, theirs were taken up.
        stage.fake.put("secrets", "default", &format!("z{step}"), "AAAA");
        poll::holds("the last one's children", || made() == settled + 3).await.unwrap();
        stage.fake.release();
        parents.refresh().await;
        children.refresh().await;
    }
    // In each step the parents, twice, with their 3, 7, 3 and 11 children, and one more with 3: nothing was made to be
    // deleted again.
    let writes = 4 * 2 * 3 + 3 * (3 + 4 + 4 + 8) + 4 * (1 + 3);
    assert_eq!(stage.fake.writes(), writes);
    // What it was woken for by all that it has seen now comes before this.
    stage.fake.put("secrets", "default", "end", "AAAA");
    poll::holds("the very last children", || made() == 3 * 11 + 4 * 3 + 3).await.unwrap();
    assert_eq!(stage.fake.writes(), writes + 1 + 3, "it goes on writing");
}

struct Flaky {
    rounds: Mutex<BTreeMap<String, usize>>,
    how: How,
}

#[derive(Clone, Copy)]
enum How {
    Fails,
    Panics,
    Requeues,
}

impl Flaky {
    fn rounds(&self, name: &str) -> usize {
        self.rounds.lock().unwrap().get(name).copied().unwrap_or_default()
    }
}

#[async_trait::async_trait]
impl Reconciler for Flaky {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let round = {
            let mut rounds = self.rounds.lock().unwrap();
            let round = rounds.entry(key.name.clone()).or_default();
            *round += 1;
            *round
        };
        match self.how {
            // "b" takes one round more than "a".
            _ if round == 5 + usize::from(key.name == "b") => Ok(Action::Done),
            How::Fails => Err(ReconcileError::other("not yet")),
            How::Panics => panic!("not yet"),
            How::Requeues => Ok(Action::RequeueAfter(Duration::from_millis(10))),
        }
    }
}

async fn rounds(stage: Stage, how: How) {
    stage.fake.put("configmaps", "default", "a", "1");
    let maps = Informer::<ConfigMap>::builder(&stage.client).start(&stage.tasks);
    let flaky = Arc::new(Flaky { rounds: Mutex::default(), how });
    let controller = Controller::new("flaky").watch(&maps, |m| vec![m.key()]);
    stage.tasks.spawn("controller", controller.run(2, flaky.clone()));
    poll::holds("five rounds", || flaky.rounds("a") == 5).await.unwrap();
    // It begins when the other is done and waits once more: longer than the other's next wait would have been.
    stage.fake.put("configmaps", "default", "b", "1");
    poll::holds("six rounds", || flaky.rounds("b") == 6).await.unwrap();
    assert_eq!(flaky.rounds("a"), 5);
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
