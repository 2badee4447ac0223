//! From a container's volumeMounts to what the runtime binds.

use super::{Standing, VolumeRoot, Volumes, subpath};
use crate::error::{Error, Result};
use crate::pod::env::Env;
use crate::pod::expand::expand;
use crate::pod::view;
use k8s_openapi::api::core::v1::{Container, Pod, VolumeMount};
use std::path::Path;
use trireme_proto::runtime::v1 as pb;

impl VolumeRoot {
    /// The mounts of a container: its volumes, and the Pod's /etc/hosts unless it has its own.
    pub fn mounts(&self, pod: &Pod, container: &Container, volumes: &Volumes, env: &Env) -> Result<Vec<pb::Mount>> {
        let mut mounts = Vec::new();
        let mut own_hosts = false;
        for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
            own_hosts |= mount.mount_path == "/etc/hosts";
            let standing = volumes.get(&mount.name).ok_or_else(|| {
                Error::Pod(format!(
                    "cannot find volume \"{}\" to mount into container \"{}\"",
                    mount.name, container.name
                ))
            })?;
            mounts.push(self.one_mount(pod, container, index, mount, standing, env)?);
        }
        let hosts = self.hosts_file(view::uid(pod));
        if !own_hosts && hosts.exists() {
            mounts.push(pb::Mount {
                container_path: "/etc/hosts".into(),
                host_path: hosts.to_string_lossy().into_owned(),
                ..Default::default()
            });
        }
        Ok(mounts)
    }

    /// The /etc/hosts of a Pod.
    pub fn hosts_file(&self, uid: &str) -> std::path::PathBuf {
        self.pod_dir(uid).join("etc-hosts")
    }

    fn one_mount(
        &self,
        pod: &Pod,
        container: &Container,
        index: usize,
        mount: &VolumeMount,
        standing: &Standing,
        env: &Env,
    ) -> Result<pb::Mount> {
        let sub = match mount.sub_path_expr.as_deref().filter(|expr| !expr.is_empty()) {
            Some(expr) => {
                let expanded = expand(expr, |name| env.get(name).cloned());
                if expanded.contains("$(") {
                    return Err(Error::Pod(format!("missing value for variable in subPathExpr \"{expr}\"")));
                }
                expanded
            }
            None => mount.sub_path.clone().unwrap_or_default(),
        };
        let path = if sub.is_empty() {
            standing.path.clone()
        } else {
            let place = self.pod_dir(view::uid(pod)).join("volume-subpaths").join(&mount.name).join(&container.name);
            subpath::prepare(&standing.path, &sub, &place.join(index.to_string())).map_err(|error| match error {
                Error::Pod(_) => error,
                other => {
                    // What is on the node is none of the user's business.
                    tracing::warn!(error = %other, "subPath");
                    Error::Pod(format!(
                        "failed to prepare subPath for volumeMount \"{}\" of container \"{}\"",
                        mount.name, container.name
                    ))
                }
            })?
        };
        let propagation = match mount.mount_propagation.as_deref() {
            Some("HostToContainer") => pb::MountPropagation::PropagationHostToContainer,
            Some("Bidirectional") => pb::MountPropagation::PropagationBidirectional,
            _ => pb::MountPropagation::PropagationPrivate,
        };
        let container_path = if Path::new(&mount.mount_path).is_absolute() {
            mount.mount_path.clone()
        } else {
            format!("/{}", mount.mount_path)
        };
        Ok(pb::Mount {
            container_path,
            host_path: path.to_string_lossy().into_owned(),
            readonly: mount.read_only.unwrap_or_default() || standing.read_only,
            propagation: propagation.into(),
            ..Default::default()
        })
    }
}
