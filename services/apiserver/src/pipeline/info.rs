//! What a request is about, read from its method and path alone.

use std::fmt;

use trireme_machinery::gvk::{GroupResource, GroupVersionResource};

/// The parts of a request line, in Kubernetes' words.
///
/// For a path outside of `/api` and `/apis` only `verb` (the lower-case method) and `path` are set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// Whether the path names a resource (known or not).
    pub is_resource: bool,
    /// The path as it was asked for.
    pub path: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; of a path without a
    /// resource the method in lower case; empty for a method that no verb stands for.
    pub verb: String,
    /// `api` or `apis`.
    pub prefix: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The version of the group.
    pub version: String,
    /// The resource's plural name.
    pub resource: String,
    /// What is asked of the object beside itself, as `status`.
    pub subresource: String,
    /// The namespace; empty for cluster-scoped resources and for all namespaces.
    pub namespace: String,
    /// The object's name; of a list or watch, the name its field selector pins.
    pub name: String,
    /// The path behind the version (and the namespace), split.
    pub parts: Vec<String>,
}

// === impl RequestInfo ===

impl RequestInfo {
    /// Reads method and path. `watching` says whether the query asks for a watch, `pinned` the name that its field
    /// selector asks for.
    pub fn parse(method: &str, path: &str, watching: bool, pinned: Option<&str>) -> Self {
        let mut info = Self { path: path.to_owned(), verb: method.to_ascii_lowercase(), ..Self::default() };
        let trimmed = path.trim_matches('/');
        let mut parts: Vec<&str> = if trimmed.is_empty() { Vec::new() } else { trimmed.split('/').collect() };
        if parts.len() < 3 || !matches!(parts[0], "api" | "apis") {
            return info;
        }
        let prefix = parts.remove(0);
        if prefix == "apis" {
            if parts.len() < 3 {
                info.prefix = prefix.to_owned();
                return info;
            }
            info.group = parts.remove(0).to_owned();
        }
        info.prefix = prefix.to_owned();
        info.is_resource = true;
        info.version = parts.remove(0).to_owned();
        let mut watch_path = false;
        info.verb = match method {
            "POST" => "create",
            "GET" | "HEAD" => "get",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" => "delete",
            _ => "",
        }
        .to_owned();
        if parts[0] == "watch" && parts.len() > 1 {
            parts.remove(0);
            watch_path = true;
            info.verb = "watch".to_owned();
        }
        if parts[0] == "namespaces" && parts.len() > 1 {
            info.namespace = parts[1].to_owned();
            if parts.len() > 2 && !matches!(parts[2], "status" | "finalize") {
                parts.drain(..2);
            }
        }
        info.resource = parts[0].to_owned();
        if let Some(name) = parts.get(1) {
            info.name = (*name).to_owned();
        }
        if let Some(subresource) = parts.get(2)
            && !watch_path
        {
            info.subresource = (*subresource).to_owned();
        }
        info.parts = parts.into_iter().map(str::to_owned).collect();
        if info.name.is_empty() {
            match info.verb.as_str() {
                "get" => {
                    info.verb = if watching { "watch" } else { "list" }.to_owned();
                    info.name = pinned.unwrap_or_default().to_owned();
                }
                "delete" => info.verb = "deletecollection".to_owned(),
                _ => {}
            }
        }
        info
    }

    /// A request that comes from the gRPC door or from inside, where the parts are known.
    pub fn resource(verb: &str, group: &str, version: &str, resource: &str) -> Self {
        Self {
            is_resource: true,
            verb: verb.to_owned(),
            prefix: if group.is_empty() { "api" } else { "apis" }.to_owned(),
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_owned(),
            ..Self::default()
        }
    }

    /// The path this request has at the REST door.
    pub fn canonical_path(&self) -> String {
        let mut path = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        if !self.namespace.is_empty() && self.resource != "namespaces" {
            path.push_str("/namespaces/");
            path.push_str(&self.namespace);
        }
        for part in [&self.resource, &self.name, &self.subresource] {
            if !part.is_empty() {
                path.push('/');
                path.push_str(part);
            }
        }
        path
    }

    /// The path with its variable parts named, as a span's name has it.
    pub fn route(&self) -> String {
        if !self.is_resource {
            return self.path.clone();
        }
        let mut shape = self.clone();
        if !shape.namespace.is_empty() {
            shape.namespace = "{namespace}".to_owned();
        }
        if !shape.name.is_empty() && !matches!(self.verb.as_str(), "list" | "watch") {
            shape.name = "{name}".to_owned();
        } else {
            shape.name.clear();
        }
        shape.canonical_path()
    }

    /// Group, version and resource.
    pub fn gvr(&self) -> GroupVersionResource {
        GroupVersionResource::new(&*self.group, &*self.version, &*self.resource)
    }

    /// Group and resource.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&*self.group, &*self.resource)
    }

    /// Whether the request can change anything.
    pub fn writes(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch" | "head" | "options" | "")
    }
}

impl fmt::Display for RequestInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, if self.is_resource { self.canonical_path() } else { self.path.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: &str, path: &str) -> RequestInfo {
        RequestInfo::parse(method, path, false, None)
    }

    #[test]
    fn resources_are_told_from_paths() {
        for path in ["/", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/version", "/healthz/ping/x"] {
            assert!(!parse("GET", path).is_resource, "{path}");
        }
        let info = parse("GET", "/apis/apps/v1/namespaces/default/deployments/web/scale");
        assert!(info.is_resource);
        assert_eq!((info.group.as_str(), info.version.as_str(), info.resource.as_str()), ("apps", "v1", "deployments"));
        assert_eq!(
            (info.namespace.as_str(), info.name.as_str(), info.subresource.as_str()),
            ("default", "web", "scale")
        );
        assert_eq!(info.verb, "get");
        assert_eq!(info.route(), "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale");
    }

    #[test]
    fn verbs_follow_the_name() {
        assert_eq!(parse("GET", "/api/v1/pods").verb, "list");
        assert_eq!(RequestInfo::parse("GET", "/api/v1/pods", true, None).verb, "watch");
        assert_eq!(parse("DELETE", "/api/v1/namespaces/a/pods").verb, "deletecollection");
        assert_eq!(parse("DELETE", "/api/v1/namespaces/a/pods/b").verb, "delete");
        assert_eq!(parse("GET", "/api/v1/watch/namespaces/a/pods/b").verb, "watch");
        assert_eq!(parse("GET", "/api/v1/watch/namespaces/a/pods/b").name, "b");
        assert_eq!(parse("FROB", "/api/v1/pods").verb, "");
    }

    #[test]
    fn namespaces_are_resources_too() {
        let info = parse("PUT", "/api/v1/namespaces/a/finalize");
        assert_eq!(
            (info.resource.as_str(), info.name.as_str(), info.subresource.as_str()),
            ("namespaces", "a", "finalize")
        );
        assert_eq!(info.namespace, "a");
        assert_eq!(info.canonical_path(), "/api/v1/namespaces/a/finalize");
    }
}
