//! A controller under a claim that is lost and won again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use trireme_client::claims::Settings;
use trireme_client::{Action, Claim, Controller, Informer, Object, ObjectKey, ReconcileError, Reconciler, Tasks};
use trireme_testkit::poll::{self, PATIENCE};

use crate::{Stage, over_both_doors};

over_both_doors!(what_was_being_worked_on_is_worked_on_in_the_next_term, a_controller_that_went_deaf_fails_the_service,);

const CLAIM: &str = "trireme-test-0";

/// Its first round never ends.
#[derive(Default)]
struct Stuck {
    rounds: AtomicUsize,
}

#[async_trait::async_trait]
impl Reconciler for Stuck {
    async fn reconcile(&self, _: &ObjectKey) -> Result<Action, ReconcileError> {
        if self.rounds.fetch_add(1, Ordering::SeqCst) == 0 {
            std::future::pending::<()>().await;
        }
        Ok(Action::Done)
    }
}

async fn what_was_being_worked_on_is_worked_on_in_the_next_term(stage: Stage) {
    stage.fake.put("configmaps", "default", "a", "1");
    let maps = Informer::<ConfigMap>::builder(&stage.client).start(&stage.tasks);
    let settings = Settings::single(CLAIM, "host").duration(std::time::Duration::from_secs(1));
    let claim = Claim::start(&stage.client, settings, &stage.tasks);
    let stuck = Arc::new(Stuck::default());
    let controller = Controller::new("stuck").watch(&maps, |m| vec![m.key()]).claim(&claim);
    stage.tasks.spawn("controller", controller.run(1, stuck.clone()));
    poll::holds("the first round begins", || stuck.rounds.load(Ordering::SeqCst) == 1).await.unwrap();

    // Somebody else takes the claim and is never heard of again, so that it comes back.
    let before = claim.held().await.epoch;
    stage.fake.seize(CLAIM);
    claim.doubt();
    timeout(PATIENCE, claim.lost(before)).await.unwrap();
    let again = timeout(PATIENCE, claim.held()).await.unwrap().epoch;
    assert!(again > before);
    poll::holds("a round in the next term", || stuck.rounds.load(Ordering::SeqCst) > 1).await.unwrap();
}

/// What wakes its keys panics: without an end nobody would ever know.
async fn a_controller_that_went_deaf_fails_the_service(stage: Stage) {
    stage.fake.put("configmaps", "default", "a", "1");
    let maps = Informer::<ConfigMap>::builder(&stage.client).start(&stage.tasks);
    let service = trireme_service::tasks::Tasks::new(CancellationToken::new());
    let keys = |_: &ConfigMap| -> Vec<ObjectKey> { panic!("no key") };
    let controller = Controller::new("deaf").watch(&maps, keys);
    Tasks::from(service.clone()).spawn("deaf", controller.run(1, Arc::new(Stuck::default())));
    timeout(PATIENCE, service.shutdown().cancelled()).await.unwrap();
    assert_eq!(service.failure().as_deref(), Some("task deaf panicked: no key"));
}

impl crate::fake::Fake {
    /// Another worker writes itself into a claim record.
    fn seize(&self, claim: &str) {
        loop {
            let (leases, _) = self.list("leases", "kube-system");
            let record = leases.into_iter().map(|(lease, _)| lease).find(|l| l["metadata"]["name"] == claim);
            let mut body = record.unwrap();
            body["spec"]["holderIdentity"] = json!("other_worker");
            let ask = crate::fake::Ask {
                verb: "update".into(),
                resource: "leases".into(),
                namespace: "kube-system".into(),
                name: claim.into(),
                body,
                ..Default::default()
            };
            // The holder may have renewed meanwhile.
            if self.handle(ask).is_ok() {
                return;
            }
        }
    }
}
