//! UDP has no connections, so the kernel keeps sending a client's packets to where its first one went, even when that
//! endpoint is gone, or to nowhere when the Service had no endpoint then. Such entries are removed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use crate::choice::Choice;
use crate::view::{NodeView, Protocol, ServicePort};
use crate::{Error, tool};

/// An entry of the connection table: what the client sent, and who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// The client.
    pub source: (Ipv4Addr, u16),
    /// Where it sends to.
    pub destination: (Ipv4Addr, u16),
    /// Where its packets go.
    pub target: (Ipv4Addr, u16),
}

/// The addresses of UDP service ports, with the endpoints that may answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UdpServices {
    addresses: BTreeMap<(Ipv4Addr, u16), BTreeSet<(Ipv4Addr, u16)>>,
}

impl UdpServices {
    /// Of these service ports.
    #[must_use]
    pub fn new(ports: &[ServicePort], node: &NodeView) -> Self {
        let mut addresses: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for port in ports.iter().filter(|port| port.name.protocol == Protocol::Udp) {
            let choice = Choice::new(port, node);
            let endpoints: BTreeSet<_> = choice.cluster.into_iter().chain(choice.local).collect();
            let own =
                std::iter::once(port.cluster_ip).chain(port.external_ips.clone()).chain(port.load_balancer_ips.clone());
            let at_nodes =
                port.node_port.into_iter().flat_map(|number| node.addresses.iter().map(move |ip| (*ip, number)));
            for address in own.map(|ip| (ip, port.port)).chain(at_nodes) {
                addresses.entry(address).or_default().extend(&endpoints);
            }
        }
        Self { addresses }
    }

    /// There is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// Those of `flows` that lead to where no endpoint is, though there is one to lead to.
    #[must_use]
    pub fn stale(&self, flows: &[Flow]) -> Vec<Flow> {
        let stale = |flow: &&Flow| {
            self.addresses
                .get(&flow.destination)
                .is_some_and(|endpoints| !endpoints.is_empty() && !endpoints.contains(&flow.target))
        };
        flows.iter().filter(stale).copied().collect()
    }
}

/// Removes what is stale; how many entries that were.
///
/// # Errors
/// When conntrack can't be run.
pub async fn clean(services: &UdpServices) -> Result<usize, Error> {
    if services.is_empty() {
        return Ok(0);
    }
    let listing = run(&["-L", "-p", "udp", "-f", "ipv4"]).await?;
    let flows: Vec<Flow> = listing.lines().filter_map(parse).collect();
    let stale = services.stale(&flows);
    for flow in &stale {
        let ((source, sport), (destination, dport)) = (flow.source, flow.destination);
        let (source, sport) = (source.to_string(), sport.to_string());
        let (destination, dport) = (destination.to_string(), dport.to_string());
        // One that has ended meanwhile is no error.
        let delete = ["-D", "-p", "udp", "-s", &source, "-d", &destination, "--sport", &sport, "--dport", &dport];
        if let Err(error) = run(&delete).await {
            tracing::debug!(%error, ?flow, "stale entry not removed");
        }
    }
    Ok(stale.len())
}

async fn run(args: &[&str]) -> Result<String, Error> {
    let output = tool::run("conntrack", args, "", tool::LIMIT)
        .await
        .map_err(|error| Error::Conntrack(format!("{error} (the package conntrack has it)")))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(Error::Conntrack(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}

/// `udp 17 29 src=C dst=S sport=a dport=b [UNREPLIED] src=T dst=C sport=t dport=a mark=0 use=1`: the second four are of
/// the answer, so its source is where the packets go.
fn parse(line: &str) -> Option<Flow> {
    let mut values: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (key, value) in line.split_whitespace().filter_map(|word| word.split_once('=')) {
        values.entry(key).or_default().push(value);
    }
    let ip = |key: &str, nth: usize| -> Option<Ipv4Addr> { values.get(key)?.get(nth)?.parse().ok() };
    let port = |key: &str, nth: usize| -> Option<u16> { values.get(key)?.get(nth)?.parse().ok() };
    Some(Flow {
        source: (ip("src", 0)?, port("sport", 0)?),
        destination: (ip("dst", 0)?, port("dport", 0)?),
        target: (ip("src", 1)?, port("sport", 1)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRANSLATED: &str = "udp      17 28 src=10.244.0.5 dst=10.96.0.10 sport=40000 dport=53 src=10.244.0.9 \
                              dst=10.244.0.5 sport=1053 dport=40000 mark=0 use=1";
    const UNTRANSLATED: &str = "udp      17 28 src=10.244.0.5 dst=10.96.0.10 sport=40001 dport=53 [UNREPLIED] \
                                src=10.96.0.10 dst=10.244.0.5 sport=53 dport=40001 mark=0 use=1";

    fn services(endpoints: &[(&str, u16)]) -> UdpServices {
        let endpoints = endpoints.iter().map(|(ip, port)| (ip.parse().unwrap(), *port)).collect();
        UdpServices { addresses: BTreeMap::from([(("10.96.0.10".parse().unwrap(), 53), endpoints)]) }
    }

    #[test]
    fn which_entries_are_stale() {
        let flows: Vec<Flow> = [TRANSLATED, UNTRANSLATED, "garbage"].iter().filter_map(|line| parse(line)).collect();
        assert_eq!(flows.len(), 2);
        assert_eq!(flows[0].target, ("10.244.0.9".parse().unwrap(), 1053));
        // The endpoint is there: only the entry of the time without endpoints is stale.
        assert_eq!(services(&[("10.244.0.9", 1053)]).stale(&flows), [flows[1]]);
        // Another endpoint is there instead: both are.
        assert_eq!(services(&[("10.244.0.8", 1053)]).stale(&flows), flows);
        // With none there is nothing better.
        assert_eq!(services(&[]).stale(&flows), []);
    }
}
