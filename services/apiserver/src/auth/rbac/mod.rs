//! RBAC: roles, bindings, and who they let do what.

mod compact;
mod index;
mod rule;

use std::sync::Arc;

use arc_swap::ArcSwap;
use trireme_kinds::{Kind, Registry};

pub use compact::{Uncovered, covers};
pub use index::{Binding, Index, RoleRef, Scope};
pub use rule::PolicyRule;

use super::attributes::{Attributes, Decision};
use super::user::UserInfo;
use crate::pipeline::Reader;

/// The API group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// Answers from the roles and bindings in the watch cache, through an index that is replaced when they change.
///
/// Invariant: an index is never older than the cache's revisions at the moment of the question.
pub struct Rbac {
    reader: Arc<dyn Reader>,
    kinds: Kinds,
    index: ArcSwap<Index>,
}

/// The four kinds that RBAC reads.
struct Kinds {
    cluster_roles: Arc<Kind>,
    roles: Arc<Kind>,
    cluster_role_bindings: Arc<Kind>,
    role_bindings: Arc<Kind>,
}

impl Rbac {
    /// RBAC over the objects that `reader` holds. `None` if the registry lacks one of its kinds.
    #[must_use]
    pub fn new(reader: Arc<dyn Reader>, registry: &Registry) -> Option<Self> {
        let kind = |plural| registry.by_resource(GROUP, "v1", plural);
        let kinds = Kinds {
            cluster_roles: kind("clusterroles")?,
            roles: kind("roles")?,
            cluster_role_bindings: kind("clusterrolebindings")?,
            role_bindings: kind("rolebindings")?,
        };
        Some(Self { reader, kinds, index: ArcSwap::from_pointee(Index::default()) })
    }

    /// The index as of now.
    #[must_use]
    pub fn index(&self) -> Arc<Index> {
        let kinds = [
            &self.kinds.cluster_roles,
            &self.kinds.roles,
            &self.kinds.cluster_role_bindings,
            &self.kinds.role_bindings,
        ];
        let revisions = kinds.map(|kind| self.reader.revision(kind));
        let index = self.index.load_full();
        if index.revisions == revisions {
            return index;
        }
        // Two askers may both build it; both are right, and the later one stays.
        let [cluster_roles, roles, cluster_bindings, bindings] = kinds.map(|kind| self.reader.list(kind, None));
        let built = Arc::new(index.rebuild(revisions, &cluster_roles, &roles, &cluster_bindings, &bindings));
        self.index.store(built.clone());
        built
    }

    /// May `user` do this?
    #[must_use]
    pub fn authorize(&self, user: &UserInfo, attributes: &Attributes<'_>) -> Decision {
        let index = self.index();
        let mut missing = Vec::new();
        for grant in index.grants(user, attributes.namespace) {
            match index.rules_of(&grant.binding.role, grant.binding.namespace()) {
                Err(error) => missing.push(error),
                Ok(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
                    return Decision::allow(format!("RBAC: allowed by {}", grant.describe()));
                }
                Ok(_) => {}
            }
        }
        match missing.len() {
            0 => Decision::no_opinion(""),
            1 => Decision::no_opinion(format!("RBAC: {}", missing.remove(0))),
            _ => Decision::no_opinion(format!("RBAC: [{}]", missing.join(", "))),
        }
    }

    /// Every rule that applies to `user` in `namespace`, and what could not be resolved.
    #[must_use]
    pub fn rules_for(&self, user: &UserInfo, namespace: &str) -> (Vec<PolicyRule>, Vec<String>) {
        let index = self.index();
        let (mut rules, mut errors) = (Vec::new(), Vec::new());
        for grant in index.grants(user, namespace) {
            match index.rules_of(&grant.binding.role, grant.binding.namespace()) {
                Ok(found) => rules.extend(found.iter().cloned()),
                Err(error) => errors.push(error),
            }
        }
        (rules, errors)
    }
}
