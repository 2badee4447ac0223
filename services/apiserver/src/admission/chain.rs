//! Plugins in their order.

use std::sync::Arc;

use async_trait::async_trait;
use trireme_kinds::Registry;
use trireme_machinery::status::Status;

use super::attributes::Attributes;
use super::{
    certificates, ingress_class, limit_ranger, namespace, node_audiences, node_restriction, node_taint, pod_security,
    priority, privileged, quota, runtime_class, service_account, storage, tolerations, topology,
};
use crate::auth::Authorizer;
use crate::config::Config;
use crate::error::Error;
use crate::pipeline::Objects;

/// Completes or refuses writes. Both halves are asked about every write and say nothing about most.
#[async_trait]
pub trait Plugin: Send + Sync {
    /// Upstream's name of the plugin, as flags have it.
    fn name(&self) -> &'static str;

    /// Completes the object, before it is validated.
    async fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let _ = attributes;
        Ok(())
    }

    /// Judges the object as it will be stored.
    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let _ = attributes;
        Ok(())
    }
}

/// All plugins that are on.
#[derive(Clone)]
pub struct Chain {
    plugins: Arc<[Arc<dyn Plugin>]>,
}

impl Chain {
    /// The plugins that there are, minus those that the flags switch off.
    pub fn new(
        objects: &Arc<dyn Objects>,
        authorizer: &Authorizer,
        registry: &Registry,
        config: &Config,
    ) -> Result<Self, Error> {
        let missing = |plural: &str| Error::Kind(plural.to_owned());
        let kind = |group: &str, plural: &str| registry.by_resource(group, "v1", plural).ok_or_else(|| missing(plural));
        let objects = || objects.clone();
        let (nodes, pods) = (kind("", "nodes")?, kind("", "pods")?);
        let audiences = node_audiences::Audiences::new(
            objects(),
            authorizer.clone(),
            kind("", "persistentvolumeclaims")?,
            kind("", "persistentvolumes")?,
            kind("storage.k8s.io", "csidrivers")?,
        );
        let mut plugins: Vec<Arc<dyn Plugin>> = vec![
            Arc::new(namespace::NamespaceLifecycle::new(objects(), kind("", "namespaces")?)),
            Arc::new(limit_ranger::LimitRanger::new(objects(), kind("", "limitranges")?)),
            Arc::new(service_account::ServiceAccount::new(objects(), kind("", "serviceaccounts")?)),
            Arc::new(node_restriction::NodeRestriction::new(objects(), pods, nodes.clone(), audiences)),
            Arc::new(node_taint::TaintNodesByCondition),
            Arc::new(pod_security::PodSecurity::new(objects(), kind("", "namespaces")?)),
            Arc::new(priority::Priority::new(objects(), kind("scheduling.k8s.io", "priorityclasses")?)),
            Arc::new(tolerations::DefaultTolerationSeconds),
            Arc::new(storage::DefaultStorageClass::new(objects(), kind("storage.k8s.io", "storageclasses")?)),
            Arc::new(storage::StorageObjectInUseProtection),
            Arc::new(runtime_class::RuntimeClass::new(objects(), kind("node.k8s.io", "runtimeclasses")?)),
            Arc::new(certificates::CertificateApproval::new(authorizer.clone())),
            Arc::new(certificates::CertificateSigning::new(authorizer.clone())),
            Arc::new(certificates::CertificateSubjectRestriction),
            Arc::new(ingress_class::DefaultIngressClass::new(objects(), kind("networking.k8s.io", "ingressclasses")?)),
            Arc::new(topology::PodTopologyLabels::new(objects(), nodes)),
            Arc::new(quota::ResourceQuota::new(objects(), kind("", "resourcequotas")?)),
        ];
        let names: Vec<&str> = plugins.iter().map(|plugin| plugin.name()).collect();
        check(&names, &config.enable_admission_plugins, &config.disable_admission_plugins)?;
        plugins.retain(|plugin| !config.disable_admission_plugins.iter().any(|name| name == plugin.name()));
        if !config.allow_privileged {
            plugins.insert(0, Arc::new(privileged::NoPrivileged));
        }
        Ok(Self { plugins: plugins.into() })
    }

    /// Runs every plugin's mutating half.
    pub async fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        for plugin in self.plugins.iter() {
            plugin.mutate(attributes).await?;
        }
        Ok(())
    }

    /// Runs every plugin's validating half.
    pub async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        for plugin in self.plugins.iter() {
            plugin.validate(attributes).await?;
        }
        Ok(())
    }
}

/// Plugins of upstream's that are not here: there is nothing to switch off.
const ELSEWHERE: [&str; 22] = [
    "AlwaysAdmit",
    "AlwaysDeny",
    "AlwaysPullImages",
    "ClusterTrustBundleAttest",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "LimitPodHardAntiAffinityTopology",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "NodeDeclaredFeatureValidator",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "PodGroupProtection",
    "PodNodeSelector",
    "PodResizeValidator",
    "PodTolerationRestriction",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
];

/// Whether the flags name what there is. All plugins are on unless they are switched off.
fn check(names: &[&str], enable: &[String], disable: &[String]) -> Result<(), Error> {
    if let Some(name) = enable.iter().find(|name| !names.contains(&name.as_str())) {
        let why = if ELSEWHERE.contains(&name.as_str()) { "is not implemented" } else { "is unknown" };
        return Err(Error::Flag(format!("--enable-admission-plugins: plugin {name:?} {why}")));
    }
    if let Some(name) = disable.iter().find(|name| !names.iter().chain(&ELSEWHERE).any(|known| known == name)) {
        return Err(Error::Flag(format!("--disable-admission-plugins: plugin {name:?} is unknown")));
    }
    match enable.iter().find(|name| disable.contains(name)) {
        Some(name) => {
            Err(Error::Flag(format!("--enable-admission-plugins and --disable-admission-plugins both name {name:?}")))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_name_plugins_that_there_are() {
        let names = ["LimitRanger", "NodeRestriction"];
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let judged = |enable: &[&str], disable: &[&str]| {
            check(&names, &list(enable), &list(disable)).map_err(|error| error.to_string())
        };
        assert!(judged(&["NodeRestriction"], &["LimitRanger"]).is_ok());
        assert!(judged(&[], &["MutatingAdmissionWebhook"]).is_ok());
        for (enable, disable, why) in [
            (&["AlwaysPullImages"][..], &[][..], "\"AlwaysPullImages\" is not implemented"),
            (&["Nope"], &[], "\"Nope\" is unknown"),
            (&[], &["Nope"], "\"Nope\" is unknown"),
            (&["LimitRanger"], &["LimitRanger"], "both name \"LimitRanger\""),
        ] {
            let refused = judged(enable, disable).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
