//! The core group: one file a kind.

mod binding;
mod component_status;
mod config_map;
mod data;
mod defaults;
mod endpoints;
pub(crate) mod event;
pub(crate) mod event_validate;
mod limit_range;
mod namespace;
mod node;
mod persistent_volume;
mod persistent_volume_claim;
mod pod;
pub(crate) mod pod_spec;
mod pod_template;
mod pod_update;
pub(crate) mod pod_warnings;
mod qos;
mod replication_controller;
mod resource_quota;
mod secret;
mod service;
mod service_account;
mod service_update;
mod service_validate;
mod service_warnings;

pub(crate) use defaults::DEFAULTS;
pub(crate) use service_validate::endpoint_ip;

use crate::definition::Definition;

/// The kinds of the group.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![
        binding::definition(),
        component_status::definition(),
        config_map::definition(),
        endpoints::definition(),
        event::definition(),
        limit_range::definition(),
        namespace::definition(),
        node::definition(),
        persistent_volume_claim::definition(),
        persistent_volume::definition(),
        pod::definition(),
        pod_template::definition(),
        replication_controller::definition(),
        resource_quota::definition(),
        secret::definition(),
        service_account::definition(),
        service::definition(),
    ]
}
