//! Who may use an image that is on the node: what was pulled with a Secret is for Pods that have it. Which Secrets an
//! image was pulled with is written down below the root folder, in upstream's files (`image_manager/pulled` and, for pulls
//! that have begun, `image_manager/pulling`), so that neither a restart nor a change of the kubelet forgets it.
//!
//! A pull is written down before it begins: an image whose pull was cut off is nobody's until somebody pulls it again.

use super::keyring::{Credential, without_tag};
use crate::error::{Error, Result};
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use trireme_proto::runtime::v1 as pb;

const VERSION: &str = "kubelet.config.k8s.io/v1beta1";
/// An image remembers no more Secrets than this beyond those it was pulled with.
const MANY: usize = 100;

/// Which images a Pod must prove that it may have (`imagePullCredentialsVerificationPolicy`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Verification {
    /// None.
    Never,
    /// Those that a kubelet pulled.
    #[default]
    NotPreloaded,
    /// All but these: repositories, or beginnings of their names that end in `/`.
    NotListed(Vec<String>),
    /// All.
    Always,
}

impl Verification {
    /// Of upstream's names; `list` is `preloadedImagesVerificationAllowlist`.
    pub fn of(name: &str, list: &[String]) -> Result<Self> {
        match name {
            "NeverVerify" => Ok(Self::Never),
            "" | "NeverVerifyPreloadedImages" => Ok(Self::NotPreloaded),
            "AlwaysVerify" => Ok(Self::Always),
            "NeverVerifyAllowlistedImages" => {
                list.iter().map(|pattern| listed(pattern)).collect::<Result<_>>().map(Self::NotListed)
            }
            other => Err(Error::Config(format!("imagePullCredentialsVerificationPolicy: \"{other}\" is not known"))),
        }
    }

    fn is_wanted(&self, image: &str, pulled_by_kubelet: bool) -> bool {
        let name = without_tag(image);
        let fits = |pattern: &String| name == pattern || (pattern.ends_with('/') && name.starts_with(pattern.as_str()));
        match self {
            Self::Never => false,
            Self::NotPreloaded => pulled_by_kubelet,
            Self::NotListed(list) => !list.iter().any(fits),
            Self::Always => true,
        }
    }
}

fn listed(pattern: &str) -> Result<String> {
    let name = pattern.strip_suffix("/*").map_or_else(|| pattern.to_owned(), |start| format!("{start}/"));
    if name.trim() != name || name.contains('*') || matches!(name.as_str(), "" | "/") || without_tag(&name) != name {
        return Err(Error::Config(format!(
            "preloadedImagesVerificationAllowlist: \"{pattern}\" is no repository, nor one that ends in /*"
        )));
    }
    Ok(name)
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Intent {
    kind: String,
    api_version: String,
    image: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    kind: String,
    api_version: String,
    last_updated_time: String,
    image_ref: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    credential_mapping: BTreeMap<String, Keys>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Keys {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kubernetes_secrets: Vec<Key>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kubernetes_service_accounts: Vec<serde_json::Value>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    node_pods_accessible: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Key {
    uid: String,
    namespace: String,
    name: String,
    credential_hash: String,
}

impl Key {
    fn of(credential: &Credential) -> Self {
        let (namespace, name, uid) = credential.secret.clone();
        Self { uid, namespace, name, credential_hash: credential.hash() }
    }

    fn is_same_secret(&self, other: &Self) -> bool {
        (&self.namespace, &self.name, &self.uid) == (&other.namespace, &other.name, &other.uid)
    }
}

/// The records. All are read and written under one lock: they are small, and pulls few.
#[derive(Debug)]
pub struct Records {
    pulling: PathBuf,
    pulled: PathBuf,
    verification: Verification,
    /// Pulls that run, by image.
    running: Mutex<HashMap<String, usize>>,
}

impl Records {
    /// Those below a root folder.
    pub fn open(root: &Path, verification: Verification) -> Result<Self> {
        let [pulling, pulled] = ["pulling", "pulled"].map(|name| root.join("image_manager").join(name));
        for dir in [&pulling, &pulled] {
            let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
            made.map_err(|error| Error::io("create", dir, error))?;
        }
        Ok(Self { pulling, pulled, verification, running: Mutex::default() })
    }

    /// Pulls that a kubelet before this one began: what became of them, belongs to nobody yet. Records of images that are
    /// gone go too.
    pub fn adopt(&self, images: &[pb::Image]) {
        let _lock = self.running.lock();
        let begun: Vec<Intent> = all(&self.pulling);
        let names = |image: &pb::Image| -> HashSet<String> {
            image.repo_tags.iter().chain(&image.repo_digests).cloned().collect()
        };
        for intent in &begun {
            // Upstream compares as written; `busybox` is told by the runtime as docker.io/library/busybox:latest.
            let full = with_tag(&intent.image);
            let came = images.iter().find(|image| names(image).contains(&full) || names(image).contains(&intent.image));
            let kept = came.map_or(Ok(()), |image| self.note(&intent.image, &image.id, None));
            let outcome = kept.and_then(|()| remove(&self.pulling, &intent.image));
            report(outcome, &intent.image);
        }
        let present: HashSet<&str> = images.iter().map(|image| image.id.as_str()).collect();
        for record in all::<Record>(&self.pulled) {
            if !present.contains(record.image_ref.as_str()) {
                report(remove(&self.pulled, &record.image_ref), &record.image_ref);
            }
        }
    }

    /// A pull of an image (as the Pod names it) is about to begin.
    pub fn intend(&self, image: &str) -> Result<()> {
        let mut running = self.running.lock();
        let intent = Intent { kind: "ImagePullIntent".into(), api_version: VERSION.into(), image: image.to_owned() };
        write(&self.pulling, image, &intent)?;
        *running.entry(image.to_owned()).or_default() += 1;
        Ok(())
    }

    /// It succeeded: with this credential, or without any, in which case everybody may have it.
    pub fn pulled(&self, image: &str, image_ref: &str, with: Option<&Credential>) {
        let mut running = self.running.lock();
        let keys = match with {
            Some(credential) => Keys { kubernetes_secrets: vec![Key::of(credential)], ..Keys::default() },
            None => Keys { node_pods_accessible: true, ..Keys::default() },
        };
        match self.note(image, image_ref, Some(keys)) {
            Ok(()) => self.over(&mut running, image),
            // What was begun stays written down, so that the image counts as pulled by a kubelet.
            Err(error) => tracing::error!(%error, image, "who pulled an image was not written down"),
        }
    }

    /// It failed.
    pub fn failed(&self, image: &str) {
        self.over(&mut self.running.lock(), image);
    }

    fn over(&self, running: &mut HashMap<String, usize>, image: &str) {
        match running.get_mut(image) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                running.remove(image);
                report(remove(&self.pulling, image), image);
            }
        }
    }

    /// Must a Pod with these credentials pull an image that is here? What can't be read must be pulled.
    pub fn must_pull(&self, image: &str, image_ref: &str, has: impl FnOnce() -> Vec<Credential>) -> bool {
        let _lock = self.running.lock();
        let (record, begun) = match (read::<Record>(&self.pulled, image_ref), read::<Intent>(&self.pulling, image)) {
            (Ok(record), Ok(intent)) => {
                (record.filter(|r| r.image_ref == image_ref), intent.is_some_and(|intent| intent.image == image))
            }
            (Err(error), _) | (_, Err(error)) => {
                tracing::warn!(%error, image, "who pulled an image can't be read");
                return true;
            }
        };
        if !self.verification.is_wanted(image, record.is_some() || begun) {
            return false;
        }
        let Some(known) = record.and_then(|record| record.credential_mapping.get(without_tag(image)).cloned()) else {
            return true;
        };
        if known.node_pods_accessible {
            return false;
        }
        let secrets = &known.kubernetes_secrets;
        if secrets.is_empty() {
            return true;
        }
        for key in has().iter().map(Key::of) {
            let by_hash = secrets.iter().any(|known| known.credential_hash == key.credential_hash);
            let same = secrets.iter().find(|known| known.is_same_secret(&key));
            if !by_hash && same.is_none() {
                continue;
            }
            // The same credential in another Secret, or a Secret whose content is new, counts from now on.
            if same.is_none_or(|known| known.credential_hash != key.credential_hash) && secrets.len() < MANY {
                let keys = Keys { kubernetes_secrets: vec![key], ..Keys::default() };
                report(self.note(image, image_ref, Some(keys)), image);
            }
            return false;
        }
        true
    }

    fn note(&self, image: &str, image_ref: &str, keys: Option<Keys>) -> Result<()> {
        let known = read::<Record>(&self.pulled, image_ref).unwrap_or_default();
        let mut record = known.clone().unwrap_or_else(|| Record {
            kind: "ImagePulledRecord".into(),
            api_version: VERSION.into(),
            last_updated_time: String::new(),
            image_ref: image_ref.to_owned(),
            credential_mapping: BTreeMap::new(),
        });
        if let Some(keys) = keys {
            merge(record.credential_mapping.entry(without_tag(image).to_owned()).or_default(), keys);
        }
        if known.as_ref() == Some(&record) {
            return Ok(());
        }
        let now = Timestamp::now();
        record.last_updated_time = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
        write(&self.pulled, image_ref, &record)
    }
}

fn merge(known: &mut Keys, new: Keys) {
    if known.node_pods_accessible {
        return;
    }
    if new.node_pods_accessible {
        *known = new;
        return;
    }
    for key in new.kubernetes_secrets {
        known.kubernetes_secrets.retain(|other| !other.is_same_secret(&key));
        known.kubernetes_secrets.push(key);
    }
    let order = |key: &Key| (key.namespace.clone(), key.name.clone(), key.uid.clone());
    known.kubernetes_secrets.sort_by_key(order);
}

fn with_tag(image: &str) -> String {
    let full = super::keyring::repository(image);
    format!("{full}{}", image.strip_prefix(without_tag(image)).filter(|tag| !tag.is_empty()).unwrap_or(":latest"))
}

fn file(dir: &Path, name: &str) -> PathBuf {
    let hash: String = Sha256::digest(name.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    dir.join(format!("sha256-{hash}"))
}

fn read<T: DeserializeOwned>(dir: &Path, name: &str) -> Result<Option<T>> {
    read_at(&file(dir, name))
}

fn read_at<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| Error::io("read", path, std::io::Error::new(ErrorKind::InvalidData, error))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", path, error)),
    }
}

fn all<T: DeserializeOwned>(dir: &Path) -> Vec<T> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_ours = |path: &PathBuf| {
        path.extension().is_none() && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("sha256-"))
    };
    entries
        .filter(is_ours)
        .filter_map(|path| read_at(&path).inspect_err(|error| tracing::warn!(%error, "a record of a pull")).ok()?)
        .collect()
}

/// A reader sees the old content or the new one; nobody but root reads either.
fn write(dir: &Path, name: &str, value: &impl Serialize) -> Result<()> {
    let path = file(dir, name);
    let new = path.with_extension("tmp");
    let put = || -> std::io::Result<()> {
        let bytes = serde_json::to_vec(value)?;
        let mut file = std::fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&new)?;
        std::io::Write::write_all(&mut file, &bytes)?;
        file.sync_all()?;
        std::fs::rename(&new, &path)
    };
    put().map_err(|error| Error::io("write", &path, error))
}

fn remove(dir: &Path, name: &str) -> Result<()> {
    let path = file(dir, name);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("remove", &path, error)),
        _ => Ok(()),
    }
}

fn report(outcome: Result<()>, image: &str) {
    if let Err(error) = outcome {
        tracing::error!(%error, image, "a record of a pull was not kept");
    }
}

#[cfg(test)]
mod tests {
    use super::super::keyring::{Keyring, tests::secret};
    use super::*;

    const IMAGE: &str = "r.example/private:1";
    const REF: &str = "sha256:0123";

    fn credential(namespace: &str, password: &str) -> Credential {
        let auths = serde_json::json!({"r.example": {"username": "u", "password": password}});
        let mut keyring = Keyring::default();
        keyring.add(&secret(namespace, &auths)).unwrap();
        keyring.lookup("r.example/private").remove(0)
    }

    fn records(dir: &Path, policy: &str) -> Records {
        Records::open(dir, Verification::of(policy, &["r.example/*".to_owned()]).unwrap()).unwrap()
    }

    #[test]
    fn what_one_pulled_with_a_secret_is_not_for_another() {
        let dir = tempfile::tempdir().unwrap();
        let ours = records(dir.path(), "");
        assert!(!ours.must_pull(IMAGE, REF, Vec::new), "preloaded");
        ours.intend(IMAGE).unwrap();
        assert!(ours.must_pull(IMAGE, REF, Vec::new), "being pulled");
        ours.pulled(IMAGE, REF, Some(&credential("a", "p")));
        for records in [&ours, &records(dir.path(), "")] {
            assert!(records.must_pull(IMAGE, REF, Vec::new), "without a secret");
            assert!(records.must_pull(IMAGE, REF, || vec![credential("b", "guessed")]));
            assert!(!records.must_pull(IMAGE, REF, || vec![credential("a", "p")]));
            assert!(records.must_pull("other.example/name:1", REF, || vec![credential("a", "p")]), "by another name");
        }
        assert!(!ours.must_pull(IMAGE, REF, || vec![credential("a", "new")]), "the same Secret with new content");
        assert!(!ours.must_pull(IMAGE, REF, || vec![credential("b", "new")]), "the same content in another Secret");
        assert!(!records(dir.path(), "NeverVerify").must_pull(IMAGE, REF, Vec::new));
        assert!(!records(dir.path(), "NeverVerifyAllowlistedImages").must_pull(IMAGE, REF, Vec::new));
        assert!(records(dir.path(), "AlwaysVerify").must_pull("x", "sha256:9", Vec::new));
    }

    #[test]
    fn what_is_pulled_without_a_secret_is_for_all() {
        let dir = tempfile::tempdir().unwrap();
        let ours = records(dir.path(), "");
        ours.pulled(IMAGE, REF, Some(&credential("a", "p")));
        ours.intend(IMAGE).unwrap();
        ours.pulled(IMAGE, REF, None);
        assert!(!ours.must_pull(IMAGE, REF, Vec::new));
    }

    #[test]
    fn a_pull_that_was_cut_off_belongs_to_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let before = records(dir.path(), "");
        before.intend(IMAGE).unwrap();
        before.pulled("gone:1", "sha256:9", None);
        let after = records(dir.path(), "");
        after.adopt(&[pb::Image { id: REF.into(), repo_tags: vec![IMAGE.into()], ..Default::default() }]);
        assert!(after.must_pull(IMAGE, REF, || vec![credential("a", "p")]));
        assert_eq!(std::fs::read_dir(&after.pulling).unwrap().count(), 0);
        assert_eq!(std::fs::read_dir(&after.pulled).unwrap().count(), 1, "that of an image that is gone went");
        after.intend("failed:1").unwrap();
        after.failed("failed:1");
        assert_eq!(std::fs::read_dir(&after.pulling).unwrap().count(), 0);
    }

    #[test]
    fn the_files_are_upstreams() {
        let dir = tempfile::tempdir().unwrap();
        records(dir.path(), "").pulled(IMAGE, REF, Some(&credential("a", "p")));
        // Name: sha256 of the reference, as upstream's cacheFilename.
        let entry = std::fs::read_dir(dir.path().join("image_manager/pulled")).unwrap().next().unwrap().unwrap();
        assert_eq!(
            entry.file_name().to_string_lossy(),
            "sha256-e88869a38f28b0cae0822c86d31346990e58b58e2f118b87c002b3ab4f842a71"
        );
        let value: serde_json::Value = serde_json::from_slice(&std::fs::read(entry.path()).unwrap()).unwrap();
        assert_eq!((&value["kind"], &value["imageRef"]), (&"ImagePulledRecord".into(), &REF.into()));
        let kept = &value["credentialMapping"]["r.example/private"]["kubernetesSecrets"][0];
        assert_eq!(kept["namespace"], "a");
        // sha256 of {"username":"u","password":"p"}.
        assert_eq!(kept["credentialHash"], HASH);
    }

    const HASH: &str = "edbd57ca9372e64eb1c9070ecf3a049ac553596b0529acf034c7a71d4e618e88";

    #[test]
    fn policies() {
        assert!(Verification::of("Other", &[]).is_err());
        for bad in ["", "*", "/*", "a*b/*", "a:1", " a"] {
            assert!(Verification::of("NeverVerifyAllowlistedImages", &[bad.to_owned()]).is_err(), "{bad}");
        }
    }
}
