//! `default/kubernetes`: the Service of the API itself, its Endpoints and its EndpointSlice.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};
use trireme_kinds::Kind;
use trireme_machinery::meta;
use trireme_machinery::status::Status;

use super::ensure::ensure;
use super::identity;
use super::services::Allocator;
use super::{Duty, Surroundings};
use crate::config::EndpointReconciler;
use crate::error::Error;
use crate::pipeline::Objects;

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";

/// The duty.
pub struct KubernetesService {
    objects: Arc<dyn Objects>,
    services: Arc<Kind>,
    endpoints: Arc<Kind>,
    slices: Arc<Kind>,
    leases: Arc<Kind>,
    /// The first address of the default range.
    cluster_ip: IpAddr,
    own: (IpAddr, u16),
    /// Whether this server is one of the endpoints.
    reconciles: bool,
}

impl KubernetesService {
    /// Keeps the Service pointing to the living replicas.
    pub fn new(around: &Surroundings, allocator: &Allocator) -> Result<Self, Error> {
        let range =
            allocator.ranges().first().ok_or_else(|| Error::Flag("--service-cluster-ip-range is empty".into()))?;
        Ok(Self {
            objects: around.objects.clone(),
            services: around.kind("", "services")?,
            endpoints: around.kind("", "endpoints")?,
            slices: around.kind("discovery.k8s.io", "endpointslices")?,
            leases: around.kind("coordination.k8s.io", "leases")?,
            cluster_ip: range.nth(1),
            own: (around.advertise, around.port),
            reconciles: around.config.endpoint_reconciler_type == EndpointReconciler::Lease,
        })
    }

    async fn service(&self) -> Result<(), Status> {
        let object = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "namespace": NAMESPACE,
                "name": NAME,
                "labels": {"component": "apiserver", "provider": "kubernetes"},
            },
            "spec": {
                "type": "ClusterIP",
                "clusterIP": self.cluster_ip.to_string(),
                "clusterIPs": [self.cluster_ip.to_string()],
                "ipFamilies": [if self.cluster_ip.is_ipv4() { "IPv4" } else { "IPv6" }],
                "ipFamilyPolicy": "SingleStack",
                "sessionAffinity": "None",
                "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": self.own.1}],
            },
        });
        let port = &object["spec"]["ports"];
        let amend = |value: &mut Value| {
            let same = value["spec"]["ports"].as_array().is_some_and(|ports| {
                ports.len() == 1
                    && ["name", "port", "protocol", "targetPort"].iter().all(|key| ports[0][key] == port[0][key])
            });
            if !same {
                value["spec"]["ports"] = port.clone();
            }
        };
        ensure(self.objects.as_ref(), self.check(), &self.services, &object, amend).await
    }

    async fn endpoints(&self, addresses: &BTreeSet<IpAddr>) -> Result<(), Status> {
        let listed: Vec<Value> = addresses.iter().map(|address| json!({"ip": address.to_string()})).collect();
        let ports = json!([{"name": "https", "port": self.own.1, "protocol": "TCP"}]);
        let subsets = json!([{"addresses": listed, "ports": ports}]);
        let object = json!({
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {
                "namespace": NAMESPACE,
                "name": NAME,
                "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
            },
            "subsets": subsets,
        });
        let amend = |value: &mut Value| {
            meta::set_label(value, "endpointslice.kubernetes.io/skip-mirror", "true");
            value["subsets"] = subsets.clone();
        };
        ensure(self.objects.as_ref(), self.check(), &self.endpoints, &object, amend).await
    }

    async fn slice(&self, addresses: &BTreeSet<IpAddr>) -> Result<(), Status> {
        let v4 = self.own.0.is_ipv4();
        let endpoints: Vec<Value> = addresses
            .iter()
            .filter(|address| address.is_ipv4() == v4)
            .map(|address| json!({"addresses": [address.to_string()], "conditions": {"ready": true}}))
            .collect();
        let ports = json!([{"name": "https", "port": self.own.1, "protocol": "TCP"}]);
        let object = json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"namespace": NAMESPACE, "name": NAME, "labels": {"kubernetes.io/service-name": NAME}},
            "addressType": if v4 { "IPv4" } else { "IPv6" },
            "endpoints": endpoints,
            "ports": ports,
        });
        let amend = |value: &mut Value| {
            meta::set_label(value, "kubernetes.io/service-name", NAME);
            value["endpoints"] = json!(endpoints);
            value["ports"] = ports.clone();
        };
        ensure(self.objects.as_ref(), self.check(), &self.slices, &object, amend).await
    }
}

#[async_trait]
impl Duty for KubernetesService {
    fn check(&self) -> &'static str {
        "poststarthook/bootstrap-controller"
    }

    fn rhythm(&self) -> Duration {
        Duration::from_secs(10)
    }

    /// Whoever reached this server does not need the Service, and upstream writes its endpoints only when it is ready.
    fn holds_readiness(&self) -> bool {
        false
    }

    async fn run(&self) -> Result<(), Status> {
        self.service().await?;
        if !self.reconciles {
            return Ok(());
        }
        let living = identity::living(self.objects.reader(), &self.leases, Timestamp::now());
        let mut addresses: BTreeSet<IpAddr> = living.into_iter().map(|(address, _)| address).collect();
        addresses.insert(self.own.0);
        self.endpoints(&addresses).await?;
        self.slice(&addresses).await
    }
}
