//! Group `storagemigration.k8s.io`: one file a kind.

mod storage_version_migration;

use crate::definition::Definition;

/// The kinds of the group.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![storage_version_migration::definition()]
}
