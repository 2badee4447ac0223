//! Admission: plugins that complete or refuse writes, between decoding and persisting.
//!
//! A [`Chain`] runs all mutating plugins, then (after validation of the object) all validating ones, in upstream's order,
//! and stops at the first refusal. Plugins read the watch cache and keep no state.
//!
//! | plugin | what it does |
//! |---|---|
//! | [`namespace`] NamespaceLifecycle | nothing is created in a namespace that is absent or going |
//! | [`limit_ranger`] LimitRanger | defaults and bounds of resources |
//! | [`service_account`] ServiceAccount | every Pod has an account, its token and its pull secrets |
//! | [`node_restriction`] NodeRestriction | a kubelet writes about itself and its pods only, and gets tokens for [`node_audiences`] of their volumes |
//! | [`node_taint`] TaintNodesByCondition | a new Node starts not ready |
//! | [`pod_security`] PodSecurity | the Pod Security Standards of a namespace |
//! | [`priority`] Priority | a Pod's number from its class |
//! | [`tolerations`] DefaultTolerationSeconds | five minutes on an unreachable node |
//! | [`storage`] DefaultStorageClass, StorageObjectInUseProtection | claims get a class and are kept while used |
//! | [`runtime_class`] RuntimeClass | overhead and scheduling of a runtime |
//! | [`certificates`] CertificateApproval, CertificateSigning, CertificateSubjectRestriction | who may have a certificate signed |
//! | [`ingress_class`] DefaultIngressClass | an Ingress gets the default class |
//! | [`topology`] PodTopologyLabels | a bound Pod carries its node's zone and region |
//! | [`quota`] ResourceQuota | what a namespace may use in all; last, because it counts |

mod attributes;
mod chain;

pub mod certificates;
pub mod ingress_class;
pub mod limit_ranger;
mod limits;
pub mod namespace;
pub mod node_audiences;
pub mod node_restriction;
pub mod node_taint;
pub mod pod;
pub mod pod_security;
pub mod priority;
pub mod privileged;
pub mod quota;
pub mod resources;
pub mod runtime_class;
pub mod service_account;
pub mod storage;
pub mod tolerations;
pub mod topology;

pub use attributes::{Attributes, Operation};
pub use chain::{Chain, Plugin};

#[cfg(test)]
pub(crate) mod testing;
