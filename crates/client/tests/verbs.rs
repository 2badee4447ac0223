//! Requests and refusals.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use trireme_client::{DeleteParams, ListParams, Patch, PatchParams, PostParams};

use crate::{Stage, over_both_doors};

over_both_doors!(
    objects_come_and_go,
    refusals_are_statuses,
    dynamic_objects_keep_everything,
    service_accounts_act_with_tokens_that_are_asked_for,
    an_answer_that_got_lost_makes_nothing_twice,
);

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"text": "a"}})).unwrap()
}

async fn objects_come_and_go(stage: Stage) {
    let maps = stage.client.namespaced::<ConfigMap>("default");
    let params = PostParams::default();
    let mut made = maps.create(&params, &map("one")).await.unwrap();
    assert_eq!(made.metadata.resource_version.as_deref(), Some("1"));
    made.data = Some([("text".to_owned(), "b".to_owned())].into());
    let updated = maps.update(&params, &made).await.unwrap();
    assert_eq!(updated.data.unwrap()["text"], "b");
    let patch = Patch::Merge(json!({"data": {"more": "c"}}));
    let patched = maps.patch("one", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(patched.data.unwrap().len(), 2);
    let list = stage.client.api::<ConfigMap>().list(&ListParams::default()).await.unwrap();
    assert_eq!((list.items.len(), list.revision), (1, 3));
    let uid = patched.metadata.uid.unwrap();
    assert!(maps.delete("one", &DeleteParams::uid("other")).await.unwrap_err().is_conflict());
    maps.delete("one", &DeleteParams::uid(uid)).await.unwrap();
    assert!(maps.get_opt("one").await.unwrap().is_none());
}

async fn refusals_are_statuses(stage: Stage) {
    let maps = stage.client.namespaced::<ConfigMap>("default");
    let params = PostParams::default();
    let error = maps.get("none").await.unwrap_err();
    assert!(error.is_not_found());
    assert_eq!(error.to_string(), "configmaps \"none\" not found");
    let made = maps.create(&params, &map("one")).await.unwrap();
    assert!(maps.create(&params, &map("one")).await.unwrap_err().is_already_exists());
    maps.update(&params, &made).await.unwrap();
    assert!(maps.update(&params, &made).await.unwrap_err().is_conflict());
    stage.fake.lose_answers(1);
    assert!(maps.create(&params, &map("two")).await.unwrap_err().is_outcome_unknown());
    assert!(maps.get("two").await.is_ok());
}

async fn dynamic_objects_keep_everything(stage: Stage) {
    let resource = trireme_client::ApiResource::of::<ConfigMap>();
    let objects = stage.client.dynamic(&resource, "default");
    let object = serde_json::from_value(json!({"metadata": {"name": "any"}, "unknown": {"to": "us"}})).unwrap();
    let made = objects.create(&PostParams::default(), &object).await.unwrap();
    assert_eq!(made.value()["unknown"]["to"], "us");
    assert_eq!(made.value()["kind"], "ConfigMap");
}

async fn service_accounts_act_with_tokens_that_are_asked_for(stage: Stage) {
    let accounts = stage.client.service_accounts().unwrap();
    let acting = accounts.client("kube-system", "web-controller");
    let maps = acting.namespaced::<ConfigMap>("default");
    // The account is made, a token asked for and used.
    maps.create(&PostParams::default(), &map("one")).await.unwrap();
    assert_eq!(stage.fake.authorization(), "Bearer token-of-web-controller");
    assert_eq!(stage.fake.list("serviceaccounts", "kube-system").0.len(), 1);
    stage.client.namespaced::<ConfigMap>("default").get("one").await.unwrap();
    assert_eq!(stage.fake.authorization(), "");
}

async fn an_answer_that_got_lost_makes_nothing_twice(stage: Stage) {
    let maps = stage.client.namespaced::<ConfigMap>("default");
    stage.fake.lose_answers(1);
    let made = maps.create_certainly(&map("chosen-x7k2p")).await.unwrap();
    assert_eq!(made.metadata.name.as_deref(), Some("chosen-x7k2p"));
    assert_eq!(stage.fake.list("configmaps", "").0.len(), 1);
}
