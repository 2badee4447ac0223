//! Credentials of registries: what Secrets hold, and which of it is for an image. A credential goes to nobody else than
//! the registry it is for, so names are matched part by part, as upstream's keyring does.

use base64::Engine as _;
use k8s_openapi::api::core::v1::Secret;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use trireme_proto::runtime::v1 as pb;

/// The key under which a default registry's credentials are kept.
const DEFAULT_HOST: &str = "index.docker.io";

/// One user of a registry, and the Secret that told it.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    user: String,
    password: String,
    email: String,
    /// namespace, name and uid of the Secret.
    pub(super) secret: (String, String, String),
}

/// An entry of a Docker configuration.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    username: String,
    password: String,
    email: String,
    auth: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DockerConfig {
    auths: BTreeMap<String, Entry>,
}

/// Credentials by the registry (and the beginning of the path in it) that they are for.
#[derive(Default)]
pub struct Keyring(BTreeMap<String, Vec<Credential>>);

impl Credential {
    /// As the runtime takes it. No address goes along: the runtime would compare it with the registry's by its own rules.
    pub fn auth(&self) -> pb::AuthConfig {
        pb::AuthConfig { username: self.user.clone(), password: self.password.clone(), ..Default::default() }
    }

    /// What is written down of it, as upstream makes it: of the JSON of what is not empty.
    pub fn hash(&self) -> String {
        let fields = [("username", &self.user), ("password", &self.password), ("email", &self.email)];
        let present = fields.into_iter().filter(|(_, value)| !value.is_empty());
        let written: Vec<String> =
            present.map(|(key, value)| format!("\"{key}\":{}", serde_json::Value::from(value.as_str()))).collect();
        let json = format!("{{{}}}", written.join(","));
        // Go's encoder escapes what could end a script in a web page.
        let json = json.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e");
        Sha256::digest(json.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Keyring {
    /// Takes over what a Secret holds; says so if it can't be read.
    pub fn add(&mut self, secret: &Secret) -> Result<(), String> {
        let data = |key: &str| secret.data.as_ref()?.get(key).map(|bytes| bytes.0.as_slice()).filter(|d| !d.is_empty());
        let entries = match secret.type_.as_deref() {
            Some("kubernetes.io/dockerconfigjson") => data(".dockerconfigjson")
                .map(|bytes| serde_json::from_slice::<DockerConfig>(bytes).map(|config| config.auths)),
            Some("kubernetes.io/dockercfg") => data(".dockercfg").map(serde_json::from_slice),
            _ => None,
        };
        let entries = entries.transpose().map_err(|error| error.to_string())?.unwrap_or_default();
        let metadata = &secret.metadata;
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        let source = (text(&metadata.namespace), text(&metadata.name), text(&metadata.uid));
        for (server, entry) in entries {
            let credential = entry.credential(source.clone())?;
            if let Some(key) = key(&server) {
                self.0.entry(key).or_default().push(credential);
            }
        }
        Ok(())
    }

    /// The credentials for a repository (with its registry, see [`repository`]); longer paths first.
    pub fn lookup(&self, repository: &str) -> Vec<Credential> {
        let fits = self.0.iter().rev().filter(|(key, _)| matches(key, repository));
        let found: Vec<Credential> = fits.flat_map(|(_, credentials)| credentials.clone()).collect();
        if found.is_empty() && repository.starts_with("docker.io/") {
            return self.0.get(DEFAULT_HOST).cloned().unwrap_or_default();
        }
        found
    }
}

impl Entry {
    fn credential(self, secret: (String, String, String)) -> Result<Credential, String> {
        let (mut user, mut password) = (self.username, self.password);
        if !self.auth.is_empty() {
            let wrong = || "an auth that is not user:password in base64".to_owned();
            let engine = if self.auth.trim().ends_with('=') {
                base64::engine::general_purpose::STANDARD
            } else {
                base64::engine::general_purpose::STANDARD_NO_PAD
            };
            let raw = engine.decode(self.auth.trim()).map_err(|_| wrong())?;
            let text = String::from_utf8(raw).map_err(|_| wrong())?;
            let (name, secret) = text.split_once(':').ok_or_else(wrong)?;
            (user, password) = (name.to_owned(), secret.to_owned());
        }
        Ok(Credential { user, password, email: self.email, secret })
    }
}

/// The key of a server as a configuration names it: host, port and path.
fn key(server: &str) -> Option<String> {
    let bare = server.strip_prefix("https://").or_else(|| server.strip_prefix("http://")).unwrap_or(server);
    let bare = bare.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = bare.split_at(bare.find('/').unwrap_or(bare.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    if host.is_empty() || host.contains(char::is_whitespace) {
        return None;
    }
    // To Docker these are the host itself.
    let path = match path.strip_prefix("/v1/").or_else(|| path.strip_prefix("/v2/")) {
        Some(rest) => format!("/{rest}"),
        None => path.to_owned(),
    };
    Some(if path == "/" { host.to_owned() } else { format!("{host}{path}") })
}

/// Host by its parts, port, path.
fn split(url: &str) -> (Vec<&str>, &str, &str) {
    let (authority, path) = url.split_at(url.find('/').unwrap_or(url.len()));
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if host.starts_with('[') && host.ends_with(']') => (&host[1..host.len() - 1], port),
        Some((host, port)) if !host.contains([':', '[', ']']) => (host, port),
        _ => (authority, ""),
    };
    (host.split('.').collect(), port, path)
}

/// Is a key for this repository? Wildcards stand for (parts of) one part of a host's name, never for several.
fn matches(key: &str, repository: &str) -> bool {
    let ((parts, port, path), (wanted, wanted_port, wanted_path)) = (split(key), split(repository));
    port == wanted_port
        && parts.len() == wanted.len()
        && wanted_path.starts_with(path)
        && parts.iter().zip(wanted).all(|(part, wanted)| fits(part, wanted))
}

/// Go's filepath.Match without classes of characters, which no host's name has.
fn fits(pattern: &str, text: &str) -> bool {
    let mut pattern_rest = pattern.chars();
    match pattern_rest.next() {
        None => text.is_empty(),
        Some('*') => {
            let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            ends.into_iter().any(|at| fits(pattern_rest.as_str(), &text[at..]))
        }
        Some(wanted) => {
            let mut rest = text.chars();
            rest.next().is_some_and(|c| wanted == '?' || wanted == c) && fits(pattern_rest.as_str(), rest.as_str())
        }
    }
}

/// The repository of an image with its registry: `busybox:1` is `docker.io/library/busybox`.
pub fn repository(image: &str) -> String {
    let name = without_tag(image);
    let (domain, path) = match name.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" || first.to_lowercase() != first => {
            (first, rest)
        }
        _ => ("docker.io", name),
    };
    match domain {
        "docker.io" | DEFAULT_HOST if !path.contains('/') => format!("docker.io/library/{path}"),
        "docker.io" | DEFAULT_HOST => format!("docker.io/{path}"),
        _ => format!("{domain}/{path}"),
    }
}

/// An image's name without its tag and digest.
pub fn without_tag(image: &str) -> &str {
    let name = image.split_once('@').map_or(image, |(name, _)| name);
    match name.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => name,
    }
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credential").field("secret", &self.secret).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::pod) fn secret(namespace: &str, auths: &serde_json::Value) -> Secret {
        let config = serde_json::json!({"auths": auths}).to_string();
        serde_json::from_value(serde_json::json!({
            "metadata": {"namespace": namespace, "name": "pull", "uid": format!("uid-{namespace}")},
            "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": base64::engine::general_purpose::STANDARD.encode(config)},
        }))
        .unwrap()
    }

    fn users(auths: &serde_json::Value, image: &str) -> Vec<String> {
        let mut keyring = Keyring::default();
        keyring.add(&secret("n", auths)).unwrap();
        keyring.lookup(&repository(image)).into_iter().map(|credential| credential.user).collect()
    }

    #[test]
    fn the_credential_that_fits() {
        let auths = serde_json::json!({
            "https://index.docker.io/v1/": {"auth": "aHViOnB3"},
            "r.example:5000": {"username": "u", "password": "p"},
            "r.example:5000/team": {"username": "team", "password": "p"},
            "*.wild.example": {"username": "w", "password": "p"},
        });
        assert_eq!(users(&auths, "busybox"), ["hub"]);
        assert_eq!(users(&auths, "docker.io/a/b:1"), ["hub"]);
        assert_eq!(users(&auths, "r.example:5000/x"), ["u"]);
        assert_eq!(users(&auths, "r.example:5000/team/x@sha256:00"), ["team", "u"], "the longer path first");
        assert_eq!(users(&auths, "a.wild.example/x"), ["w"]);
        for stranger in [
            "other.example/x",
            "r.example/x",
            "evilwild.example/x",
            "a.b.wild.example/x",
            "wild.example/x",
            "a.wild.example:1/x",
        ] {
            assert!(users(&auths, stranger).is_empty(), "{stranger}");
        }
    }

    // Expected: TestUrlsMatch of upstream's credentialprovider/keyring_test.go.
    #[test]
    fn names_are_matched_part_by_part() {
        for (glob, url, fit) in [
            ("*.kubernetes.io", "prefix.kubernetes.io", true),
            ("prefix.*.io", "prefix.kubernetes.io", true),
            ("prefix.kubernetes.*", "prefix.kubernetes.io", true),
            ("*-good.kubernetes.io", "prefix-good.kubernetes.io", true),
            ("prefix*.kubernetes.io", "kubernetes.io", false),
            ("*.*.kubernetes.io", "prefix.kubernetes.io", false),
            ("*kubernetes.io", "a.kubernetes.io", false),
            ("*.io", "kubernetes.com", false),
            ("a.b/c", "a.b/c/d", true),
            ("a.b/c", "a.b/d", false),
            ("a.b:80", "a.b:80/x", true),
            ("a.b:80", "a.b:81/x", false),
        ] {
            assert_eq!(matches(glob, url), fit, "{glob} {url}");
        }
    }

    #[test]
    fn the_runtime_decides_by_nothing_but_user_and_password() {
        let mut keyring = Keyring::default();
        keyring.add(&secret("n", &serde_json::json!({"r.example:5000": {"auth": "dTpwOnE="}}))).unwrap();
        let auth = keyring.lookup("r.example:5000/x").remove(0).auth();
        assert_eq!((auth.username.as_str(), auth.password.as_str(), auth.server_address.as_str()), ("u", "p:q", ""));
        assert!(keyring.add(&secret("n", &serde_json::json!({"r.example": {"auth": "%"}}))).is_err());
    }

    #[test]
    fn repositories() {
        for (image, full) in [
            ("busybox", "docker.io/library/busybox"),
            ("index.docker.io/a/b:1", "docker.io/a/b"),
            ("localhost:5000/a@sha256:0", "localhost:5000/a"),
            ("localhost/a:1@sha256:0", "localhost/a"),
        ] {
            assert_eq!(repository(image), full);
        }
    }
}
