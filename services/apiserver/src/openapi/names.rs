//! Names of documents, operations and tags.

/// The key of a document in the index: `api/v1`, `apis/apps/v1`.
pub(super) fn document_key(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().collect::<String>() + letters.as_str()).unwrap_or_default()
}

/// The group in names: `core`, `apps`, `rbacAuthorization`.
fn group_word(group: &str) -> String {
    if group.is_empty() {
        return "core".to_owned();
    }
    let short = group.strip_suffix(".k8s.io").unwrap_or(group);
    let mut words = short.split('.');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &capital(word))
}

/// What operation ids of a group and version carry: `RbacAuthorizationV1`.
pub(super) fn operation_part(group: &str, version: &str) -> String {
    capital(&group_word(group)) + &capital(version)
}

/// The tag of a group and version: `rbacAuthorization_v1`.
pub(super) fn tag(group: &str, version: &str) -> String {
    format!("{}_{version}", group_word(group))
}

/// A subresource in operation ids: `Ephemeralcontainers`.
pub(super) fn subresource_part(name: &str) -> String {
    capital(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_upstreams() {
        assert_eq!(operation_part("rbac.authorization.k8s.io", "v1"), "RbacAuthorizationV1");
        assert_eq!(operation_part("", "v1"), "CoreV1");
        assert_eq!(operation_part("flowcontrol.apiserver.k8s.io", "v1"), "FlowcontrolApiserverV1");
        assert_eq!(tag("apps", "v1"), "apps_v1");
    }
}
