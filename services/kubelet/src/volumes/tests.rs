use super::*;
use async_trait::async_trait;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec, TokenRequestStatus};
use k8s_openapi::api::core::v1::{ConfigMap, EmptyDirVolumeSource, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
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
        let root = VolumeRoot::open(self.dir.path()).unwrap();
        root.set_up(&pod(volumes), &Surroundings::default(), &self.fake, Some(&mut self.tokens)).await
    }
}

impl Drop for World {
    fn drop(&mut self) {
        VolumeRoot::open(self.dir.path()).unwrap().tear_down("u").unwrap();
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
    let standing =
        VolumeRoot::open(world.dir.path()).unwrap().set_up(&pod, &Surroundings::default(), &world.fake, None).await;
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
    let (pod, root) = (pod(volumes.clone()), VolumeRoot::open(world.dir.path()).unwrap());
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

#[tokio::test]
async fn a_sub_path_of_a_config_map_is_mounted() {
    let mut world = World::new();
    world.fake.put("m", serde_json::json!({"a": "1", "b": "2"}));
    let volumes = serde_json::json!([{"name": "v", "configMap": {"name": "m", "items":
        [{"key": "a", "path": "a"}, {"key": "b", "path": "deep/b"}]}}]);
    let mut pod = pod(volumes.clone());
    let mount = |path: &str| serde_json::json!({"name": "v", "mountPath": format!("/{path}"), "subPath": path});
    pod.spec.as_mut().unwrap().containers[0].volume_mounts =
        Some(["a", "deep", "deep/b"].into_iter().map(|path| serde_json::from_value(mount(path)).unwrap()).collect());
    let root = VolumeRoot::open(world.dir.path()).unwrap();
    let mut seen = async || {
        let standing = world.set_up(volumes.clone()).await.unwrap();
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let mounts = root.mounts(&pod, container, &standing, &BTreeMap::new()).unwrap();
        let read = |n: usize, file: &str| std::fs::read_to_string(format!("{}{file}", mounts[n].host_path)).unwrap();
        let seen = [read(0, ""), read(1, "/b"), read(2, "")];
        world.fake.put("m", serde_json::json!({"a": "3", "b": "4"}));
        seen
    };
    assert_eq!(seen().await, ["1", "2", "2"]);
    assert_eq!(seen().await, ["3", "4", "4"], "at the container's next start");
}

#[tokio::test]
async fn what_failed_half_way_is_finished_by_the_next_try() {
    let mut world = World::new();
    let volumes = serde_json::json!([{"name": "d", "emptyDir": {}}, {"name": "m", "emptyDir": {"medium": "Memory"}}]);
    let mut pod = pod(volumes);
    let root = VolumeRoot::open(world.dir.path()).unwrap();
    let around = Surroundings::default();
    for group in [-1, 4711] {
        pod.spec.as_mut().unwrap().security_context =
            Some(serde_json::from_value(serde_json::json!({"fsGroup": group})).unwrap());
        let outcome = root.set_up(&pod, &around, &world.fake, Some(&mut world.tokens)).await;
        let Ok(standing) = outcome else { continue };
        for name in ["d", "m"] {
            let meta = std::fs::metadata(&standing[name].path).unwrap();
            assert_eq!((meta.mode() & 0o7777, meta.gid()), (0o2777, 4711), "{name}");
        }
        return;
    }
    panic!("it never stood");
}

#[test]
fn an_empty_dir_is_open_from_its_first_moment() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let (dir, done) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
    let path = dir.path().join("v");
    let (pod, source, around) = (Pod::default(), EmptyDirVolumeSource::default(), Surroundings::default());
    let seen = std::thread::scope(|scope| {
        let seen = scope.spawn(|| {
            let mut modes = std::collections::BTreeSet::new();
            while !done.load(Ordering::Relaxed) {
                modes.extend(std::fs::metadata(&path).map(|meta| meta.mode() & 0o7777));
            }
            modes
        });
        for _ in 0..500 {
            empty_dir::set_up(&path, &pod, &source, &around).unwrap();
            std::fs::remove_dir(&path).unwrap();
        }
        done.store(true, Ordering::Relaxed);
        seen.join().unwrap()
    });
    assert_eq!(seen, [0o777].into());
}

#[tokio::test]
async fn memory_is_not_more_than_the_pod_may_use() {
    let mut world = World::new();
    let sized = |limit: serde_json::Value| serde_json::json!([{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": limit}}]);
    let around = Surroundings { node_memory: 64 << 20, ..Surroundings::default() };
    for (asked, of_pod, has) in [
        (serde_json::Value::Null, None, 64),
        (serde_json::Value::Null, Some("32Mi"), 32),
        ("8Mi".into(), Some("32Mi"), 8),
        ("512Mi".into(), None, 64),
    ] {
        let mut pod = pod(sized(asked));
        if let Some(memory) = of_pod {
            pod.spec.as_mut().unwrap().containers[0].resources =
                Some(serde_json::from_value(serde_json::json!({"limits": {"memory": memory}})).unwrap());
        }
        let root = VolumeRoot::open(world.dir.path()).unwrap();
        let standing = root.set_up(&pod, &around, &world.fake, Some(&mut world.tokens)).await.unwrap();
        let stat = nix::sys::statvfs::statvfs(&standing["v"].path).unwrap();
        assert_eq!(stat.blocks() * stat.fragment_size(), has << 20);
        root.tear_down("u").unwrap();
    }
}
