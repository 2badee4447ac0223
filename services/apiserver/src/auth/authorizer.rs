//! The chain of authorizers, and the words of a refusal.

use std::sync::Arc;

use trireme_machinery::gvk::GroupResource;
use trireme_machinery::status::Status;

use super::attributes::{Attributes, Decision, Verdict};
use super::node::NodeAuthorizer;
use super::rbac::Rbac;
use super::user::{UserInfo, quoted};

/// Which authorizers are asked, after the privileged group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Kubelets may do what their pods need.
    Node,
    /// Roles and bindings.
    Rbac,
    /// Everyone may do everything (tests and drills).
    AlwaysAllow,
}

impl Mode {
    /// Reads a value of `--authorization-mode`.
    pub fn parse(list: &str) -> Result<Vec<Self>, String> {
        list.split(',')
            .map(|mode| match mode.trim() {
                "Node" => Ok(Self::Node),
                "RBAC" => Ok(Self::Rbac),
                "AlwaysAllow" => Ok(Self::AlwaysAllow),
                other => Err(format!("unknown authorization mode {other:?}; supported are Node, RBAC and AlwaysAllow")),
            })
            .collect()
    }
}

/// Decides every request. Cheap to share.
#[derive(Clone)]
pub struct Authorizer {
    modes: Arc<[Mode]>,
    node: Arc<NodeAuthorizer>,
    rbac: Arc<Rbac>,
}

impl Authorizer {
    /// A chain of these modes.
    #[must_use]
    pub fn new(modes: Vec<Mode>, node: Arc<NodeAuthorizer>, rbac: Arc<Rbac>) -> Self {
        Self { modes: modes.into(), node, rbac }
    }

    /// RBAC, for those who resolve rules (escalation checks, rules reviews).
    #[must_use]
    pub fn rbac(&self) -> &Rbac {
        &self.rbac
    }

    /// May `user` do this? The first authorizer with an opinion decides; without one the answer is no.
    #[must_use]
    pub fn authorize(&self, user: &UserInfo, attributes: &Attributes<'_>) -> Decision {
        if user.is_privileged() {
            return Decision::allow("");
        }
        let mut reasons = Vec::new();
        for mode in self.modes.iter() {
            let decision = match mode {
                Mode::AlwaysAllow => Decision::allow(""),
                Mode::Node => self.node.authorize(user, attributes),
                Mode::Rbac => self.rbac.authorize(user, attributes),
            };
            if decision.verdict != Verdict::NoOpinion {
                return decision;
            }
            if !decision.reason.is_empty() {
                reasons.push(decision.reason);
            }
        }
        Decision::no_opinion(reasons.join("\n"))
    }

    /// Like [`Self::authorize`], with anything but a yes as the error the caller gets.
    pub fn require(&self, user: &UserInfo, attributes: &Attributes<'_>) -> Result<(), Status> {
        let decision = self.authorize(user, attributes);
        if decision.allowed() { Ok(()) } else { Err(forbidden(user, attributes, &decision.reason)) }
    }
}

/// The refusal of what `attributes` asks, in upstream's words.
#[must_use]
pub fn forbidden(user: &UserInfo, attributes: &Attributes<'_>, reason: &str) -> Status {
    let who = quoted(&user.name);
    let verb = attributes.verb;
    let mut message = if attributes.is_resource {
        let resource = match attributes.subresource {
            "" => attributes.resource.to_owned(),
            sub => format!("{}/{sub}", attributes.resource),
        };
        let place = match attributes.namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {}", quoted(namespace)),
        };
        let (resource, group) = (quoted(&resource), quoted(attributes.group));
        format!("User {who} cannot {verb} resource {resource} in API group {group} {place}")
    } else {
        format!("User {who} cannot {verb} path {}", quoted(attributes.path))
    };
    // Nothing that a browser could take for markup.
    message = message.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    if !reason.is_empty() {
        message.push_str(": ");
        message.push_str(reason);
    }
    let resource = GroupResource { group: attributes.group.to_owned(), resource: attributes.resource.to_owned() };
    Status::forbidden(&resource, attributes.name, &message)
}
