//! Images: the pull policy, the credentials and the pauses between tries.

use super::backoff::{Backoffs, go_duration};
use super::keyring::{Credential, Keyring, repository};
use super::pulled::Records;
use super::status::StartFailure;
use crate::api::{Events, Objects};
use crate::cri::Cri;
use crate::error::Error;
use k8s_openapi::api::core::v1::{Container, Pod};
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
    records: Arc<Records>,
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
    /// At most `at_once` pulls run side by side; `records` tell who may have what is here.
    pub fn new(
        cri: Cri,
        objects: Arc<dyn Objects>,
        events: Arc<dyn Events>,
        at_once: usize,
        records: Arc<Records>,
    ) -> Self {
        Self { cri, objects, events, at_once: Arc::new(Semaphore::new(at_once.max(1))), records }
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
        let absent = || {
            // Also of one that is here and not for this Pod: that it is here is none of its business.
            let message = format!("Container image \"{asked}\" is not present with pull policy of Never");
            event(true, "ErrImageNeverPull", message.clone());
            Err(refused("ErrImageNeverPull", message, RETRY))
        };
        let mut credentials = None;
        if policy != "Always" {
            match self.cri.image_status(&image).await {
                Ok(Some(present)) => {
                    let held = self.credentials(pod, &image).await;
                    let barred = self.records.must_pull(asked, &present.id, || held.clone());
                    credentials = Some(held);
                    if barred && policy == "Never" {
                        return absent();
                    }
                    if barred {
                        return self.pull(pod, container, (asked, &image), sandbox, pulls, credentials).await;
                    }
                    event(
                        false,
                        "Pulled",
                        format!(
                            "Container image \"{asked}\" already present on machine and can be accessed by the pod"
                        ),
                    );
                    return Ok(present);
                }
                Ok(None) if policy == "Never" => return absent(),
                Ok(None) => {}
                Err(error) => {
                    let message = format!("Failed to inspect image \"{asked}\": {error}");
                    event(true, "InspectFailed", message.clone());
                    return Err(refused("ImageInspectError", message, RETRY));
                }
            }
        }
        self.pull(pod, container, (asked, &image), sandbox, pulls, credentials).await
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
        (asked, image): (&str, &str),
        sandbox: &pb::PodSandboxConfig,
        pulls: &mut Pulls,
        credentials: Option<Vec<Credential>>,
    ) -> Result<pb::Image, Refused> {
        let event =
            |warning, reason, message: String| self.events.pod(pod, Some(&container.name), warning, reason, message);
        let credentials = match credentials {
            Some(held) => held,
            None => self.credentials(pod, image).await,
        };
        if let Err(error) = self.records.intend(asked) {
            let message = format!("Failed to record image pull intent for container image \"{asked}\": {error}");
            return Err(refused("ErrImagePull", message, RETRY));
        }
        event(false, "Pulling", format!("Pulling image \"{asked}\""));
        let waiting = Instant::now();
        let permit = self.at_once.acquire().await;
        let started = Instant::now();
        let pulled = self.fetch(image, credentials, sandbox).await;
        drop(permit);
        match pulled {
            Ok((pulled, with)) => {
                self.records.pulled(asked, &pulled.id, with.as_ref());
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
                self.records.failed(asked);
                event(true, "Failed", format!("Failed to pull image \"{asked}\": {}", error.with_code()));
                pulls.backoffs.next(asked, Timestamp::now());
                let (reason, message) = judge(asked, &error);
                pulls.last_errors.insert(asked.to_owned(), format!("{reason}: {message}"));
                // Soon after, the status says that a pause is running.
                Err(refused(reason, message, Duration::from_secs(3)))
            }
        }
    }

    /// Tries every credential that fits; none if there is none. Says which it was.
    async fn fetch(
        &self,
        image: &str,
        credentials: Vec<Credential>,
        sandbox: &pb::PodSandboxConfig,
    ) -> Result<(pb::Image, Option<Credential>), Error> {
        let attempts: Vec<Option<Credential>> = match credentials.is_empty() {
            true => vec![None],
            false => credentials.into_iter().map(Some).collect(),
        };
        let mut errors: Vec<Error> = Vec::new();
        for with in attempts {
            match self.cri.pull_image(image, with.as_ref().map(Credential::auth), sandbox.clone()).await {
                Ok(reference) => {
                    let known = self.cri.image_status(&reference).await?;
                    return Ok((known.unwrap_or(pb::Image { id: reference, ..Default::default() }), with));
                }
                Err(error) if errors.iter().any(|other| other.to_string() == error.to_string()) => {}
                Err(error) => errors.push(error),
            }
        }
        if errors.len() > 1 {
            let texts: Vec<String> = errors.iter().map(Error::with_code).collect();
            return Err(Error::Pod(format!("[{}]", texts.join(", "))));
        }
        Err(errors.pop().unwrap_or(Error::Cancelled))
    }

    /// What the Pod's Secrets hold for an image.
    async fn credentials(&self, pod: &Pod, image: &str) -> Vec<Credential> {
        let names = super::view::spec(pod).image_pull_secrets.as_deref().unwrap_or_default();
        let (mut keyring, mut missing) = (Keyring::default(), Vec::new());
        for reference in names.iter().filter(|reference| !reference.name.is_empty()) {
            match self.objects.secret(super::view::namespace(pod), &reference.name).await {
                Ok(secret) => {
                    if let Err(error) = keyring.add(&secret) {
                        tracing::info!(error, secret = reference.name, "a pull secret can't be read");
                    }
                }
                Err(error) => {
                    tracing::info!(%error, secret = reference.name, "unable to retrieve pull secret");
                    missing.push(reference.name.as_str());
                }
            }
        }
        if !missing.is_empty() {
            let message = format!(
                "Unable to retrieve some image pull secrets ({}); attempting to pull the image may not succeed.",
                missing.join(", ")
            );
            self.events.pod(pod, None, true, "FailedToRetrieveImagePullSecret", message);
        }
        keyring.lookup(&repository(image))
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
}
