//! Who is who: the identities of a cluster, by Kubernetes' names.

/// Which of the cluster's authorities signs an identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthorityName {
    /// `ca.crt`: API server, components, nodes, users.
    Cluster,
    /// `store-ca.crt`: store members and their clients.
    Store,
    /// `front-proxy-ca.crt`: the API server towards aggregated API servers.
    FrontProxy,
}

impl AuthorityName {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Cluster, Self::Store, Self::FrontProxy];

    /// The stem of the authority's file names.
    #[must_use]
    pub fn file(self) -> &'static str {
        match self {
            Self::Cluster => "ca",
            Self::Store => "store-ca",
            Self::FrontProxy => "front-proxy-ca",
        }
    }

    pub(crate) fn common_name(self) -> &'static str {
        match self {
            Self::Cluster => "kubernetes",
            Self::Store => "trireme-store-ca",
            Self::FrontProxy => "front-proxy-ca",
        }
    }
}

/// What a certificate may be used for (RFC 5280, extended key usage).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// To prove oneself to a server.
    Client,
    /// To prove oneself to clients.
    Server,
    /// Both: a store member speaks to its peers with the certificate it serves with.
    Both,
}

/// A name to be certified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Stem of the files `<file>.crt` and `<file>.key`.
    pub file: String,
    /// Who signs.
    pub authority: AuthorityName,
    /// The subject's CN: the user name of a client.
    pub common_name: String,
    /// The subject's O: the group of a client.
    pub organization: Option<String>,
    /// DNS names and IP addresses a server is reached by.
    pub addresses: Vec<String>,
    /// Client, server or both.
    pub usage: Usage,
}

impl Identity {
    fn client(file: &str, authority: AuthorityName, common_name: &str, group: Option<&str>) -> Self {
        Self {
            file: file.to_owned(),
            authority,
            common_name: common_name.to_owned(),
            organization: group.map(str::to_owned),
            addresses: Vec::new(),
            usage: Usage::Client,
        }
    }

    /// The API server's serving certificate. The in-cluster names are added to `addresses`.
    #[must_use]
    pub fn apiserver(addresses: &[String], service_address: &str, cluster_domain: &str) -> Self {
        let mut all: Vec<String> =
            ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"].map(str::to_owned).into();
        all.push(format!("kubernetes.default.svc.{cluster_domain}"));
        all.push("127.0.0.1".to_owned());
        all.push(service_address.to_owned());
        for address in addresses {
            if !all.contains(address) {
                all.push(address.clone());
            }
        }
        Self {
            file: "apiserver".to_owned(),
            authority: AuthorityName::Cluster,
            common_name: "kube-apiserver".to_owned(),
            organization: None,
            addresses: all,
            usage: Usage::Server,
        }
    }

    /// The API server as a client of the store.
    #[must_use]
    pub fn apiserver_store_client() -> Self {
        Self::client("apiserver-store-client", AuthorityName::Store, "kube-apiserver-store-client", None)
    }

    /// The API server as a client of kubelets (upstream's bootstrap binding allows the group `system:masters`).
    #[must_use]
    pub fn apiserver_kubelet_client() -> Self {
        Self::client(
            "apiserver-kubelet-client",
            AuthorityName::Cluster,
            "kube-apiserver-kubelet-client",
            Some("system:masters"),
        )
    }

    /// The API server in front of aggregated API servers.
    #[must_use]
    pub fn front_proxy_client() -> Self {
        Self::client("front-proxy-client", AuthorityName::FrontProxy, "front-proxy-client", None)
    }

    /// A member of the store, to clients and to its peers.
    #[must_use]
    pub fn store_member(name: &str, addresses: &[String]) -> Self {
        let mut all = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        all.extend(addresses.iter().filter(|a| !all.contains(a)).cloned().collect::<Vec<_>>());
        Self {
            file: format!("store-{name}"),
            authority: AuthorityName::Store,
            common_name: name.to_owned(),
            organization: None,
            addresses: all,
            usage: Usage::Both,
        }
    }

    /// A NATS server of the bus. The store's authority signs it, because only members and API servers get on it.
    #[must_use]
    pub fn bus(addresses: &[String]) -> Self {
        let mut all = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        all.extend(addresses.iter().filter(|a| !all.contains(a)).cloned().collect::<Vec<_>>());
        Self {
            file: "bus".to_owned(),
            authority: AuthorityName::Store,
            common_name: "nats".to_owned(),
            organization: None,
            addresses: all,
            usage: Usage::Server,
        }
    }

    /// The human who runs the store: backup, etcdctl.
    #[must_use]
    pub fn operator() -> Self {
        Self::client("operator", AuthorityName::Store, "operator", Some("operators"))
    }

    /// `system:kube-scheduler`.
    #[must_use]
    pub fn scheduler() -> Self {
        Self::client("scheduler", AuthorityName::Cluster, "system:kube-scheduler", None)
    }

    /// `system:kube-controller-manager`.
    #[must_use]
    pub fn controllers() -> Self {
        Self::client("controllers", AuthorityName::Cluster, "system:kube-controller-manager", None)
    }

    /// `system:kube-proxy`.
    #[must_use]
    pub fn proxy() -> Self {
        Self::client("proxy", AuthorityName::Cluster, "system:kube-proxy", Some("system:node-proxier"))
    }

    /// A node's kubelet as a client: `system:node:<name>` in `system:nodes`.
    #[must_use]
    pub fn kubelet(node: &str) -> Self {
        Self::client(
            &format!("kubelet-{node}"),
            AuthorityName::Cluster,
            &format!("system:node:{node}"),
            Some("system:nodes"),
        )
    }

    /// A node's kubelet as a server.
    #[must_use]
    pub fn kubelet_server(node: &str, addresses: &[String]) -> Self {
        let mut all = vec![node.to_owned()];
        all.extend(addresses.iter().cloned());
        Self {
            file: format!("kubelet-{node}-server"),
            authority: AuthorityName::Cluster,
            common_name: format!("system:node:{node}"),
            organization: Some("system:nodes".to_owned()),
            addresses: all,
            usage: Usage::Server,
        }
    }

    /// Any user of the cluster by certificate.
    #[must_use]
    pub fn user(name: &str, group: Option<&str>) -> Self {
        Self::client(&format!("user-{name}"), AuthorityName::Cluster, name, group)
    }
}
