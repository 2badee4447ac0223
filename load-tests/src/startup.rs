//! From the start of the first process to an API that is ready, and to a node that is.

use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, api::ListParams};
use trireme_testkit::{Cluster, Options};

/// How often it is asked.
const INTERVAL: Duration = Duration::from_millis(5);
/// The longest that is waited.
const PATIENCE: Duration = Duration::from_secs(60);

/// Brings an instance up, asking all the time; prints the two times.
pub(crate) fn measure(runtime: &tokio::runtime::Runtime) -> anyhow::Result<Cluster> {
    let cluster = Cluster::new(Options::default())?;
    let (api, node) = std::thread::scope(|scope| {
        let up = scope.spawn(|| cluster.start());
        let asked = runtime.block_on(async { tokio::time::timeout(PATIENCE, ask(&cluster)).await });
        up.join().map_err(|_| anyhow::anyhow!("`trireme up` panicked"))??;
        asked.context("not ready in time")?
    })?;
    let begun = first_start(&cluster)?;
    println!("| start of the first process to the API ready | {:.2} s |", api.duration_since(begun)?.as_secs_f64());
    println!("| start of the first process to the node Ready | {:.2} s |", node.duration_since(begun)?.as_secs_f64());
    Ok(cluster)
}

async fn ask(cluster: &Cluster) -> anyhow::Result<(SystemTime, SystemTime)> {
    let client = loop {
        match crate::client(cluster).await {
            Ok(client) => break client,
            Err(_) => tokio::time::sleep(INTERVAL).await,
        }
    };
    while !is_ready(&client).await {
        tokio::time::sleep(INTERVAL).await;
    }
    let api = SystemTime::now();
    let nodes: Api<Node> = Api::all(client);
    loop {
        let list = nodes.list(&ListParams::default()).await?;
        let conditions = list.items.iter().filter_map(|n| n.status.as_ref()?.conditions.as_ref()).flatten();
        if conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True") {
            return Ok((api, SystemTime::now()));
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

async fn is_ready(client: &Client) -> bool {
    let Ok(request) = http::Request::get("/readyz").body(Vec::new()) else { return false };
    client.request_text(request).await.is_ok_and(|text| text == "ok")
}

/// When the first of the instance's processes began (proc(5): field 22 of `stat`, in clock ticks after boot).
fn first_start(cluster: &Cluster) -> anyhow::Result<SystemTime> {
    let uptime = std::fs::read_to_string("/proc/uptime")?;
    let uptime: f64 = uptime.split_whitespace().next().context("uptime")?.parse()?;
    let now = SystemTime::now();
    let ticks = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK)?.context("CLK_TCK")? as f64;
    let mut first: Option<f64> = None;
    for process in cluster.processes()? {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", cluster.pid(&process)?))?;
        let (_, fields) = stat.rsplit_once(')').context("stat")?;
        let start: f64 = fields.split_whitespace().nth(19).context("starttime")?.parse()?;
        first = Some(first.map_or(start / ticks, |f| f.min(start / ticks)));
    }
    let Some(first) = first else { bail!("nothing was started") };
    Ok(now - Duration::from_secs_f64((uptime - first).max(0.0)))
}
