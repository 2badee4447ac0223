//! Pods and nodes for tests.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};
use trireme_machinery::tree;

use crate::model::PodInfo;

/// A node of 4 CPUs, 8 GiB and 110 pods.
pub(crate) fn node(name: &str) -> NodeBuilder {
    let size = json!({"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "100Gi"});
    NodeBuilder(json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": {},
        "status": {"allocatable": size}}))
}

/// A pod of one container in the namespace `default`; its uid is its name.
pub(crate) fn pod(name: &str) -> PodBuilder {
    PodBuilder(json!({"metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": [{"name": "c", "image": "img:1"}]}}))
}

pub(crate) struct NodeBuilder(Value);
pub(crate) struct PodBuilder(Value);

impl NodeBuilder {
    pub(crate) fn set(mut self, path: &[&str], value: Value) -> Self {
        tree::set(&mut self.0, path, value);
        self
    }

    pub(crate) fn label(self, key: &str, value: &str) -> Self {
        self.set(&["metadata", "labels", key], value.into())
    }

    pub(crate) fn taint(mut self, key: &str, effect: &str) -> Self {
        let mut taints = tree::list(&self.0, &["spec", "taints"]).to_vec();
        taints.push(json!({"key": key, "value": "x", "effect": effect}));
        tree::set(&mut self.0, &["spec", "taints"], taints);
        self
    }

    pub(crate) fn size(self, cpu: &str, memory: &str) -> Self {
        self.set(&["status", "allocatable", "cpu"], cpu.into()).set(&["status", "allocatable", "memory"], memory.into())
    }

    pub(crate) fn build(self) -> Arc<Node> {
        Arc::new(serde_json::from_value(self.0).unwrap())
    }
}

impl PodBuilder {
    pub(crate) fn set(mut self, path: &[&str], value: Value) -> Self {
        tree::set(&mut self.0, path, value);
        self
    }

    pub(crate) fn label(self, key: &str, value: &str) -> Self {
        self.set(&["metadata", "labels", key], value.into())
    }

    pub(crate) fn on(self, node: &str) -> Self {
        self.set(&["spec", "nodeName"], node.into())
    }

    pub(crate) fn cpu(self, cpu: &str) -> Self {
        self.request("cpu", cpu)
    }

    pub(crate) fn memory(self, memory: &str) -> Self {
        self.request("memory", memory)
    }

    pub(crate) fn request(mut self, name: &str, amount: &str) -> Self {
        if let Some(container) = self.0["spec"]["containers"].get_mut(0) {
            tree::set(container, &["resources", "requests", name], amount);
        }
        self
    }

    pub(crate) fn port(mut self, port: Value) -> Self {
        if let Some(container) = self.0["spec"]["containers"].get_mut(0) {
            tree::set(container, &["ports"], vec![port]);
        }
        self
    }

    pub(crate) fn priority(self, priority: i32) -> Self {
        self.set(&["spec", "priority"], priority.into())
    }

    pub(crate) fn build(self) -> Arc<Pod> {
        Arc::new(serde_json::from_value(self.0).unwrap())
    }

    pub(crate) fn info(self) -> Arc<PodInfo> {
        Arc::new(PodInfo::new(self.build()))
    }
}
