//! Every field of every served kind, from protobuf.

use std::path::PathBuf;

use serde_json::Value;
use trireme_kinds::Registry;
use trireme_machinery::codec::protobuf;
use trireme_machinery::schema::decode::Strictness;

#[test]
fn the_recorded_messages_are_the_recorded_objects() {
    let golden = std::env::var("TRIREME_GOLDEN")
        .map_or_else(|_| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/golden"), PathBuf::from);
    let Ok(entries) = std::fs::read_dir(golden.join("protobuf")) else {
        println!("no golden record at {}", golden.display());
        return;
    };
    let (mut checked, mut wrong) = (0, Vec::new());
    for path in entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "pb")) {
        let message = std::fs::read(&path).unwrap();
        let unknown = protobuf::open(&message).unwrap();
        let (group, version) = trireme_machinery::gvk::split_api_version(&unknown.api_version);
        let Some(kind) = Registry::builtin().by_kind(group, version, &unknown.kind) else { continue };
        let decoded = protobuf::decode(&kind.schema, kind.ty, unknown.raw).unwrap();
        let recorded: Value = serde_json::from_slice(&std::fs::read(path.with_extension("json")).unwrap()).unwrap();
        let normal = |value: Value| {
            let mut value = kind.decode(value, Strictness::Ignore).unwrap().0;
            value.as_object_mut().unwrap().retain(|key, _| !matches!(key.as_str(), "kind" | "apiVersion"));
            value
        };
        checked += 1;
        let (ours, theirs) = (normal(decoded), normal(recorded));
        if ours != theirs {
            let keys: Vec<&String> =
                theirs.as_object().unwrap().keys().filter(|key| ours.get(*key) != theirs.get(*key)).collect();
            wrong.push(format!("{}: {keys:?}", unknown.kind));
        }
    }
    assert!(wrong.is_empty() && checked > 50, "{checked} checked, wrong: {wrong:#?}");
}
