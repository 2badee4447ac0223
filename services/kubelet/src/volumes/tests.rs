use super::*;
use async_trait::async_trait;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec, TokenRequestStatus};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex};

struct Fake {
    maps: Mutex<BTreeMap<String, ConfigMap>>,
    asked: Mutex<Vec<Option<Vec<String>>>>,
    /// So many tokens are asked for before one is given.
    together: tokio::sync::Barrier,
}

impl Default for Fake {
    fn default() -> Self {
        Self { maps: Mutex::default(), asked: Mutex::default(), together: tokio::sync::Barrier::new(1) }
    }
}

impl Fake {
    fn put(&self, name: &str, data: serde_json::Value) {
        let map = serde_json::from_value(serde_json::json!({"metadata": {"name": name}, "data": data})).unwrap();
        self.maps.lock().unwrap().insert(name.into(), map);
    }
}

#[async_trait]
impl Objects for Fake {
    async fn config_map(&self, _: &str, name: &str) -> Result<Arc<ConfigMap>> {
        let found = self.maps.lock().unwrap().get(name).cloned().map(Arc::new);
        found.ok_or_else(|| Error::NotFound(format!("configmap \"{name}\" not found")))
    }

    async fn secret(&self, _: &str, name: &str) -> Result<Arc<Secret>> {
        Err(Error::NotFound(format!("secret \"{name}\" not found")))
    }

    async fn token(&self, _: &str, account: &str, spec: TokenRequestSpec) -> Result<TokenRequest> {
        self.asked.lock().unwrap().push(spec.audiences);
        self.together.wait().await;
        let status = TokenRequestStatus {
            token: Some(format!("token-of-{account}")),
            expiration_timestamp: Some(Time(Timestamp::now() + SignedDuration::from_hours(1))),
        };
        Ok(TokenRequest { status: Some(status), ..Default::default() })
    }
}

/// A Pod that mounts all its volumes.
fn pod(volumes: serde_json::Value) -> Pod {
    let named = volumes.as_array().unwrap().iter().map(|volume| volume["name"].as_str().unwrap());
    let mounts: Vec<_> = named.map(|name| serde_json::json!({"name": name, "mountPath": format!("/{name}")})).collect();
    serde_json::from_value(serde_json::json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "volumeMounts": mounts}], "volumes": volumes},
    }))
    .unwrap()
}

struct World {
    dir: tempfile::TempDir,
    fake: Fake,
    tokens: Tokens,
}

impl World {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), fake: Fake::default(), tokens: Tokens::default() }
    }

    async fn set_up(&mut self, volumes: serde_json::Value) -> Result<Volumes> {
        let root = VolumeRoot::new(self.dir.path());
        root.set_up(&pod(volumes), &Surroundings::default(), &self.fake, Some(&mut self.tokens)).await
    }
}

impl Drop for World {
    fn drop(&mut self) {
        VolumeRoot::new(self.dir.path()).tear_down("u").unwrap();
    }
}

#[tokio::test]
async fn a_config_map_changes_all_at_once() {
    let mut world = World::new();
    let volume = serde_json::json!([{"name": "v", "configMap": {"name": "m", "items": [{"key": "a", "path": "x/y", "mode": 0o400}, {"key": "b", "path": "z"}]}}]);
    world.fake.put("m", serde_json::json!({"a": "1", "b": "2"}));
    let path = world.set_up(volume.clone()).await.unwrap()["v"].path.clone();
    assert_eq!(std::fs::read_to_string(path.join("x/y")).unwrap(), "1");
    assert_eq!(std::fs::metadata(path.join("x/y")).unwrap().mode() & 0o777, 0o400);
    let before = std::fs::read_link(path.join("..data")).unwrap();
    world.set_up(volume.clone()).await.unwrap();
    assert_eq!(std::fs::read_link(path.join("..data")).unwrap(), before, "nothing changed, nothing written");
    world.fake.put("m", serde_json::json!({"a": "3", "b": "2"}));
    world.set_up(volume).await.unwrap();
    assert_eq!(std::fs::read_to_string(path.join("x/y")).unwrap(), "3");
    assert!(!path.join(before).exists(), "the old files are gone");
}

#[tokio::test]
async fn what_is_missing_is_said() {
    let mut world = World::new();
    let error = world.set_up(serde_json::json!([{"name": "v", "configMap": {"name": "m"}}])).await.unwrap_err();
    assert_eq!(error.to_string(), "MountVolume.SetUp failed for volume \"v\" : configmap \"m\" not found");
    world.set_up(serde_json::json!([{"name": "v", "configMap": {"name": "m", "optional": true}}])).await.unwrap();
    world.fake.put("m", serde_json::json!({}));
    let keyed = serde_json::json!([{"name": "w", "configMap": {"name": "m", "items": [{"key": "k", "path": "p"}]}}]);
    let error = world.set_up(keyed).await.unwrap_err();
    assert_eq!(error.to_string(), "MountVolume.SetUp failed for volume \"w\" : references non-existent config key: k");
}

#[tokio::test]
async fn a_volume_that_no_container_mounts_is_not_missed() {
    let world = World::new();
    let mut pod = pod(serde_json::json!([{"name": "v", "configMap": {"name": "m"}}]));
    pod.spec.as_mut().unwrap().containers[0].volume_mounts = None;
    let standing = VolumeRoot::new(world.dir.path()).set_up(&pod, &Surroundings::default(), &world.fake, None).await;
    assert_eq!(standing.unwrap(), Volumes::new());
}

#[tokio::test]
async fn no_path_leads_out_of_the_volume() {
    let mut world = World::new();
    world.fake.put("m", serde_json::json!({"a": "1"}));
    for path in ["../x", "/x", "..x", "a/../../x", ""] {
        let volume =
            serde_json::json!([{"name": "v", "configMap": {"name": "m", "items": [{"key": "a", "path": path}]}}]);
        assert!(world.set_up(volume).await.is_err(), "{path}");
    }
}

#[tokio::test]
async fn tokens_and_fields_are_projected_into_memory() {
    let mut world = World::new();
    world.fake.put("kube-root-ca.crt", serde_json::json!({"ca.crt": "CA"}));
    let volume = serde_json::json!([{"name": "kube-api-access", "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]}}]);
    let path = world.set_up(volume).await.unwrap()["kube-api-access"].path.clone();
    let read = |name: &str| std::fs::read_to_string(path.join(name)).unwrap();
    assert_eq!(
        (read("token"), read("ca.crt"), read("namespace")),
        ("token-of-default".into(), "CA".into(), "n".into())
    );
    let stat = nix::sys::statfs::statfs(&path).unwrap();
    assert_eq!(stat.filesystem_type(), nix::sys::statfs::TMPFS_MAGIC);
}

#[tokio::test]
async fn tokens_are_fetched_side_by_side_and_once() {
    let mut world = World::new();
    world.fake.together = tokio::sync::Barrier::new(2);
    let token = |path: &str, audience: &str| serde_json::json!({"serviceAccountToken": {"path": path, "audience": audience, "expirationSeconds": 3607}});
    let volumes = serde_json::json!([
        {"name": "v", "projected": {"sources": [token("a", "one"), token("b", "two")]}},
        {"name": "w", "projected": {"sources": [token("c", "one")]}},
    ]);
    let (pod, root) = (pod(volumes.clone()), VolumeRoot::new(world.dir.path()));
    // Everything but tokens stands first.
    let around = Surroundings::default();
    let standing = root.set_up(&pod, &around, &world.fake, None).await.unwrap();
    assert!(world.fake.asked.lock().unwrap().is_empty() && !standing["v"].path.join("a").exists());
    let fetched = world.tokens.fetch(&pod, &world.fake);
    tokio::time::timeout(std::time::Duration::from_secs(10), fetched).await.expect("one waits for the other");
    let standing = world.set_up(volumes).await.unwrap();
    for (volume, file) in [("v", "a"), ("v", "b"), ("w", "c")] {
        assert_eq!(std::fs::read_to_string(standing[volume].path.join(file)).unwrap(), "token-of-default");
    }
    assert_eq!(world.fake.asked.lock().unwrap().len(), 2, "one for each audience");
}

#[tokio::test]
async fn an_empty_dir_keeps_what_is_in_it() {
    let mut world = World::new();
    let volumes = serde_json::json!([{"name": "d", "emptyDir": {}}, {"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]);
    let standing = world.set_up(volumes.clone()).await.unwrap();
    for name in ["d", "m"] {
        assert_eq!(std::fs::metadata(&standing[name].path).unwrap().mode() & 0o777, 0o777);
        std::fs::write(standing[name].path.join("f"), "kept").unwrap();
    }
    world.set_up(volumes).await.unwrap();
    for name in ["d", "m"] {
        assert_eq!(std::fs::read_to_string(standing[name].path.join("f")).unwrap(), "kept");
    }
}

#[test]
fn a_sub_path_does_not_follow_links() {
    let dir = tempfile::tempdir().unwrap();
    let volume = dir.path().join("volume");
    std::fs::create_dir_all(&volume).unwrap();
    std::os::unix::fs::symlink("/etc", volume.join("out")).unwrap();
    assert!(subpath::prepare(&volume, "out/passwd", &dir.path().join("place/0")).is_err());
    assert!(subpath::prepare(&volume, "../x", &dir.path().join("place/1")).is_err());
    let place = subpath::prepare(&volume, "in/side", &dir.path().join("place/2")).unwrap();
    std::fs::write(volume.join("in/side/f"), "seen").unwrap();
    assert_eq!(std::fs::read_to_string(place.join("f")).unwrap(), "seen");
    tmpfs::unmount_below(dir.path()).unwrap();
}
