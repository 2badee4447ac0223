//! Volumes that no longer work, and files of a volume that lie in each other's way.

use trireme_machinery::go;

use super::say;
use crate::check::Node;

/// Kinds of volumes on their way out.
const OLD: [(&str, &str); 9] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// Warns of old kinds of volumes.
pub(super) fn kinds(spec: &Node<'_>, warnings: &mut Vec<String>) {
    for volume in spec.list("volumes") {
        for (key, why) in OLD.iter().filter(|(key, _)| volume.has(key)) {
            // Upstream names one by its Go field.
            let key = if *key == "storageos" { "storageOS" } else { key };
            say(warnings, &volume.path.child(key), why);
        }
    }
}

/// Where a file goes, and what it comes from where that is said.
#[derive(Clone)]
struct File {
    path: String,
    source: String,
}

impl File {
    fn new(path: &str, source: &str) -> Self {
        Self { path: path.trim_end_matches('/').to_owned(), source: source.to_owned() }
    }

    fn shown(&self) -> String {
        let path = go::quote(&self.path);
        if self.source.is_empty() { path } else { format!("{path} ({})", self.source) }
    }

    /// Whether one is the other, or lies in it.
    fn overlaps(&self, other: &Self) -> bool {
        let inside = |outer: &str, inner: &str| format!("{inner}/").starts_with(&format!("{outer}/"));
        !self.path.is_empty()
            && !other.path.is_empty()
            && (inside(&self.path, &other.path) || inside(&other.path, &self.path))
    }
}

/// Warns of files that overlap.
pub(super) fn overlaps(spec: &Node<'_>, warnings: &mut Vec<String>) {
    for volume in spec.list("volumes") {
        let name = go::quote(volume.str("name"));
        let mut told = |what: &str, files: &[File]| {
            for (i, file) in files.iter().enumerate() {
                for other in files[..i].iter().filter(|other| file.overlaps(other)) {
                    let (file, other) = (file.shown(), other.shown());
                    warnings.push(format!("volume {name} ({what}): overlapping paths: {file} with {other}"));
                }
            }
        };
        let map = volume.get("configMap");
        told(&format!("ConfigMap {}", go::quote(map.str("name"))), &items(&map, ""));
        let secret = volume.get("secret");
        told(&format!("Secret {}", go::quote(secret.str("secretName"))), &items(&secret, ""));
        told("DownwardAPI", &items(&volume.get("downwardAPI"), ""));
        let sources = volume.get("projected").list("sources");
        let files: Vec<File> = sources.iter().flat_map(projected).collect();
        told("Projected", &files);
        for _ in sources.iter().filter(|source| source.value.as_object().is_none_or(serde_json::Map::is_empty)) {
            warnings.push(format!("volume {name} (Projected) has no sources provided"));
        }
    }
}

fn items(from: &Node<'_>, source: &str) -> Vec<File> {
    from.list("items").iter().map(|item| File::new(item.str("path"), source)).collect()
}

/// The files of one source of a projected volume.
fn projected(source: &Node<'_>) -> Vec<File> {
    if let Some(map) = source.given("configMap").filter(|map| map.has("items")) {
        return items(&map, &format!("ConfigMap {}", go::quote(map.str("name"))));
    }
    if let Some(secret) = source.given("secret").filter(|secret| secret.has("items")) {
        return items(&secret, &format!("Secret {}", go::quote(secret.str("name"))));
    }
    if let Some(api) = source.given("downwardAPI").filter(|api| api.has("items")) {
        return items(&api, "DownwardAPI");
    }
    if let Some(token) = source.given("serviceAccountToken") {
        return vec![File::new(token.str("path"), "ServiceAccountToken")];
    }
    if let Some(bundle) = source.given("clusterTrustBundle") {
        let name = bundle.given("name").map_or(bundle.str("signerName"), |name| name.text());
        return vec![File::new(bundle.str("path"), &format!("ClusterTrustBundle {}", go::quote(name)))];
    }
    let certificate = source.get("podCertificate");
    let parts = [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ];
    let given = parts.iter().filter(|(key, _)| !certificate.str(key).is_empty());
    given.map(|(key, what)| File::new(certificate.str(key), what)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_in_the_way_of_another_is_told() {
        let pod = json!({"spec": {"volumes": [
            {"name": "a", "configMap": {"name": "m", "items": [{"path": "x"}, {"path": "x/y"}, {"path": "xy"}]}},
            {"name": "b", "projected": {"sources": [
                {"serviceAccountToken": {"path": "t"}},
                {"secret": {"name": "s", "items": [{"path": "t/"}]}},
                {},
            ]}},
            {"name": "c", "rbd": {}},
        ]}});
        let mut warnings = Vec::new();
        kinds(&Node::of(&pod, "spec"), &mut warnings);
        overlaps(&Node::of(&pod, "spec"), &mut warnings);
        assert_eq!(
            warnings,
            [
                "spec.volumes[2].rbd: deprecated in v1.28, non-functional in v1.31+",
                "volume \"a\" (ConfigMap \"m\"): overlapping paths: \"x/y\" with \"x\"",
                "volume \"b\" (Projected): overlapping paths: \"t\" (Secret \"s\") with \"t\" (ServiceAccountToken)",
                "volume \"b\" (Projected) has no sources provided",
            ]
        );
    }
}
