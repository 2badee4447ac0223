//! What files a volume holds.

use super::token::Tokens;
use crate::api::Objects;
use crate::error::{Error, Result};
use crate::pod::fields::{self, Surroundings};
use crate::pod::view::spec;
use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, Container, DownwardAPIVolumeFile, DownwardAPIVolumeSource, KeyToPath, Pod,
    ProjectedVolumeSource, Secret, SecretVolumeSource, ServiceAccountTokenProjection,
};
use std::collections::BTreeMap;

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    pub(super) data: Vec<u8>,
    pub(super) mode: u32,
    pub(super) owner: Option<u32>,
}

/// Files by their path in the volume.
pub(super) type Payload = BTreeMap<String, File>;

const DEFAULT_MODE: i32 = 0o644;

/// Where the contents come from.
pub(super) struct Sources<'a> {
    pub(super) pod: &'a Pod,
    pub(super) around: &'a Surroundings,
    pub(super) objects: &'a dyn Objects,
    /// None: those of service accounts are left out.
    pub(super) tokens: Option<&'a mut Tokens>,
    pub(super) volume: &'a str,
}

impl Sources<'_> {
    fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub(super) async fn config_map_volume(&self, source: &ConfigMapVolumeSource) -> Result<Payload> {
        let mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        let optional = source.optional == Some(true);
        self.config_map(&source.name, source.items.as_deref(), optional, mode).await
    }

    async fn config_map(&self, name: &str, items: Option<&[KeyToPath]>, optional: bool, mode: i32) -> Result<Payload> {
        let map = match self.objects.config_map(self.namespace(), name).await {
            Ok(map) => map,
            Err(error) if optional && error.is_not_found() => return Ok(Payload::new()),
            Err(error) => return Err(error),
        };
        select(&config_map_data(&map), items, optional, mode, "config")
    }

    pub(super) async fn secret_volume(&self, source: &SecretVolumeSource) -> Result<Payload> {
        let mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        let name = source.secret_name.as_deref().unwrap_or_default();
        self.secret(name, source.items.as_deref(), source.optional == Some(true), mode).await
    }

    async fn secret(&self, name: &str, items: Option<&[KeyToPath]>, optional: bool, mode: i32) -> Result<Payload> {
        let secret = match self.objects.secret(self.namespace(), name).await {
            Ok(secret) => secret,
            Err(error) if optional && error.is_not_found() => return Ok(Payload::new()),
            Err(error) => return Err(error),
        };
        select(&secret_data(&secret), items, optional, mode, "secret")
    }

    pub(super) fn downward_volume(&self, source: &DownwardAPIVolumeSource) -> Result<Payload> {
        self.downward(source.items.as_deref().unwrap_or_default(), source.default_mode.unwrap_or(DEFAULT_MODE))
    }

    fn downward(&self, items: &[DownwardAPIVolumeFile], mode: i32) -> Result<Payload> {
        let mut payload = Payload::new();
        for item in items {
            let text = if let Some(selector) = &item.field_ref {
                fields::field(self.pod, selector, self.around)?
            } else if let Some(selector) = &item.resource_field_ref {
                fields::resource(self.pod, &Container::default(), selector, self.around)?
            } else {
                String::new()
            };
            payload.insert(item.path.clone(), file(text.into_bytes(), item.mode.unwrap_or(mode)));
        }
        Ok(payload)
    }

    pub(super) async fn projected_volume(&mut self, source: &ProjectedVolumeSource) -> Result<Payload> {
        let mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        let mut payload = Payload::new();
        for part in source.sources.iter().flatten() {
            if let Some(source) = &part.config_map {
                let optional = source.optional == Some(true);
                payload.extend(self.config_map(&source.name, source.items.as_deref(), optional, mode).await?);
            } else if let Some(source) = &part.secret {
                let optional = source.optional == Some(true);
                payload.extend(self.secret(&source.name, source.items.as_deref(), optional, mode).await?);
            } else if let Some(source) = &part.downward_api {
                payload.extend(self.downward(source.items.as_deref().unwrap_or_default(), mode)?);
            } else if let Some(source) = &part.service_account_token {
                if let Some(token) = self.token(source, mode).await? {
                    payload.insert(source.path.clone(), token);
                }
            } else {
                return Err(Error::Pod(format!(
                    "volume {}: a projection that this kubelet does not know",
                    self.volume
                )));
            }
        }
        Ok(payload)
    }

    /// A token is for the user that all containers run as, or for the Pod's group, and else readable by all in the Pod.
    async fn token(&mut self, source: &ServiceAccountTokenProjection, mode: i32) -> Result<Option<File>> {
        let Some(tokens) = self.tokens.as_deref_mut() else { return Ok(None) };
        let token = tokens.get(self.pod, source, self.objects).await?;
        let owner = only_user(self.pod);
        let group = spec(self.pod).security_context.as_ref().and_then(|context| context.fs_group);
        let mode = if owner.is_some() || group.is_some() { 0o600 } else { mode };
        Ok(Some(File { owner, ..file(token.into_bytes(), mode) }))
    }
}

/// The user that every container of the Pod runs as, if they agree and say so.
fn only_user(pod: &Pod) -> Option<u32> {
    let of_pod = spec(pod).security_context.as_ref().and_then(|context| context.run_as_user);
    let mut users = spec(pod)
        .containers
        .iter()
        .chain(spec(pod).init_containers.iter().flatten())
        .map(|container| container.security_context.as_ref().and_then(|context| context.run_as_user).or(of_pod));
    let first = users.next()??;
    users.all(|user| user == Some(first)).then(|| u32::try_from(first).ok()).flatten()
}

fn file(data: Vec<u8>, mode: i32) -> File {
    File { data, mode: mode.unsigned_abs() & 0o7777, owner: None }
}

fn config_map_data(map: &ConfigMap) -> BTreeMap<&str, Vec<u8>> {
    let text = map.data.iter().flatten().map(|(key, value)| (key.as_str(), value.clone().into_bytes()));
    let binary = map.binary_data.iter().flatten().map(|(key, value)| (key.as_str(), value.0.clone()));
    text.chain(binary).collect()
}

fn secret_data(secret: &Secret) -> BTreeMap<&str, Vec<u8>> {
    secret.data.iter().flatten().map(|(key, value)| (key.as_str(), value.0.clone())).collect()
}

/// All keys, or those that are named, at the paths that are named.
fn select(
    data: &BTreeMap<&str, Vec<u8>>,
    items: Option<&[KeyToPath]>,
    optional: bool,
    mode: i32,
    what: &str,
) -> Result<Payload> {
    let items = items.unwrap_or_default();
    if items.is_empty() {
        return Ok(data.iter().map(|(key, value)| ((*key).to_owned(), file(value.clone(), mode))).collect());
    }
    let mut payload = Payload::new();
    for item in items {
        match data.get(item.key.as_str()) {
            Some(value) => {
                payload.insert(item.path.clone(), file(value.clone(), item.mode.unwrap_or(mode)));
            }
            None if optional => {}
            None => return Err(Error::Pod(format!("references non-existent {what} key: {}", item.key))),
        }
    }
    Ok(payload)
}
