//! The kubelet: Pods on a node over CRI v1.
