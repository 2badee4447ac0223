//! The environment of a container.

use super::expand::expand;
use super::fields::{self, Surroundings};
use super::view;
use crate::api::Objects;
use crate::error::{Error, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVarSource, Pod, Secret, Service};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Variables in the order of their names.
pub type Env = BTreeMap<String, String>;

/// Makes the environment: envFrom, then env, then the services that were not named by either.
pub async fn make(
    pod: &Pod,
    container: &Container,
    around: &Surroundings,
    objects: &dyn Objects,
    services: &[Arc<Service>],
) -> Result<Env> {
    let links = view::spec(pod).enable_service_links.unwrap_or(true);
    let of_services = service_variables(services, view::namespace(pod), links);
    let mut lookups =
        Lookups { namespace: view::namespace(pod), objects, maps: HashMap::new(), secrets: HashMap::new() };
    let mut env = Env::new();
    for source in container.env_from.iter().flatten() {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        if let Some(reference) = &source.config_map_ref
            && let Some(map) = lookups.config_map(&reference.name, reference.optional == Some(true)).await?
        {
            env.extend(map.data.iter().flatten().map(|(key, value)| (format!("{prefix}{key}"), value.clone())));
        } else if let Some(reference) = &source.secret_ref
            && let Some(secret) = lookups.secret(&reference.name, reference.optional == Some(true)).await?
        {
            for (key, value) in secret.data.iter().flatten() {
                env.insert(format!("{prefix}{key}"), String::from_utf8_lossy(&value.0).into_owned());
            }
        }
    }
    for variable in container.env.iter().flatten() {
        let literal = variable.value.as_deref().unwrap_or_default();
        let value = if !literal.is_empty() {
            expand(literal, |name| env.get(name).or_else(|| of_services.get(name)).cloned())
        } else if let Some(source) = &variable.value_from {
            match lookups.resolve(pod, container, source, around).await? {
                Some(value) => value,
                None => continue,
            }
        } else {
            String::new()
        };
        env.insert(variable.name.clone(), value);
    }
    for (name, value) in of_services {
        env.entry(name).or_insert(value);
    }
    Ok(env)
}

/// Has the ConfigMaps and Secrets of all environments at hand. What can't be had is told when a container needs it.
pub async fn warm(pod: &Pod, objects: &dyn Objects) {
    let containers = || view::init_containers(pod).iter().chain(&view::spec(pod).containers);
    let all = || containers().flat_map(|container| container.env_from.iter().flatten());
    let each = || {
        let variables = containers().flat_map(|container| container.env.iter().flatten());
        variables.filter_map(|variable| variable.value_from.as_ref())
    };
    let maps: BTreeSet<&str> = all()
        .filter_map(|source| Some(source.config_map_ref.as_ref()?.name.as_str()))
        .chain(each().filter_map(|source| Some(source.config_map_key_ref.as_ref()?.name.as_str())))
        .collect();
    let secrets: BTreeSet<&str> = all()
        .filter_map(|source| Some(source.secret_ref.as_ref()?.name.as_str()))
        .chain(each().filter_map(|source| Some(source.secret_key_ref.as_ref()?.name.as_str())))
        .collect();
    crate::api::warm(objects, view::namespace(pod), maps, secrets).await;
}

struct Lookups<'a> {
    namespace: &'a str,
    objects: &'a dyn Objects,
    maps: HashMap<String, Option<Arc<ConfigMap>>>,
    secrets: HashMap<String, Option<Arc<Secret>>>,
}

impl Lookups<'_> {
    async fn config_map(&mut self, name: &str, optional: bool) -> Result<Option<Arc<ConfigMap>>> {
        if !self.maps.contains_key(name) {
            let found = tolerate(optional, self.objects.config_map(self.namespace, name).await)?;
            self.maps.insert(name.to_owned(), found);
        }
        Ok(self.maps.get(name).cloned().flatten())
    }

    async fn secret(&mut self, name: &str, optional: bool) -> Result<Option<Arc<Secret>>> {
        if !self.secrets.contains_key(name) {
            let found = tolerate(optional, self.objects.secret(self.namespace, name).await)?;
            self.secrets.insert(name.to_owned(), found);
        }
        Ok(self.secrets.get(name).cloned().flatten())
    }

    async fn resolve(
        &mut self,
        pod: &Pod,
        container: &Container,
        source: &EnvVarSource,
        around: &Surroundings,
    ) -> Result<Option<String>> {
        if let Some(selector) = &source.field_ref {
            return fields::field(pod, selector, around).map(Some);
        }
        if let Some(selector) = &source.resource_field_ref {
            return fields::resource(pod, container, selector, around).map(Some);
        }
        if let Some(selector) = &source.config_map_key_ref {
            let optional = selector.optional == Some(true);
            let Some(map) = self.config_map(&selector.name, optional).await? else { return Ok(None) };
            let value = map.data.as_ref().and_then(|data| data.get(&selector.key)).cloned();
            return required(value, optional, || missing(&selector.key, "ConfigMap", self.namespace, &selector.name));
        }
        if let Some(selector) = &source.secret_key_ref {
            let optional = selector.optional == Some(true);
            let Some(secret) = self.secret(&selector.name, optional).await? else { return Ok(None) };
            let value = secret.data.as_ref().and_then(|data| data.get(&selector.key));
            let value = value.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned());
            return required(value, optional, || missing(&selector.key, "Secret", self.namespace, &selector.name));
        }
        Ok(Some(String::new()))
    }
}

fn tolerate<T>(optional: bool, found: Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if optional && error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn required(value: Option<String>, optional: bool, error: impl Fn() -> Error) -> Result<Option<String>> {
    match value {
        None if !optional => Err(error()),
        value => Ok(value),
    }
}

fn missing(key: &str, kind: &str, namespace: &str, name: &str) -> Error {
    Error::Pod(format!("couldn't find key {key} in {kind} {namespace}/{name}"))
}

/// `NAME_SERVICE_HOST` and its kin: the services of the namespace, and `default/kubernetes` always.
pub fn service_variables(services: &[Arc<Service>], namespace: &str, links: bool) -> Env {
    let mut chosen: BTreeMap<&str, &Service> = BTreeMap::new();
    for service in services {
        let own = service.metadata.namespace.as_deref().unwrap_or_default();
        let name = service.metadata.name.as_deref().unwrap_or_default();
        if own == namespace && links {
            chosen.insert(name, service);
        } else if own == "default" && name == "kubernetes" {
            chosen.entry(name).or_insert(service);
        }
    }
    let mut env = Env::new();
    for (name, service) in chosen {
        let Some(spec) = &service.spec else { continue };
        let ip = spec.cluster_ip.as_deref().unwrap_or_default();
        let Some(first) = spec.ports.as_ref().and_then(|ports| ports.first()).filter(|_| !matches!(ip, "" | "None"))
        else {
            continue;
        };
        let prefix = screaming(name);
        let address = |port: i32| if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") };
        env.insert(format!("{prefix}_SERVICE_HOST"), ip.to_owned());
        env.insert(format!("{prefix}_SERVICE_PORT"), first.port.to_string());
        for (index, port) in spec.ports.iter().flatten().enumerate() {
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            let url = format!("{}://{}", protocol.to_lowercase(), address(port.port));
            if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
                env.insert(format!("{prefix}_SERVICE_PORT_{}", screaming(name)), port.port.to_string());
            }
            if index == 0 {
                env.insert(format!("{prefix}_PORT"), url.clone());
            }
            let link = format!("{prefix}_PORT_{}_{}", port.port, protocol.to_uppercase());
            env.insert(format!("{link}_PROTO"), protocol.to_lowercase());
            env.insert(format!("{link}_PORT"), port.port.to_string());
            env.insert(format!("{link}_ADDR"), ip.to_owned());
            env.insert(link, url);
        }
    }
    env
}

fn screaming(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

/// Command and arguments with their `$(NAME)` replaced.
pub fn expand_all(words: Option<&Vec<String>>, env: &Env) -> Vec<String> {
    words.into_iter().flatten().map(|word| expand(word, |name| env.get(name).cloned())).collect()
}

#[cfg(test)]
#[path = "env_tests.rs"]
mod tests;
