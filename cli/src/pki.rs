//! `trireme pki`: the keys and certificates of a cluster, for those who start the services themselves.

use std::path::PathBuf;

use trireme_pki::{AuthorityName, Credentials, Identity, Kubeconfig, Pki};

/// What to certify.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where the files go.
    #[arg(long, default_value = "pki")]
    dir: PathBuf,
    /// Addresses and names of the API server, besides loopback and the in-cluster ones.
    #[arg(long, value_delimiter = ',')]
    api_addresses: Vec<String>,
    /// `https://host:port` that kubeconfigs name.
    #[arg(long, default_value = "https://127.0.0.1:6443")]
    server: String,
    /// Store members, `name` or `name=address`.
    #[arg(long, value_delimiter = ',', default_value = "store-1")]
    store_members: Vec<String>,
    /// Nodes, `name` or `name=address`.
    #[arg(long, value_delimiter = ',')]
    nodes: Vec<String>,
}

/// Makes what is missing.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let pki = Pki::open(&options.dir)?;
    control_plane(&pki, &options.api_addresses)?;
    for member in &options.store_members {
        let (name, addresses) = split(member);
        pki.issue(&Identity::store_member(name, &addresses))?;
    }
    for node in &options.nodes {
        let (name, addresses) = split(node);
        pki.issue(&Identity::kubelet_server(name, &addresses))?;
        component(&pki, &options.dir, &options.server, &Identity::kubelet(name))?;
    }
    for identity in [Identity::scheduler(), Identity::controllers(), Identity::proxy()] {
        component(&pki, &options.dir, &options.server, &identity)?;
    }
    admin(&pki, &options.server)?.write(&options.dir.join("admin.kubeconfig"))?;
    println!("keys and certificates are in {}", options.dir.display());
    Ok(())
}

/// The certificates of the API server and of the operator.
pub(crate) fn control_plane(pki: &Pki, api_addresses: &[String]) -> anyhow::Result<()> {
    pki.issue(&Identity::apiserver(api_addresses, "10.96.0.1", "cluster.local"))?;
    for identity in [
        Identity::apiserver_store_client(),
        Identity::apiserver_kubelet_client(),
        Identity::front_proxy_client(),
        Identity::operator(),
    ] {
        pki.issue(&identity)?;
    }
    Ok(())
}

/// A component's certificate and kubeconfig (`<file>.kubeconfig` in `dir`).
pub(crate) fn component(
    pki: &Pki,
    dir: &std::path::Path,
    server: &str,
    identity: &Identity,
) -> anyhow::Result<PathBuf> {
    let pair = pki.issue(identity)?;
    let file = dir.join(format!("{}.kubeconfig", identity.file));
    Kubeconfig {
        cluster: "trireme".to_owned(),
        server: server.to_owned(),
        authority: pki.authority(AuthorityName::Cluster).certificate().to_owned(),
        user: identity.common_name.clone(),
        credentials: Credentials::Certificate { cert: pair.cert, key: pair.key },
    }
    .write(&file)?;
    Ok(file)
}

/// The kubeconfig of `admin` (system:masters), by token.
pub(crate) fn admin(pki: &Pki, server: &str) -> anyhow::Result<Kubeconfig> {
    Ok(Kubeconfig {
        cluster: "trireme".to_owned(),
        server: server.to_owned(),
        authority: pki.authority(AuthorityName::Cluster).certificate().to_owned(),
        user: "admin".to_owned(),
        credentials: Credentials::Token(pki.admin_token()?),
    })
}

fn split(named: &str) -> (&str, Vec<String>) {
    named.split_once('=').map_or((named, Vec::new()), |(name, address)| (name, vec![address.to_owned()]))
}
