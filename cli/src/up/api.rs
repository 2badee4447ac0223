//! The little that `up` asks the API server itself: whether a node is Ready.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::bail;
use serde_json::Value;
use trireme_pki::{AuthorityName, Pki};

use super::ports::Ports;
use crate::{process::POLL, ready};

/// The API server as the administrator sees it.
pub(crate) struct Api {
    port: u16,
    authority: PathBuf,
    token: String,
}

impl Api {
    pub(crate) fn new(ports: &Ports, pki: &Pki) -> anyhow::Result<Self> {
        Ok(Self {
            port: ports.get("apiserver")?,
            authority: pki.authority_file(AuthorityName::Cluster),
            token: pki.admin_token()?,
        })
    }

    /// Waits until the node's condition Ready is True.
    pub(crate) async fn node_ready(&self, name: &str, patience: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + patience;
        loop {
            let said = match ready::get_https(self.port, &self.authority, &self.token, &format!("/api/v1/nodes/{name}"))
                .await
            {
                Ok(body) => match ready_condition(&serde_json::from_slice(&body)?) {
                    Some((true, _)) => return Ok(()),
                    Some((false, message)) => message,
                    None => "it has no condition Ready yet".to_owned(),
                },
                Err(e) => format!("{e:#}"),
            };
            if Instant::now() >= deadline {
                bail!("{name} is not Ready after {} s: {said}", patience.as_secs());
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

fn ready_condition(node: &Value) -> Option<(bool, String)> {
    let conditions = node["status"]["conditions"].as_array()?;
    let ready = conditions.iter().find(|c| c["type"] == "Ready")?;
    Some((ready["status"] == "True", ready["message"].as_str().unwrap_or_default().to_owned()))
}
