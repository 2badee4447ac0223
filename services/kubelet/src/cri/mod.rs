//! The container runtime, over CRI v1 on a unix socket.
//!
//! [`Cri`] is the client: each call has its own time limit, and what starts or stops something opens a span
//! (`cri.RunPodSandbox`, …) that is a child of the sync that asked for it. [`state`] reads back what the runtime has,
//! [`names`] are the labels by which a kubelet recognises its own.

pub mod names;
pub mod state;
mod transport;

use crate::error::{Error, Result};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tonic::{Response, Status};
use tracing::Instrument as _;
use transport::Services;
use trireme_proto::runtime::v1 as pb;
use trireme_telemetry::SpanExt as _;

/// How long a call may take that waits for nothing but the runtime (upstream's `runtimeRequestTimeout`).
const CALL: Duration = Duration::from_secs(120);
/// A pull may take long on a slow line; it is called off when its Pod is.
const PULL: Duration = Duration::from_secs(3600);

/// The runtime behind a socket. Cheap to clone; reconnects by itself when the runtime comes back.
#[derive(Clone)]
pub struct Cri {
    services: Services,
    identity: Arc<Identity>,
}

/// What the runtime says of itself.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Such as `containerd`: the scheme of container ids.
    pub name: String,
    /// Such as `1.6.20`.
    pub version: String,
}

impl Identity {
    fn of(answer: pb::VersionResponse) -> Self {
        Self { name: answer.runtime_name, version: answer.runtime_version }
    }

    /// It may have a stream of container events. containerd has one since 1.7, and logs an error for each one who asks
    /// before that.
    pub fn may_tell_events(&self) -> bool {
        let mut numbers = self.version.trim_start_matches('v').split('.').map(|part| part.parse::<u32>().ok());
        match (self.name.as_str(), numbers.next().flatten(), numbers.next().flatten()) {
            ("containerd", Some(major), Some(minor)) => (major, minor) >= (1, 7),
            _ => true,
        }
    }
}

impl Cri {
    /// Connects as [`Cri::connect`] does, and waits so long for a runtime that is only just starting. One that answers
    /// without CRI v1 is refused at once.
    pub async fn wait_for(endpoint: &str, patience: Duration) -> Result<Self> {
        let deadline = tokio::time::Instant::now() + patience;
        loop {
            match Self::connect(endpoint).await {
                Err(Error::Runtime { answers: false, reason, .. }) if tokio::time::Instant::now() < deadline => {
                    tracing::debug!(endpoint, reason, "the runtime is not there yet");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// Connects and makes sure that CRI v1 is spoken there.
    pub async fn connect(endpoint: &str) -> Result<Self> {
        let services = Services::new(endpoint)?;
        let refuse = |reason: String| Error::Runtime { endpoint: endpoint.to_owned(), reason, answers: false };
        let version = pb::VersionRequest { version: "0.1.0".into() };
        let answer = tokio::time::timeout(Duration::from_secs(10), services.runtime().version(version))
            .await
            .map_err(|_| refuse("it does not answer".into()))?
            .map_err(|status| match status.code() {
                tonic::Code::Unimplemented => Error::Runtime {
                    endpoint: endpoint.to_owned(),
                    reason: "it does not serve runtime.v1.RuntimeService".into(),
                    answers: true,
                },
                _ => refuse(transport::root_cause(&status)),
            })?
            .into_inner();
        Ok(Self { services, identity: Arc::new(Identity::of(answer)) })
    }

    /// A runtime that was there once, and is not now.
    #[cfg(test)]
    pub(crate) fn absent() -> Self {
        let services = Services::new("unix:///run/no-runtime-is-here.sock").expect("a socket's path");
        Self { services, identity: Arc::new(Identity { name: "absent".into(), version: "0".into() }) }
    }

    /// Name and version of the runtime.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Name and version of the runtime that is behind the socket now.
    pub async fn version(&self) -> Result<Identity> {
        let request = pb::VersionRequest { version: "0.1.0".into() };
        let call = async { self.services.runtime().version(request).await };
        Ok(Identity::of(self.call("Version", Duration::from_secs(10), call).await?))
    }

    async fn call<T, F>(&self, call: &'static str, limit: Duration, future: F) -> Result<T>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let answer = match tokio::time::timeout(limit, future).await {
            Ok(answer) => answer.map(Response::into_inner),
            Err(_) => Err(Status::deadline_exceeded(format!("{call}: no answer within {} s", limit.as_secs()))),
        };
        if let Err(status) = &answer {
            metrics::counter!("kubelet_runtime_operations_errors_total", "operation_type" => call).increment(1);
            tracing::debug!(call, code = ?status.code(), message = status.message(), "the runtime refused");
        }
        answer.map_err(|status| Error::Cri { call, status: Box::new(status) })
    }

    /// As [`Cri::call`], in a span of its own: for what changes something.
    async fn traced<T, F>(&self, call: &'static str, limit: Duration, span: tracing::Span, future: F) -> Result<T>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let started = std::time::Instant::now();
        let answer = self.call(call, limit, future).instrument(span.clone()).await;
        metrics::histogram!("kubelet_runtime_operations_duration_seconds", "operation_type" => call)
            .record(started.elapsed().as_secs_f64());
        if let Err(error) = &answer {
            span.fail(error.to_string());
        }
        answer
    }

    /// Conditions `RuntimeReady` and `NetworkReady`.
    pub async fn status(&self) -> Result<pb::StatusResponse> {
        let request = pb::StatusRequest { verbose: false };
        self.call("Status", Duration::from_secs(10), async { self.services.runtime().status(request).await }).await
    }

    /// The runtime's cgroup driver, if it can tell (containerd 2, CRI-O 1.28).
    pub async fn cgroup_driver(&self) -> Option<pb::CgroupDriver> {
        let answer = self.services.runtime().runtime_config(pb::RuntimeConfigRequest {}).await.ok()?.into_inner();
        Some(answer.linux?.cgroup_driver())
    }

    /// Starts a sandbox and gives its id.
    pub async fn run_pod_sandbox(&self, config: pb::PodSandboxConfig, handler: &str) -> Result<String> {
        let request = pb::RunPodSandboxRequest { config: Some(config), runtime_handler: handler.to_owned() };
        let span = transport::span("cri.RunPodSandbox");
        let call = async { self.services.runtime().run_pod_sandbox(transport::carry(request)).await };
        Ok(self.traced("RunPodSandbox", CALL * 2, span, call).await?.pod_sandbox_id)
    }

    /// Stops what runs in a sandbox and frees its network.
    pub async fn stop_pod_sandbox(&self, id: &str) -> Result<()> {
        let request = pb::StopPodSandboxRequest { pod_sandbox_id: id.to_owned() };
        let span = transport::span("cri.StopPodSandbox");
        let call = async { self.services.runtime().stop_pod_sandbox(transport::carry(request)).await };
        self.traced("StopPodSandbox", CALL, span, call).await.map(|_| ())
    }

    /// Removes a sandbox and its containers.
    pub async fn remove_pod_sandbox(&self, id: &str) -> Result<()> {
        let request = pb::RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() };
        let span = transport::span("cri.RemovePodSandbox");
        let call = async { self.services.runtime().remove_pod_sandbox(transport::carry(request)).await };
        self.traced("RemovePodSandbox", CALL, span, call).await.map(|_| ())
    }

    /// Sandboxes, of one Pod or of all.
    pub async fn list_pod_sandboxes(&self, pod_uid: Option<&str>) -> Result<Vec<pb::PodSandbox>> {
        let filter = pod_uid
            .map(|uid| pb::PodSandboxFilter { label_selector: names::of_pod(uid), ..Default::default() })
            .unwrap_or_default();
        let request = pb::ListPodSandboxRequest { filter: Some(filter) };
        let call = async { self.services.runtime().list_pod_sandbox(request).await };
        Ok(self.call("ListPodSandbox", CALL, call).await?.items)
    }

    /// One sandbox, with its addresses.
    pub async fn pod_sandbox_status(&self, id: &str) -> Result<Option<pb::PodSandboxStatus>> {
        let request = pb::PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false };
        let call = async { self.services.runtime().pod_sandbox_status(request).await };
        match self.call("PodSandboxStatus", CALL, call).await {
            Ok(answer) => Ok(answer.status),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Containers, of one Pod or of all.
    pub async fn list_containers(&self, pod_uid: Option<&str>) -> Result<Vec<pb::Container>> {
        let filter = pod_uid
            .map(|uid| pb::ContainerFilter { label_selector: names::of_pod(uid), ..Default::default() })
            .unwrap_or_default();
        let request = pb::ListContainersRequest { filter: Some(filter) };
        let call = async { self.services.runtime().list_containers(request).await };
        Ok(self.call("ListContainers", CALL, call).await?.containers)
    }

    /// One container in full; `None` when it is gone.
    pub async fn container_status(&self, id: &str) -> Result<Option<pb::ContainerStatus>> {
        let request = pb::ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
        let call = async { self.services.runtime().container_status(request).await };
        match self.call("ContainerStatus", CALL, call).await {
            Ok(answer) => Ok(answer.status),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates a container in a sandbox and gives its id.
    pub async fn create_container(
        &self,
        sandbox: &str,
        config: pb::ContainerConfig,
        sandbox_config: pb::PodSandboxConfig,
    ) -> Result<String> {
        let span = transport::span("cri.CreateContainer");
        let request = pb::CreateContainerRequest {
            pod_sandbox_id: sandbox.to_owned(),
            config: Some(config),
            sandbox_config: Some(sandbox_config),
        };
        let call = async { self.services.runtime().create_container(transport::carry(request)).await };
        Ok(self.traced("CreateContainer", CALL, span, call).await?.container_id)
    }

    /// Starts what was created.
    pub async fn start_container(&self, id: &str) -> Result<()> {
        let request = pb::StartContainerRequest { container_id: id.to_owned() };
        let span = transport::span("cri.StartContainer");
        let call = async { self.services.runtime().start_container(transport::carry(request)).await };
        self.traced("StartContainer", CALL, span, call).await.map(|_| ())
    }

    /// Sends the stop signal, and SIGKILL after the grace period.
    pub async fn stop_container(&self, id: &str, grace_seconds: i64) -> Result<()> {
        let request = pb::StopContainerRequest { container_id: id.to_owned(), timeout: grace_seconds };
        let span = transport::span("cri.StopContainer");
        let limit = CALL + Duration::from_secs(grace_seconds.max(0).unsigned_abs());
        let call = async { self.services.runtime().stop_container(transport::carry(request)).await };
        self.traced("StopContainer", limit, span, call).await.map(|_| ())
    }

    /// Removes a stopped container.
    pub async fn remove_container(&self, id: &str) -> Result<()> {
        let request = pb::RemoveContainerRequest { container_id: id.to_owned() };
        let call = async { self.services.runtime().remove_container(request).await };
        self.call("RemoveContainer", CALL, call).await.map(|_| ())
    }

    /// Makes the runtime open a container's log file anew, after it was moved away.
    pub async fn reopen_container_log(&self, id: &str) -> Result<()> {
        let request = pb::ReopenContainerLogRequest { container_id: id.to_owned() };
        let call = async { self.services.runtime().reopen_container_log(request).await };
        self.call("ReopenContainerLog", CALL, call).await.map(|_| ())
    }

    /// Runs a command to its end and gives what it wrote; a timeout of zero means none.
    pub async fn exec_sync(&self, id: &str, cmd: &[String], timeout: Duration) -> Result<pb::ExecSyncResponse> {
        let request = pb::ExecSyncRequest {
            container_id: id.to_owned(),
            cmd: cmd.to_vec(),
            timeout: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        };
        // As the runtime takes it, none is no limit; whoever waits is called off with their Pod.
        let limit = if timeout.is_zero() { Duration::MAX } else { timeout + Duration::from_secs(2) };
        let call = async { self.services.runtime().exec_sync(request).await };
        self.call("ExecSync", limit, call).await
    }

    /// Where the runtime serves the streams of a command.
    pub async fn exec(&self, request: pb::ExecRequest) -> Result<String> {
        let call = async { self.services.runtime().exec(request).await };
        Ok(self.call("Exec", CALL, call).await?.url)
    }

    /// Where the runtime serves the streams of a running container.
    pub async fn attach(&self, request: pb::AttachRequest) -> Result<String> {
        let call = async { self.services.runtime().attach(request).await };
        Ok(self.call("Attach", CALL, call).await?.url)
    }

    /// Where the runtime serves connections into a sandbox.
    pub async fn port_forward(&self, request: pb::PortForwardRequest) -> Result<String> {
        let call = async { self.services.runtime().port_forward(request).await };
        Ok(self.call("PortForward", CALL, call).await?.url)
    }

    /// What the containers use.
    pub async fn list_container_stats(&self) -> Result<Vec<pb::ContainerStats>> {
        let request = pb::ListContainerStatsRequest { filter: None };
        let call = async { self.services.runtime().list_container_stats(request).await };
        Ok(self.call("ListContainerStats", CALL, call).await?.stats)
    }

    /// The stream of container events, where the runtime has one.
    pub async fn container_events(&self) -> Result<tonic::Streaming<pb::ContainerEventResponse>> {
        let call = async { self.services.runtime().get_container_events(pb::GetEventsRequest {}).await };
        self.call("GetContainerEvents", Duration::from_secs(10), call).await
    }

    /// An image that the runtime has.
    pub async fn image_status(&self, image: &str) -> Result<Option<pb::Image>> {
        let spec = pb::ImageSpec { image: image.to_owned(), ..Default::default() };
        let request = pb::ImageStatusRequest { image: Some(spec), verbose: false };
        let call = async { self.services.images().image_status(request).await };
        Ok(self.call("ImageStatus", CALL, call).await?.image)
    }

    /// All images.
    pub async fn list_images(&self) -> Result<Vec<pb::Image>> {
        let call = async { self.services.images().list_images(pb::ListImagesRequest { filter: None }).await };
        Ok(self.call("ListImages", CALL, call).await?.images)
    }

    /// Fetches an image and gives its reference.
    pub async fn pull_image(
        &self,
        image: &str,
        auth: Option<pb::AuthConfig>,
        sandbox_config: pb::PodSandboxConfig,
    ) -> Result<String> {
        let span = transport::span("cri.PullImage");
        let spec = pb::ImageSpec { image: image.to_owned(), ..Default::default() };
        let request = pb::PullImageRequest { image: Some(spec), auth, sandbox_config: Some(sandbox_config) };
        let call = async { self.services.images().pull_image(transport::carry(request)).await };
        Ok(self.traced("PullImage", PULL, span, call).await?.image_ref)
    }

    /// The file systems that hold images.
    pub async fn image_fs_info(&self) -> Result<pb::ImageFsInfoResponse> {
        let call = async { self.services.images().image_fs_info(pb::ImageFsInfoRequest {}).await };
        self.call("ImageFsInfo", CALL, call).await
    }
}

impl std::fmt::Debug for Cri {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cri").field("identity", &self.identity).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_containerd_tells_no_events() {
        let may = |name: &str, version: &str| Identity { name: name.into(), version: version.into() }.may_tell_events();
        assert!(!may("containerd", "1.6.20~ds1") && !may("containerd", "v1.6.36") && !may("containerd", "1.5.0"));
        assert!(may("containerd", "v1.7.0") && may("containerd", "1.7.27") && may("containerd", "2.0.0"));
        assert!(may("cri-o", "1.26.0") && may("containerd", "main"));
    }
}
