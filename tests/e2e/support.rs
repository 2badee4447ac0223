//! What several tests say.

use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;
use trireme_testkit::{Cluster, poll};

/// The example that the README applies.
pub(crate) const WEB: &str = include_str!("../../examples/web.yaml");

/// How long a state may take that needs containers.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Waits until `count` Pods with the label are Ready; gives them back.
pub(crate) fn ready_pods(cluster: &Cluster, label: &str, count: usize) -> anyhow::Result<Vec<Value>> {
    poll::until(&format!("{count} ready Pods of {label}"), LONG, || {
        let pods = items(cluster, &format!("get pods -l {label} -o json"))?;
        let ready: Vec<Value> =
            pods.into_iter().filter(|p| p["metadata"]["deletionTimestamp"].is_null() && is_ready(p)).collect();
        if ready.len() != count {
            bail!("{} are ready", ready.len());
        }
        Ok(ready)
    })
}

/// The items of a list.
pub(crate) fn items(cluster: &Cluster, arguments: &str) -> anyhow::Result<Vec<Value>> {
    let list = cluster.kubectl(arguments)?.json()?;
    Ok(list["items"].as_array().context("not a list")?.clone())
}

/// Whether an object's condition Ready is True.
pub(crate) fn is_ready(object: &Value) -> bool {
    condition(object, "Ready") == "True"
}

/// The status of a condition, empty if there is none.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> &'a str {
    object["status"]["conditions"]
        .as_array()
        .and_then(|all| all.iter().find(|c| c["type"] == kind))
        .and_then(|c| c["status"].as_str())
        .unwrap_or_default()
}

/// `GET http://address:port/` from this machine: the body.
pub(crate) fn http_get(address: &str, port: u16, path: &str) -> anyhow::Result<String> {
    use std::io::{Read as _, Write as _};
    let target: std::net::SocketAddr = format!("{address}:{port}").parse()?;
    let mut stream = std::net::TcpStream::connect_timeout(&target, Duration::from_secs(2))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    if !head.contains(" 200 ") {
        bail!("{}", head.lines().next().unwrap_or_default());
    }
    Ok(body.to_owned())
}
