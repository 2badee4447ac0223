//! Ending the Pods of a node through its runtime, which gives their addresses and links back too (CRI v1).

use std::{path::Path, time::Duration};

use anyhow::Context as _;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use trireme_proto::runtime::v1::{
    ListPodSandboxRequest, RemovePodSandboxRequest, StopPodSandboxRequest, runtime_service_client::RuntimeServiceClient,
};

/// How long one Pod may take to stop, and the runtime to say which there are.
const PATIENCE: Duration = Duration::from_secs(20);
/// The largest answer: annotations of many Pods are long. As the kubelet takes it.
const LARGEST: usize = 16 << 20;

/// Stops and removes every Pod of the runtime behind `socket`, several at once. Images stay.
///
/// # Errors
/// The runtime does not answer, or cannot end a Pod.
pub(crate) fn remove_pods(socket: &Path) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listed = async {
            let client = connect(socket).await?;
            let pods = client.clone().list_pod_sandbox(ListPodSandboxRequest::default()).await?;
            anyhow::Ok((client, pods.into_inner().items))
        };
        let listed = tokio::time::timeout(PATIENCE, listed).await;
        let (client, pods) = listed
            .with_context(|| format!("no answer in {} s", PATIENCE.as_secs()))
            .flatten()
            .with_context(|| socket.display().to_string())?;
        futures::future::try_join_all(pods.into_iter().map(|pod| remove(client.clone(), pod.id))).await?;
        Ok(())
    })
}

async fn remove(mut client: RuntimeServiceClient<Channel>, id: String) -> anyhow::Result<()> {
    let ended = async {
        client.stop_pod_sandbox(StopPodSandboxRequest { pod_sandbox_id: id.clone() }).await?;
        client.remove_pod_sandbox(RemovePodSandboxRequest { pod_sandbox_id: id.clone() }).await
    };
    tokio::time::timeout(PATIENCE, ended)
        .await
        .with_context(|| format!("sandbox {id} did not stop in {} s", PATIENCE.as_secs()))?
        .with_context(|| format!("sandbox {id}"))?;
    Ok(())
}

async fn connect(socket: &Path) -> anyhow::Result<RuntimeServiceClient<Channel>> {
    let path = socket.to_owned();
    // The address is never looked at: the connector dials the socket.
    let channel = Endpoint::from_static("http://cri.localhost")
        .connect_with_connector(tower::service_fn(move |_: Uri| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        }))
        .await?;
    Ok(RuntimeServiceClient::new(channel).max_decoding_message_size(LARGEST))
}
