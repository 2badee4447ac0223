//! Plugins in their order.

use std::sync::Arc;

use async_trait::async_trait;
use trireme_kinds::Registry;
use trireme_machinery::status::Status;

use super::attributes::Attributes;
use super::{
    certificates, ingress_class, limit_ranger, namespace, node_restriction, node_taint, pod_security, priority, quota,
    runtime_class, service_account, storage, tolerations, topology,
};
use crate::auth::Authorizer;
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
    /// The default plugins, minus `disable`.
    pub fn new(
        objects: &Arc<dyn Objects>,
        authorizer: &Authorizer,
        registry: &Registry,
        disable: &[String],
    ) -> Result<Self, Error> {
        let missing = || Error::Flag("a kind that admission needs is missing".into());
        let kind = |group: &str, plural: &str| registry.by_resource(group, "v1", plural).ok_or_else(missing);
        let objects = || objects.clone();
        let (nodes, pods) = (kind("", "nodes")?, kind("", "pods")?);
        let mut plugins: Vec<Arc<dyn Plugin>> = vec![
            Arc::new(namespace::NamespaceLifecycle::new(objects(), kind("", "namespaces")?)),
            Arc::new(limit_ranger::LimitRanger::new(objects(), kind("", "limitranges")?)),
            Arc::new(service_account::ServiceAccount::new(objects(), kind("", "serviceaccounts")?)),
            Arc::new(node_restriction::NodeRestriction::new(objects(), pods, nodes.clone())),
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
        plugins.retain(|plugin| !disable.iter().any(|name| name == plugin.name()));
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
