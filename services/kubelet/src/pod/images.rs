//! Images: the pull policy, the credentials and the pauses between tries.

use super::backoff::{Backoffs, go_duration};
use super::status::StartFailure;
use crate::api::{Events, Objects};
use crate::cri::Cri;
use crate::error::Error;
use base64::Engine as _;
use k8s_openapi::api::core::v1::{Container, Pod, Secret};
use k8s_openapi::jiff::Timestamp;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use trireme_proto::runtime::v1 as pb;

/// What a Pod's worker remembers of its pulls.
#[derive(Debug, Default)]
pub struct Pulls {
    backoffs: Backoffs,
    last_errors: HashMap<String, String>,
}

/// Fetches images for the whole node, a few at a time.
#[derive(Clone)]
pub struct Puller {
    cri: Cri,
    objects: Arc<dyn Objects>,
    events: Arc<dyn Events>,
    at_once: Arc<Semaphore>,
}

/// A container that can't be started, and when to try again.
#[derive(Debug)]
pub struct Refused {
    /// What the status says.
    pub failure: StartFailure,
    /// When there is a point in trying again.
    pub retry: Duration,
}

fn refused(reason: &str, message: String, retry: Duration) -> Refused {
    Refused { failure: StartFailure { reason: reason.into(), message }, retry }
}

const RETRY: Duration = Duration::from_secs(10);

impl Puller {
    /// At most `at_once` pulls run side by side.
    pub fn new(cri: Cri, objects: Arc<dyn Objects>, events: Arc<dyn Events>, at_once: usize) -> Self {
        Self { cri, objects, events, at_once: Arc::new(Semaphore::new(at_once.max(1))) }
    }

    /// Makes sure that the image of a container is there, as its policy wants it.
    pub async fn ensure(
        &self,
        pod: &Pod,
        container: &Container,
        sandbox: &pb::PodSandboxConfig,
        pulls: &mut Pulls,
    ) -> Result<pb::Image, Refused> {
        let asked = container.image.as_deref().unwrap_or_default();
        let event =
            |warning, reason, message: String| self.events.pod(pod, Some(&container.name), warning, reason, message);
        let image = match with_default_tag(asked) {
            Ok(image) => image,
            Err(error) => {
                let message = format!("Failed to apply default image tag \"{asked}\": {error}");
                event(true, "InspectFailed", message.clone());
                return Err(refused("InvalidImageName", message, Duration::from_secs(60)));
            }
        };
        let policy = container.image_pull_policy.as_deref().unwrap_or(if image.ends_with(":latest") {
            "Always"
        } else {
            "IfNotPresent"
        });
        if policy != "Always" {
            match self.cri.image_status(&image).await {
                Ok(Some(present)) => {
                    event(
                        false,
                        "Pulled",
                        format!(
                            "Container image \"{asked}\" already present on machine and can be accessed by the pod"
                        ),
                    );
                    return Ok(present);
                }
                Ok(None) if policy == "Never" => {
                    let message = format!("Container image \"{asked}\" is not present with pull policy of Never");
                    event(true, "ErrImageNeverPull", message.clone());
                    return Err(refused("ErrImageNeverPull", message, RETRY));
                }
                Ok(None) => {}
                Err(error) => {
                    let message = format!("Failed to inspect image \"{asked}\": {error}");
                    event(true, "InspectFailed", message.clone());
                    return Err(refused("ImageInspectError", message, RETRY));
                }
            }
        }
        self.pull(pod, container, asked, &image, sandbox, pulls).await
    }

    /// The pause after a pull that failed, while it runs.
    pub fn pause(&self, pod: &Pod, container: &Container, pulls: &Pulls, told: bool) -> Option<Refused> {
        let asked = container.image.as_deref().unwrap_or_default();
        let not_yet = pulls.backoffs.check_since_failure(asked, Timestamp::now()).err()?;
        let mut message = format!("Back-off pulling image \"{asked}\"");
        if !told {
            self.events.pod(pod, Some(&container.name), false, "BackOff", message.clone());
        }
        if let Some(last) = pulls.last_errors.get(asked) {
            message = format!("{message}: {last}");
        }
        Some(refused("ImagePullBackOff", message, not_yet.left))
    }

    async fn pull(
        &self,
        pod: &Pod,
        container: &Container,
        asked: &str,
        image: &str,
        sandbox: &pb::PodSandboxConfig,
        pulls: &mut Pulls,
    ) -> Result<pb::Image, Refused> {
        let event =
            |warning, reason, message: String| self.events.pod(pod, Some(&container.name), warning, reason, message);
        event(false, "Pulling", format!("Pulling image \"{asked}\""));
        let waiting = Instant::now();
        let permit = self.at_once.acquire().await;
        let started = Instant::now();
        let pulled = self.fetch(pod, image, sandbox).await;
        drop(permit);
        match pulled {
            Ok(pulled) => {
                pulls.backoffs.reset(asked);
                pulls.last_errors.remove(asked);
                let millis = |since: Instant| go_duration(Duration::from_millis(since.elapsed().as_millis() as u64));
                let (took, in_all) = (millis(started), millis(waiting));
                event(
                    false,
                    "Pulled",
                    format!(
                        "Successfully pulled image \"{asked}\" in {took} ({in_all} including waiting). Image size: {} bytes.",
                        pulled.size
                    ),
                );
                Ok(pulled)
            }
            Err(error) => {
                event(true, "Failed", format!("Failed to pull image \"{asked}\": {}", error.with_code()));
                pulls.backoffs.next(asked, Timestamp::now());
                let (reason, message) = judge(asked, &error);
                pulls.last_errors.insert(asked.to_owned(), format!("{reason}: {message}"));
                // Soon after, the status says that a pause is running.
                Err(refused(reason, message, Duration::from_secs(3)))
            }
        }
    }

    /// Tries every credential that fits, then none.
    async fn fetch(&self, pod: &Pod, image: &str, sandbox: &pb::PodSandboxConfig) -> Result<pb::Image, Error> {
        let mut attempts: Vec<Option<pb::AuthConfig>> =
            self.credentials(pod, image).await.into_iter().map(Some).collect();
        attempts.push(None);
        let mut last = None;
        for auth in attempts {
            match self.cri.pull_image(image, auth, sandbox.clone()).await {
                Ok(reference) => {
                    let known = self.cri.image_status(&reference).await?;
                    return Ok(known.unwrap_or(pb::Image { id: reference, ..Default::default() }));
                }
                Err(error) => last = Some(last.unwrap_or(error)),
            }
        }
        Err(last.unwrap_or(Error::Cancelled))
    }

    async fn credentials(&self, pod: &Pod, image: &str) -> Vec<pb::AuthConfig> {
        let names = super::view::spec(pod).image_pull_secrets.as_deref().unwrap_or_default();
        let mut found = Vec::new();
        for reference in names {
            match self.objects.secret(super::view::namespace(pod), &reference.name).await {
                Ok(secret) => found.extend(matching(&secret, image)),
                Err(error) => tracing::info!(%error, secret = reference.name, "unable to retrieve pull secret"),
            }
        }
        found
    }
}

fn judge(image: &str, error: &Error) -> (&'static str, String) {
    let text = error.to_string();
    for (prefix, words) in [
        ("RegistryUnavailable", "the registry is unavailable"),
        ("SignatureValidationFailed", "the signature validation failed"),
    ] {
        if let Some(rest) = text.strip_prefix(prefix) {
            return (prefix, format!("image pull failed for {image} because {words}{rest}"));
        }
    }
    ("ErrImagePull", error.with_code())
}

/// A name without tag or digest means `latest`.
fn with_default_tag(image: &str) -> Result<String, &'static str> {
    const INVALID: &str = "couldn't parse image name: invalid reference format";
    if image.is_empty() || image.trim() != image || image.contains(char::is_whitespace) {
        return Err(INVALID);
    }
    if let Some((name, digest)) = image.split_once('@') {
        return if name.is_empty() || !digest.contains(':') { Err(INVALID) } else { Ok(image.to_owned()) };
    }
    let (path, last) = image.rsplit_once('/').map_or(("", image), |(path, last)| (path, last));
    let (name, tag) = last.split_once(':').map_or((last, None), |(name, tag)| (name, Some(tag)));
    let lower = |text: &str| !text.chars().any(char::is_uppercase);
    let repository = path.split('/').skip(usize::from(path.contains(['.', ':']))).all(lower);
    if name.is_empty() || !lower(name) || !repository || tag == Some("") {
        return Err(INVALID);
    }
    Ok(match tag {
        Some(_) => image.to_owned(),
        None => format!("{image}:latest"),
    })
}

/// The registry of an image; Docker Hub has many names.
fn registry(image: &str) -> &str {
    match image.split_once('/') {
        Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => first,
        _ => "docker.io",
    }
}

fn matching(secret: &Secret, image: &str) -> Vec<pb::AuthConfig> {
    let data = secret.data.clone().unwrap_or_default();
    let parse = |key: &str| serde_json::from_slice::<serde_json::Value>(&data.get(key)?.0).ok();
    let auths = parse(".dockerconfigjson").map(|config| config["auths"].clone()).or_else(|| parse(".dockercfg"));
    let Some(serde_json::Value::Object(auths)) = auths else { return Vec::new() };
    let wanted = registry(image);
    let mut found: Vec<(usize, pb::AuthConfig)> = auths
        .iter()
        .filter_map(|(server, entry)| {
            let bare = server.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('/');
            let (host, path) = bare.split_once('/').unwrap_or((bare, ""));
            let host = if matches!(host, "index.docker.io" | "registry-1.docker.io") { "docker.io" } else { host };
            let path = if matches!(path, "v1" | "v2") { "" } else { path };
            let within = path.is_empty() || image.trim_start_matches(wanted).trim_start_matches('/').starts_with(path);
            let fits = host == wanted || host.strip_prefix("*.").is_some_and(|domain| wanted.ends_with(domain));
            if !fits || !within {
                return None;
            }
            Some((bare.len(), credential(server, entry)))
        })
        .collect();
    found.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
    found.into_iter().map(|(_, auth)| auth).collect()
}

fn credential(server: &str, entry: &serde_json::Value) -> pb::AuthConfig {
    let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let mut auth = pb::AuthConfig {
        username: text("username"),
        password: text("password"),
        server_address: server.to_owned(),
        identity_token: text("identitytoken"),
        registry_token: text("registrytoken"),
        ..Default::default()
    };
    let decoded = base64::engine::general_purpose::STANDARD.decode(text("auth")).ok();
    if let Some((user, password)) = decoded.as_deref().and_then(|raw| std::str::from_utf8(raw).ok()?.split_once(':')) {
        (auth.username, auth.password) = (user.to_owned(), password.trim_end_matches('\0').to_owned());
    }
    auth
}

impl std::fmt::Debug for Puller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Puller").field("at_once", &self.at_once.available_permits()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_tags() {
        for (image, full) in [
            ("busybox", Ok("busybox:latest")),
            ("busybox:1", Ok("busybox:1")),
            ("localhost:5000/a/b", Ok("localhost:5000/a/b:latest")),
            ("a@sha256:0123", Ok("a@sha256:0123")),
            ("", Err(())),
            ("A", Err(())),
            ("a b", Err(())),
            ("a:", Err(())),
        ] {
            assert_eq!(with_default_tag(image).map_err(|_| ()), full.map(str::to_owned), "{image}");
        }
    }

    #[test]
    fn the_credential_that_fits() {
        let config = serde_json::json!({"auths": {
            "https://index.docker.io/v1/": {"auth": "aHViOnB3"},
            "r.example:5000": {"username": "u", "password": "p"},
        }});
        let secret: Secret = serde_json::from_value(serde_json::json!({"data": {
            ".dockerconfigjson": base64::engine::general_purpose::STANDARD.encode(config.to_string())
        }}))
        .unwrap();
        let users = |image| matching(&secret, image).into_iter().map(|auth| auth.username).collect::<Vec<_>>();
        assert_eq!(users("busybox"), ["hub"]);
        assert_eq!(users("r.example:5000/x"), ["u"]);
        assert!(users("other.example/x").is_empty());
    }
}
