//! What the controllers of one worker share: the client, the claim, the clock, and one informer a kind.

use std::sync::{Arc, OnceLock};

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Endpoints, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use trireme_client::{Claim, Client, Clock, Controller, EventRecorder, Informer, ServiceAccounts, Tasks};

use crate::Config;
use crate::common::{owner, pods};

/// Index of pods by the uid of their controller; pods without one are at [`orphans_of`] their namespace.
pub(crate) const POD_CONTROLLER: &str = "controller";
/// Index of pods by the node they are assigned to.
pub(crate) const POD_NODE: &str = "node";
/// Index of pods by `namespace/claim` of each claim that their volumes name.
pub(crate) const POD_CLAIM: &str = "claim";
/// Index of ReplicaSets by the uid of their controller.
pub(crate) const REPLICA_SET_OWNER: &str = "owner";
/// Index of EndpointSlices by `namespace/service`.
pub(crate) const SLICE_SERVICE: &str = "service";

/// Where the pods without a controller of a namespace are in [`POD_CONTROLLER`].
pub(crate) fn orphans_of(namespace: &str) -> String {
    format!("orphans/{namespace}")
}

/// See the module. Clones are the same.
#[derive(Clone)]
pub(crate) struct Cluster {
    /// With this controllers write: as their service account.
    pub(crate) client: Client,
    /// With this informers read, for all controllers.
    reader: Client,
    accounts: Option<ServiceAccounts>,
    pub(crate) clock: Clock,
    pub(crate) tasks: Tasks,
    pub(crate) config: Arc<Config>,
    claim: Option<Claim>,
    informers: Arc<Informers>,
}

/// Informers start when the first controller asks for them.
#[derive(Default)]
struct Informers {
    deployments: OnceLock<Informer<Deployment>>,
    replica_sets: OnceLock<Informer<ReplicaSet>>,
    daemon_sets: OnceLock<Informer<DaemonSet>>,
    revisions: OnceLock<Informer<ControllerRevision>>,
    pods: OnceLock<Informer<Pod>>,
    nodes: OnceLock<Informer<Node>>,
    services: OnceLock<Informer<Service>>,
    slices: OnceLock<Informer<EndpointSlice>>,
    endpoints: OnceLock<Informer<Endpoints>>,
    namespaces: OnceLock<Informer<Namespace>>,
    accounts: OnceLock<Informer<ServiceAccount>>,
    root_cas: OnceLock<Informer<ConfigMap>>,
    node_leases: OnceLock<Informer<Lease>>,
    claims: OnceLock<Informer<PersistentVolumeClaim>>,
    volumes: OnceLock<Informer<PersistentVolume>>,
    volume_classes: OnceLock<Informer<VolumeAttributesClass>>,
}

impl Cluster {
    pub(crate) fn new(
        client: Client,
        accounts: Option<ServiceAccounts>,
        tasks: Tasks,
        config: Arc<Config>,
        claim: Option<Claim>,
    ) -> Self {
        let reader = client.clone();
        Self { client, reader, accounts, clock: Clock::system(), tasks, config, claim, informers: Arc::default() }
    }

    /// The same for a controller that writes as this service account of kube-system.
    pub(crate) fn acting_as(&self, account: &str) -> Self {
        let client = match &self.accounts {
            Some(accounts) => accounts.client("kube-system", account),
            None => self.reader.clone(),
        };
        Self { client, ..self.clone() }
    }

    /// The client of informers.
    pub(crate) fn reader(&self) -> &Client {
        &self.reader
    }

    /// A controller under the worker's claim.
    pub(crate) fn controller(&self, name: &'static str) -> Controller {
        let controller = Controller::new(name).clock(&self.clock).trace_window(self.config.trace_window);
        match &self.claim {
            Some(claim) => controller.claim(claim),
            None => controller,
        }
    }

    /// A recorder of events of this component.
    pub(crate) fn events(&self, component: &str) -> EventRecorder {
        EventRecorder::new(&self.client, component, "", &self.clock, &self.tasks)
    }

    pub(crate) fn deployments(&self) -> Informer<Deployment> {
        let start = || Informer::builder(&self.reader).start(&self.tasks);
        self.informers.deployments.get_or_init(start).clone()
    }

    pub(crate) fn replica_sets(&self) -> Informer<ReplicaSet> {
        let owner = |set: &ReplicaSet| owner::controller_of(&set.metadata).map(|r| r.uid.clone()).into_iter().collect();
        let start = || Informer::builder(&self.reader).index(REPLICA_SET_OWNER, owner).start(&self.tasks);
        self.informers.replica_sets.get_or_init(start).clone()
    }

    pub(crate) fn daemon_sets(&self) -> Informer<DaemonSet> {
        self.informers.daemon_sets.get_or_init(|| Informer::builder(&self.reader).start(&self.tasks)).clone()
    }

    pub(crate) fn revisions(&self) -> Informer<ControllerRevision> {
        self.informers.revisions.get_or_init(|| Informer::builder(&self.reader).start(&self.tasks)).clone()
    }

    pub(crate) fn pods(&self) -> Informer<Pod> {
        let controller = |pod: &Pod| match owner::controller_of(&pod.metadata) {
            Some(reference) => vec![reference.uid.clone()],
            None => vec![orphans_of(pod.metadata.namespace.as_deref().unwrap_or_default())],
        };
        let node = |pod: &Pod| pod.spec.as_ref().and_then(|s| s.node_name.clone()).into_iter().collect();
        let claims = |pod: &Pod| pods::claims(pod).map(|claim| claim.key.to_string()).collect();
        let start = || {
            Informer::builder(&self.reader)
                .index(POD_CONTROLLER, controller)
                .index(POD_NODE, node)
                .index(POD_CLAIM, claims)
                .start(&self.tasks)
        };
        self.informers.pods.get_or_init(start).clone()
    }

    pub(crate) fn nodes(&self) -> Informer<Node> {
        self.informers.nodes.get_or_init(|| Informer::builder(&self.reader).start(&self.tasks)).clone()
    }

    pub(crate) fn services(&self) -> Informer<Service> {
        self.informers.services.get_or_init(|| Informer::builder(&self.reader).start(&self.tasks)).clone()
    }

    pub(crate) fn slices(&self) -> Informer<EndpointSlice> {
        let service = |slice: &EndpointSlice| {
            let meta = &slice.metadata;
            let name = meta.labels.as_ref().and_then(|l| l.get("kubernetes.io/service-name"));
            name.map(|n| format!("{}/{n}", meta.namespace.as_deref().unwrap_or_default())).into_iter().collect()
        };
        let start = || Informer::builder(&self.reader).index(SLICE_SERVICE, service).start(&self.tasks);
        self.informers.slices.get_or_init(start).clone()
    }

    pub(crate) fn endpoints(&self) -> Informer<Endpoints> {
        self.informers.endpoints.get_or_init(|| Informer::builder(&self.reader).start(&self.tasks)).clone()
    }

    pub(crate) fn namespaces(&self) -> Informer<Namespace> {
        self.informers.namespaces.get_or_init(|| Informer::builder(&self.reader).start(&self.tasks)).clone()
    }

    pub(crate) fn accounts(&self) -> Informer<ServiceAccount> {
        self.informers.accounts.get_or_init(|| Informer::builder(&self.reader).start(&self.tasks)).clone()
    }

    /// The ConfigMaps that hold the certificate authority, one a namespace.
    pub(crate) fn root_cas(&self) -> Informer<ConfigMap> {
        let start = || {
            Informer::builder(&self.reader)
                .fields(format!("metadata.name={}", crate::root_ca::CONFIG_MAP))
                .start(&self.tasks)
        };
        self.informers.root_cas.get_or_init(start).clone()
    }

    pub(crate) fn claims(&self) -> Informer<PersistentVolumeClaim> {
        self.informers.claims.get_or_init(|| Informer::builder(&self.reader).start(&self.tasks)).clone()
    }

    pub(crate) fn volumes(&self) -> Informer<PersistentVolume> {
        self.informers.volumes.get_or_init(|| Informer::builder(&self.reader).start(&self.tasks)).clone()
    }

    pub(crate) fn volume_classes(&self) -> Informer<VolumeAttributesClass> {
        self.informers.volume_classes.get_or_init(|| Informer::builder(&self.reader).start(&self.tasks)).clone()
    }

    pub(crate) fn node_leases(&self) -> Informer<Lease> {
        let start = || Informer::builder(&self.reader).namespace("kube-node-lease").start(&self.tasks);
        self.informers.node_leases.get_or_init(start).clone()
    }
}
