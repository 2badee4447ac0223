//! `kube-system/extension-apiserver-authentication`: what extension API servers need to know to authenticate callers.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use trireme_kinds::Kind;
use trireme_machinery::status::Status;

use super::ensure::ensure;
use super::{Duty, Surroundings};
use crate::config::Config;
use crate::error::Error;
use crate::pipeline::Objects;

/// The duty.
pub struct AuthenticationConfig {
    objects: Arc<dyn Objects>,
    kind: Arc<Kind>,
    data: Map<String, Value>,
}

impl AuthenticationConfig {
    /// Publishes the CAs and headers of the flags.
    pub fn new(around: &Surroundings) -> Result<Self, Error> {
        Ok(Self { objects: around.objects.clone(), kind: around.kind("", "configmaps")?, data: data(&around.config)? })
    }
}

fn data(config: &Config) -> Result<Map<String, Value>, Error> {
    let mut data = Map::new();
    let mut file = |key: &str, path: Option<&std::path::PathBuf>| -> Result<(), Error> {
        if let Some(path) = path {
            let text = std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.clone(), source })?;
            data.insert(key.to_owned(), json!(text));
        }
        Ok(())
    };
    file("client-ca-file", config.client_ca_file.as_ref())?;
    file("requestheader-client-ca-file", config.requestheader_client_ca_file.as_ref())?;
    if config.requestheader_client_ca_file.is_some() {
        let lists = [
            ("requestheader-allowed-names", &config.requestheader_allowed_names),
            ("requestheader-extra-headers-prefix", &config.requestheader_extra_headers_prefix),
            ("requestheader-group-headers", &config.requestheader_group_headers),
            ("requestheader-uid-headers", &config.requestheader_uid_headers),
            ("requestheader-username-headers", &config.requestheader_username_headers),
        ];
        for (key, list) in lists {
            data.insert(key.to_owned(), json!(json!(list).to_string()));
        }
    }
    Ok(data)
}

#[async_trait]
impl Duty for AuthenticationConfig {
    fn check(&self) -> &'static str {
        "poststarthook/start-cluster-authentication-info-controller"
    }

    fn rhythm(&self) -> Duration {
        Duration::from_secs(60)
    }

    async fn run(&self) -> Result<(), Status> {
        let object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"namespace": "kube-system", "name": "extension-apiserver-authentication"},
            "data": self.data,
        });
        let amend = |value: &mut Value| {
            for (key, text) in &self.data {
                value["data"][key] = text.clone();
            }
        };
        ensure(self.objects.as_ref(), self.check(), &self.kind, &object, amend).await
    }
}
