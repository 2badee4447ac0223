//! What is said of several kinds of the group.

use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;

use crate::check::Node;

const MAX_PARAMETERS: usize = 512;
const MAX_PARAMETERS_SIZE: usize = 256 << 10;
const MAX_DRIVER: usize = 63;

/// Of the name of who makes volumes.
pub(super) fn driver(root: &Node<'_>, key: &str, errors: &mut ErrorList) {
    if root.required(key, errors) {
        let at = root.path.child(key);
        let name = root.str(key).to_lowercase();
        errors.extend(names::is_qualified_name(&name).into_iter().map(|m| field::invalid(&at, &name, m)));
    }
}

/// Of the parameters of a class.
pub(super) fn parameters(root: &Node<'_>, errors: &mut ErrorList) {
    let parameters = root.entries("parameters");
    let at = root.path.child("parameters");
    if parameters.len() > MAX_PARAMETERS {
        errors.push(field::too_long(&at, MAX_PARAMETERS));
        return;
    }
    if parameters.iter().any(|(key, _)| key.is_empty()) {
        errors.push(field::invalid(&at, "", "field can not be empty."));
    }
    if parameters.iter().map(|(key, value)| key.len() + value.text().len()).sum::<usize>() > MAX_PARAMETERS_SIZE {
        errors.push(field::too_long(&at, MAX_PARAMETERS_SIZE));
    }
}

/// Of the name of a CSI driver.
pub(super) fn csi_driver(node: &Node<'_>, errors: &mut ErrorList) {
    let name = node.text();
    if name.is_empty() {
        errors.push(field::required(&node.path, ""));
        return;
    }
    if name.len() > MAX_DRIVER {
        errors.push(field::too_long(&node.path, MAX_DRIVER));
    }
    let wrong = names::is_dns1123_subdomain(&name.to_lowercase());
    errors.extend(wrong.into_iter().map(|m| field::invalid(&node.path, name, m)));
}
