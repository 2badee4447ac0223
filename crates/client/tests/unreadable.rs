//! Objects that an informer cannot read hold nobody up.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::time::timeout;
use trireme_client::{Change, Informer};
use trireme_testkit::poll::{self, PATIENCE};

use crate::fake::{Ask, Fake};
use crate::{Stage, over_both_doors};

over_both_doors!(a_list_goes_on_without_them, a_watch_goes_on_past_them);

/// Writes a ConfigMap whose data are no map.
fn write(fake: &Fake, verb: &str, name: &str) {
    let ask = Ask {
        verb: verb.into(),
        resource: "configmaps".into(),
        namespace: "default".into(),
        name: name.into(),
        body: json!({"metadata": {"name": name, "namespace": "default"}, "data": 7}),
        ..Ask::default()
    };
    fake.handle(ask).unwrap();
}

async fn a_list_goes_on_without_them(stage: Stage) {
    write(&stage.fake, "create", "bad");
    stage.fake.put("configmaps", "default", "good", "1");
    let informer = Informer::<ConfigMap>::builder(&stage.client).start(&stage.tasks);
    timeout(PATIENCE, informer.synced()).await.unwrap();
    assert_eq!(timeout(PATIENCE, informer.refresh()).await.unwrap(), stage.fake.revision());
    let store = informer.store();
    assert!(store.find("default", "good").is_some() && store.len() == 1);
}

async fn a_watch_goes_on_past_them(stage: Stage) {
    stage.fake.put("configmaps", "default", "a", "1");
    let informer = Informer::<ConfigMap>::builder(&stage.client).start(&stage.tasks);
    let mut events = informer.subscribe();
    informer.synced().await;
    let store = informer.store();
    write(&stage.fake, "update", "a");
    stage.fake.put("configmaps", "default", "b", "1");
    timeout(PATIENCE, informer.reached(stage.fake.revision())).await.unwrap();
    // What could be read of it last stays, also when everything is listed again.
    assert!(store.find("default", "a").is_some() && store.find("default", "b").is_some());
    stage.fake.compact();
    stage.fake.cut();
    stage.fake.put("configmaps", "default", "c", "1");
    poll::holds("the list after the gap", || store.find("default", "c").is_some()).await.unwrap();
    assert_eq!(store.len(), 3);
    stage.fake.remove("configmaps", "default", "a");
    poll::holds("its end", || store.find("default", "a").is_none()).await.unwrap();
    let mut told = Vec::new();
    while let Ok(event) = events.try_recv() {
        let name = event.change.object().metadata.name.clone().unwrap();
        told.push((matches!(event.change, Change::Deleted(_)), name));
    }
    let expected = [(false, "a"), (false, "b"), (false, "c"), (true, "a")];
    assert_eq!(told, expected.map(|(deleted, name)| (deleted, name.to_owned())));
}
