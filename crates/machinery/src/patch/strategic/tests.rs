use serde_json::json;

use super::*;
use crate::schema::{Field, ListKind, Object, PatchStrategy, Presence, SchemaBuilder, Type};

fn field(name: &str, ty: TypeId, strategy: &str, key: &str) -> Field {
    Field {
        name: name.into(),
        ty,
        required: false,
        presence: Presence::OmitEmpty,
        default: None,
        enum_values: Vec::new(),
        atomic: false,
        patch_strategy: PatchStrategy::parse(strategy),
        patch_merge_key: (!key.is_empty()).then(|| key.into()),
        proto_number: 0,
        embedded: "".into(),
        proto_embedded: Vec::new(),
    }
}

/// A small Pod: containers with env and args, finalizers, labels, a strategy that keeps keys, volumes that are replaced.
fn pod() -> (Schema, TypeId) {
    let mut build = SchemaBuilder::default();
    let plain = |go: &str, shape| Type { name: "".into(), go: go.into(), shape, defaults: Default::default() };
    let string = build.add(plain("string", Shape::String));
    let list = |of| Shape::List { of, kind: ListKind::Atomic };
    let strings = build.add(plain("[]string", list(string)));
    let labels = build.add(plain("map[string]string", Shape::Map { of: string, atomic: false }));
    let env = build.add(plain(
        "v1.EnvVar",
        Shape::Object(Object::new(vec![field("name", string, "", ""), field("value", string, "", "")])),
    ));
    let envs = build.add(plain("[]v1.EnvVar", list(env)));
    let container = build.add(plain(
        "v1.Container",
        Shape::Object(Object::new(vec![
            field("name", string, "", ""),
            field("image", string, "", ""),
            field("env", envs, "merge", "name"),
            field("args", strings, "", ""),
        ])),
    ));
    let containers = build.add(plain("[]v1.Container", list(container)));
    let strategy = build.add(plain(
        "v1.Strategy",
        Shape::Object(Object::new(vec![field("type", string, "", ""), field("rolling", labels, "", "")])),
    ));
    let pod = build.add(plain(
        "v1.Pod",
        Shape::Object(Object::new(vec![
            field("labels", labels, "", ""),
            field("finalizers", strings, "merge", ""),
            field("containers", containers, "merge", "name"),
            field("keyless", containers, "merge", ""),
            field("strategy", strategy, "retainKeys", ""),
            field("whole", strategy, "replace", ""),
        ])),
    ));
    (build.build(), pod)
}

fn patched(object: Value, patch: Value) -> Result<Value, Error> {
    let (schema, ty) = pod();
    apply(&object, &patch, &schema, ty)
}

fn object() -> Value {
    json!({
        "labels": {"a": "1", "b": "2"},
        "finalizers": ["x", "y"],
        "containers": [
            {"name": "c1", "image": "i:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], "args": ["p"]},
            {"name": "c2", "image": "i:2"}],
        "strategy": {"type": "RollingUpdate", "rolling": {"maxSurge": "1"}},
        "whole": {"type": "a", "rolling": {"k": "v"}},
    })
}

#[track_caller]
fn leads_to(patch: Value, at: &str, expected: Value) {
    assert_eq!(patched(object(), patch.clone()).unwrap()[at], expected, "{patch}");
}

#[test]
fn lists_of_maps_are_merged_by_key() {
    leads_to(
        json!({"containers": [{"name": "c2", "image": "i:9"}, {"name": "c3", "image": "i:3"}]}),
        "containers",
        json!([object()["containers"][0], {"name": "c2", "image": "i:9"}, {"name": "c3", "image": "i:3"}]),
    );
    leads_to(
        json!({"containers": [{"name": "c1", "env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}], "args": ["q"]}]}),
        "containers",
        json!([{"name": "c1", "image": "i:1", "args": ["q"], "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "3"},
                {"name": "C", "value": "4"}]}, {"name": "c2", "image": "i:2"}]),
    );
    leads_to(
        json!({"containers": [{"name": "c1", "$patch": "delete"}]}),
        "containers",
        json!([{"name": "c2", "image": "i:2"}]),
    );
    leads_to(json!({"containers": [{"name": "z"}, {"$patch": "replace"}]}), "containers", json!([{"name": "z"}]));
}

#[test]
fn an_order_given_is_kept() {
    leads_to(
        json!({"$setElementOrder/containers": [{"name": "c2"}, {"name": "c1"}], "containers": [{"name": "c2", "image": "i:7"}]}),
        "containers",
        json!([{"name": "c2", "image": "i:7"}, object()["containers"][0]]),
    );
    leads_to(
        json!({"$setElementOrder/finalizers": ["y", "z", "x"], "finalizers": ["z"]}),
        "finalizers",
        json!(["y", "z", "x"]),
    );
    assert_eq!(
        patched(
            object(),
            json!({"$setElementOrder/containers": [{"name": "c2"}], "containers": [{"name": "c1", "image": "i:7"}]})
        )
        .unwrap_err()
        .to_string(),
        "The order in patch list:\n[map[image:i:7 name:c1]]\n doesn't match $setElementOrder list:\n[map[name:c2]]\n"
    );
}

#[test]
fn lists_of_scalars_are_sets() {
    leads_to(json!({"finalizers": ["z", "x"]}), "finalizers", json!(["z", "x", "y"]));
    leads_to(json!({"$deleteFromPrimitiveList/finalizers": ["x"]}), "finalizers", json!(["y"]));
    leads_to(
        json!({"$deleteFromPrimitiveList/finalizers": ["x"], "$setElementOrder/finalizers": ["n", "y"], "finalizers": ["n"]}),
        "finalizers",
        json!(["n", "y"]),
    );
}

#[test]
fn maps_are_merged_replaced_or_emptied() {
    leads_to(json!({"labels": {"a": null, "c": "3"}}), "labels", json!({"b": "2", "c": "3"}));
    leads_to(json!({"labels": {"$patch": "replace", "z": "1"}}), "labels", json!({"z": "1"}));
    leads_to(json!({"labels": {"$patch": "delete"}}), "labels", json!({}));
    leads_to(json!({"whole": {"type": "b"}}), "whole", json!({"type": "b"}));
    leads_to(
        json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}),
        "strategy",
        json!({"type": "Recreate"}),
    );
    leads_to(json!({"labels": null}), "labels", Value::Null);
    let fresh = patched(json!({}), json!({"labels": {"a": null, "b": "1"}, "strategy": {"$patch": "delete"}})).unwrap();
    assert_eq!(fresh, json!({"labels": {"b": "1"}}));
}

#[test]
fn what_cannot_be_merged_is_refused_in_upstreams_words() {
    let refused = |patch: Value| {
        let error = patched(object(), patch).unwrap_err();
        let status = crate::patch::status(&error);
        (status.code(), status.message)
    };
    assert_eq!(
        refused(json!({"containers": [{"image": "i:3"}]})),
        (500, "map: map[image:i:3] does not contain declared merge key: name".to_owned())
    );
    assert_eq!(
        refused(json!({"strategy": {"$retainKeys": ["type"], "rolling": {"a": "b"}}})),
        (400, "invalid patch format of retainKeys".to_owned())
    );
    assert_eq!(
        refused(json!({"$deleteFromPrimitiveList": ["x"]})),
        (400, "invalid patch format of primitive list".to_owned())
    );
    assert_eq!(
        refused(json!({"labels": {"$patch": "explode"}})),
        (500, "unknown patch type: explode in map: map[$patch:explode]".to_owned())
    );
    assert_eq!(
        refused(json!({"$setElementOrder/nothing": []})).1,
        "unable to find api field in struct Pod for the json field \"nothing\""
    );
    assert_eq!(refused(json!([])).1, "json: cannot unmarshal array into Go value of type map[string]interface {}");
}
