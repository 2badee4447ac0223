//! What volumes a Pod has to have, and what of the API they are made of.

use crate::api::Objects;
use crate::pod::view::{self, spec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccountTokenProjection, Volume, VolumeProjection};
use std::collections::BTreeSet;

/// The volumes that a container mounts. Others are not set up, so nothing is wrong with a Pod if they can't be.
pub(super) fn volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    let spec = spec(pod);
    let containers = spec.containers.iter().chain(view::init_containers(pod));
    let mounts = containers.flat_map(|container| container.volume_mounts.iter().flatten());
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    let mounts = mounts.chain(ephemeral.flat_map(|container| container.volume_mounts.iter().flatten()));
    let used: BTreeSet<&str> = mounts.map(|mount| mount.name.as_str()).collect();
    spec.volumes.iter().flatten().filter(move |volume| used.contains(volume.name.as_str()))
}

fn projections(pod: &Pod) -> impl Iterator<Item = &VolumeProjection> {
    let projected = volumes(pod).filter_map(|volume| volume.projected.as_ref());
    projected.flat_map(|source| source.sources.iter().flatten())
}

/// Tokens of service accounts.
pub(super) fn tokens(pod: &Pod) -> impl Iterator<Item = &ServiceAccountTokenProjection> {
    projections(pod).filter_map(|part| part.service_account_token.as_ref())
}

/// Has the ConfigMaps and Secrets of the volumes at hand. What can't be had is told when a volume needs it.
pub async fn warm(pod: &Pod, objects: &dyn Objects) {
    let maps: BTreeSet<&str> = volumes(pod)
        .filter_map(|volume| Some(volume.config_map.as_ref()?.name.as_str()))
        .chain(projections(pod).filter_map(|part| Some(part.config_map.as_ref()?.name.as_str())))
        .collect();
    let secrets: BTreeSet<&str> = volumes(pod)
        .filter_map(|volume| volume.secret.as_ref()?.secret_name.as_deref())
        .chain(projections(pod).filter_map(|part| Some(part.secret.as_ref()?.name.as_str())))
        .collect();
    crate::api::warm(objects, view::namespace(pod), maps, secrets).await;
}
