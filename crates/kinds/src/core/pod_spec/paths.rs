//! What is wrong with paths inside of volumes and containers.

use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::path::Path;

/// A relative path without steps back.
pub(super) fn local_path(path: &str, at: &Path, errors: &mut ErrorList) {
    if path.starts_with('/') {
        errors.push(field::invalid(at, path, "must be a relative path"));
    }
    no_backsteps(path, at, errors);
}

/// A path without steps back.
pub(super) fn no_backsteps(path: &str, at: &Path, errors: &mut ErrorList) {
    if path.split('/').any(|part| part == "..") {
        errors.push(field::invalid(at, path, "must not contain '..'"));
    }
}

/// A relative path that does not begin like what the kubelet keeps for itself.
pub(super) fn own_path(path: &str, at: &Path, errors: &mut ErrorList) {
    local_path(path, at, errors);
    if path.starts_with("..") && !path.starts_with("../") {
        errors.push(field::invalid(at, path, "must not start with '..'"));
    }
}
