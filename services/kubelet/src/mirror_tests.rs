use super::*;
use crate::api::Standalone;
use crate::error::Result;
use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// An API server that takes requests and answers as many as it is let.
struct Hanging {
    asked: AtomicUsize,
    answers: Semaphore,
}

impl Hanging {
    fn new() -> Arc<Self> {
        Arc::new(Self { asked: AtomicUsize::new(0), answers: Semaphore::new(0) })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    async fn wait(&self) {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.answers.acquire().await.unwrap().forget();
    }
}

#[async_trait]
impl Pods for Hanging {
    async fn patch_status(&self, _: &str, _: &str, _: Value) -> Result<Pod> {
        unreachable!("mirrors have no status of their own")
    }

    async fn delete_now(&self, _: &str, _: &str, _: &str) -> Result<()> {
        self.wait().await;
        Ok(())
    }

    async fn create(&self, pod: &Pod) -> Result<Pod> {
        self.wait().await;
        Ok(pod.clone())
    }
}

#[async_trait]
impl Nodes for Hanging {
    async fn get(&self, _: &str) -> Result<Node> {
        Ok(serde_json::from_value(json!({"metadata": {"name": "n", "uid": "u"}})).unwrap())
    }

    async fn create(&self, _: &Node) -> Result<Node> {
        unreachable!()
    }

    async fn patch(&self, _: &str, _: Value) -> Result<Node> {
        unreachable!()
    }

    async fn patch_status(&self, _: &str, _: Value) -> Result<Node> {
        unreachable!()
    }

    async fn lease(&self, _: &str) -> Result<Lease> {
        unreachable!()
    }

    async fn create_lease(&self, _: &Lease) -> Result<Lease> {
        unreachable!()
    }

    async fn update_lease(&self, _: &Lease) -> Result<Lease> {
        unreachable!()
    }
}

fn keeper(server: &Arc<Hanging>) -> Keeper {
    Keeper::new(&Api { pods: Some(server.clone()), nodes: Some(server.clone()), ..Standalone::api() }, "n")
}

fn pod(name: &str, annotation: &str, hash: &str) -> Arc<Pod> {
    let pod = json!({"metadata": {"name": name, "namespace": "d", "uid": "u", "annotations": {annotation: hash}}});
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn wanted(name: &str) -> Arc<Pod> {
    pod(name, view::CONFIG_HASH, "new")
}

/// Lets what can go on do so.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn while_the_api_server_hangs_it_is_asked_once_for_each_pod() {
    let server = Hanging::new();
    let mut keeper = keeper(&server);
    let wanted = [wanted("missing"), wanted("stale")];
    let stale = pod("stale", view::CONFIG_MIRROR, "old");
    let orphan = pod("orphan", view::CONFIG_MIRROR, "old");
    let mirrors: Mirrors = [(key(&stale), stale), (key(&orphan), orphan)].into();
    let mut running = JoinSet::new();
    for _ in 0..50 {
        for work in keeper.look(&wanted, &mirrors) {
            running.spawn(work);
        }
        settle().await;
    }
    assert_eq!((server.asked(), running.len()), (3, 3), "one create and two deletes");

    // One is answered: that Pod alone is looked at again.
    server.answers.add_permits(1);
    let over = running.join_next().await.unwrap().unwrap();
    assert!(keeper.done(&over), "it was looked at meanwhile");
    for work in keeper.look(&wanted, &mirrors) {
        running.spawn(work);
    }
    settle().await;
    assert_eq!((server.asked(), running.len()), (4, 3));
}

#[tokio::test]
async fn one_that_never_answers_is_given_up_some_time() {
    let server = Hanging::new();
    let mut keeper = Keeper { limit: Duration::from_millis(20), ..keeper(&server) };
    let first = keeper.look(&[wanted("p")], &Mirrors::new());
    assert_eq!(first.len(), 1);
    let over = futures::future::join_all(first).await;
    assert!(!keeper.done(&over[0]), "nobody looked meanwhile");
    assert_eq!(keeper.look(&[wanted("p")], &Mirrors::new()).len(), 1);
}

#[test]
fn a_node_without_an_api_server_mirrors_nothing() {
    let mut keeper = Keeper::new(&Standalone::api(), "n");
    assert!(keeper.look(&[wanted("p")], &Mirrors::new()).is_empty());
}
