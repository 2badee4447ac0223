//! Names: resolv.conf, /etc/hosts and the host name of a Pod.

use super::view::{self, spec};
use crate::error::{Error, Result};
use k8s_openapi::api::core::v1::Pod;
use std::path::{Path, PathBuf};
use trireme_machinery::names;
use trireme_proto::runtime::v1::DnsConfig;

/// What the node knows of names.
#[derive(Debug, Clone)]
pub struct Resolver {
    /// The cluster's name servers.
    pub cluster_dns: Vec<String>,
    /// Such as `cluster.local`.
    pub cluster_domain: String,
    /// The node's own file; empty: none.
    pub resolv_conf: PathBuf,
}

const MAX_SERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_CHARS: usize = 2048;

impl Resolver {
    /// The resolv.conf of a Pod.
    pub fn of_pod(&self, pod: &Pod) -> Result<DnsConfig> {
        let host_network = view::host_network(pod);
        let mut config = match spec(pod).dns_policy.as_deref() {
            Some("None") => DnsConfig::default(),
            Some("Default") => self.of_node()?,
            Some("ClusterFirst") | None if host_network => self.of_node()?,
            _ if self.cluster_dns.is_empty() => self.of_node()?,
            _ => self.of_cluster(view::namespace(pod))?,
        };
        if let Some(own) = &spec(pod).dns_config {
            extend_unique(&mut config.servers, own.nameservers.iter().flatten().cloned());
            extend_unique(&mut config.searches, own.searches.iter().flatten().cloned());
            for option in own.options.iter().flatten() {
                let name = option.name.clone().unwrap_or_default();
                config.options.retain(|known| known.split(':').next() != Some(name.as_str()));
                config.options.push(match option.value.as_deref().filter(|value| !value.is_empty()) {
                    Some(value) => format!("{name}:{value}"),
                    None => name,
                });
            }
        }
        config.servers.truncate(MAX_SERVERS);
        config.searches.retain(|search| search.len() <= 253);
        config.searches.truncate(MAX_SEARCHES);
        while config.searches.join(" ").len() > MAX_SEARCH_CHARS {
            config.searches.pop();
        }
        Ok(config)
    }

    fn of_cluster(&self, namespace: &str) -> Result<DnsConfig> {
        let domain = &self.cluster_domain;
        let mut searches = Vec::new();
        if !domain.is_empty() {
            searches = vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.clone()];
        }
        extend_unique(&mut searches, self.of_node()?.searches);
        Ok(DnsConfig { servers: self.cluster_dns.clone(), searches, options: vec!["ndots:5".into()] })
    }

    fn of_node(&self) -> Result<DnsConfig> {
        if self.resolv_conf.as_os_str().is_empty() {
            return Ok(DnsConfig::default());
        }
        match std::fs::read_to_string(&self.resolv_conf) {
            Ok(text) => Ok(parse(&text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(DnsConfig::default()),
            Err(error) => Err(Error::io("read", &self.resolv_conf, error)),
        }
    }

    /// Host name and domain of a Pod.
    pub fn hostname(&self, pod: &Pod) -> Result<(String, String)> {
        let spec = spec(pod);
        let check = |what: &str, value: &str, complaints: Vec<String>| {
            if complaints.is_empty() {
                return Ok(());
            }
            Err(Error::Pod(format!("pod {what} \"{value}\" is not a valid DNS label: {}", complaints.join(";"))))
        };
        if let Some(name) = spec.hostname_override.as_deref() {
            return Ok((truncate(name), String::new()));
        }
        let name = match spec.hostname.as_deref().filter(|name| !name.is_empty()) {
            Some(name) => {
                check("Hostname", name, names::is_dns1123_label(name))?;
                name
            }
            None => view::name(pod),
        };
        let domain = match spec.subdomain.as_deref().filter(|name| !name.is_empty()) {
            Some(subdomain) => {
                check("Subdomain", subdomain, names::is_dns1123_label(subdomain))?;
                format!("{subdomain}.{}.svc.{}", view::namespace(pod), self.cluster_domain)
            }
            None => String::new(),
        };
        Ok((truncate(name), domain))
    }
}

fn truncate(name: &str) -> String {
    name.chars().take(63).collect::<String>().trim_end_matches(['-', '.']).to_owned()
}

fn extend_unique(list: &mut Vec<String>, more: impl IntoIterator<Item = String>) {
    for item in more {
        if !list.contains(&item) {
            list.push(item);
        }
    }
}

fn parse(text: &str) -> DnsConfig {
    let mut config = DnsConfig::default();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => config.servers.extend(words.next().map(str::to_owned)),
            Some("search") => {
                config.searches =
                    words.filter(|word| *word != ".").map(|word| word.trim_end_matches('.').to_owned()).collect();
            }
            Some("options") => extend_unique(&mut config.options, words.map(str::to_owned)),
            _ => {}
        }
    }
    config
}

/// Writes the /etc/hosts that the containers of a Pod share.
pub fn write_hosts(path: &Path, pod: &Pod, ips: &[String], hostname: &str, domain: &str) -> Result<()> {
    let mut text = if view::host_network(pod) {
        let own = std::fs::read_to_string("/etc/hosts").map_err(|error| Error::io("read", "/etc/hosts", error))?;
        format!("# Kubernetes-managed hosts file (host network).\n{own}")
    } else {
        let mut text = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n\
            ::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\n\
            fe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n"
            .to_owned();
        for ip in ips {
            text.push_str(&match domain {
                "" => format!("{ip}\t{hostname}\n"),
                domain => format!("{ip}\t{hostname}.{domain}\t{hostname}\n"),
            });
        }
        text
    };
    let aliases = spec(pod).host_aliases.as_deref().unwrap_or_default();
    if !aliases.is_empty() {
        text.push_str("\n# Entries added by HostAliases.\n");
        for alias in aliases {
            text.push_str(&format!("{}\t{}\n", alias.ip, alias.hostnames.as_deref().unwrap_or_default().join("\t")));
        }
    }
    std::fs::write(path, text).map_err(|error| Error::io("write", path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolver(resolv_conf: PathBuf) -> Resolver {
        Resolver { cluster_dns: vec!["10.96.0.10".into()], cluster_domain: "cluster.local".into(), resolv_conf }
    }

    fn pod(spec: serde_json::Value) -> Pod {
        serde_json::from_value(serde_json::json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec})).unwrap()
    }

    #[test]
    fn policies() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("resolv.conf");
        std::fs::write(&file, "# x\nnameserver 1.1.1.1\nsearch a.example. b.example\noptions edns0\n").unwrap();
        let resolver = resolver(file);
        let cluster =
            resolver.of_pod(&pod(serde_json::json!({"dnsPolicy": "ClusterFirst", "containers": []}))).unwrap();
        assert_eq!(cluster.servers, ["10.96.0.10"]);
        assert_eq!(
            cluster.searches,
            ["ns.svc.cluster.local", "svc.cluster.local", "cluster.local", "a.example", "b.example"]
        );
        assert_eq!(cluster.options, ["ndots:5"]);
        let host = serde_json::json!({"dnsPolicy": "ClusterFirst", "hostNetwork": true, "containers": []});
        assert_eq!(resolver.of_pod(&pod(host)).unwrap().servers, ["1.1.1.1"]);
        let none = serde_json::json!({"dnsPolicy": "None", "containers": [], "dnsConfig":
            {"nameservers": ["9.9.9.9"], "options": [{"name": "ndots", "value": "2"}, {"name": "debug"}]}});
        let none = resolver.of_pod(&pod(none)).unwrap();
        assert_eq!(
            (none.servers, none.options),
            (vec!["9.9.9.9".to_owned()], vec!["ndots:2".to_owned(), "debug".to_owned()])
        );
    }

    #[test]
    fn host_names() {
        let resolver = resolver(PathBuf::new());
        let named = pod(serde_json::json!({"hostname": "h", "subdomain": "s", "containers": []}));
        assert_eq!(resolver.hostname(&named).unwrap(), ("h".into(), "s.ns.svc.cluster.local".into()));
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("hosts");
        write_hosts(&file, &named, &["10.0.0.1".into()], "h", "s.ns.svc.cluster.local").unwrap();
        assert!(std::fs::read_to_string(&file).unwrap().ends_with("10.0.0.1\th.s.ns.svc.cluster.local\th\n"));
    }
}
