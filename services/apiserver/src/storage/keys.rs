//! Keys in the store: `<prefix>/<resource>[/<namespace>]/<name>`, as upstream lays them out.

/// The key of an object; of a namespace's or a kind's whole range with an empty name, ending in a slash.
pub fn key(root: &str, resource: &str, namespace: &str, name: &str) -> String {
    let mut key = String::with_capacity(root.len() + resource.len() + namespace.len() + name.len() + 3);
    key.push_str(root);
    key.push('/');
    key.push_str(resource);
    key.push('/');
    if !namespace.is_empty() {
        key.push_str(namespace);
        key.push('/');
    }
    key.push_str(name);
    key
}

/// The resource parts a key may have, longest first (`services/specs`, then `services`), each with what is behind it.
pub fn resources<'a>(root: &str, key: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let rest = key.strip_prefix(root).and_then(|rest| rest.strip_prefix('/')).unwrap_or("");
    let first = rest.find('/');
    let second = first.and_then(|at| rest[at + 1..].find('/').map(|next| at + 1 + next));
    [second, first].into_iter().flatten().map(move |at| (&rest[..at], &rest[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_upstreams() {
        assert_eq!(key("/registry", "pods", "default", "web"), "/registry/pods/default/web");
        assert_eq!(key("/registry", "minions", "", "n1"), "/registry/minions/n1");
        assert_eq!(key("/registry", "services/specs", "a", ""), "/registry/services/specs/a/");
    }

    #[test]
    fn resources_of_a_key() {
        let all: Vec<_> = resources("/registry", "/registry/services/specs/a/b").collect();
        assert_eq!(all, [("services/specs", "a/b"), ("services", "specs/a/b")]);
        assert_eq!(resources("/registry", "/registry/minions/n1").collect::<Vec<_>>(), [("minions", "n1")]);
        assert_eq!(resources("/registry", "compact_rev_key").count(), 0);
    }
}
