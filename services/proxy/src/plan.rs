//! The planner: pure, from service ports to the table's content.
//!
//! How a packet goes: the chain `services` looks its address, protocol and port up in a map, which sends it to the chain of
//! a service port; that marks it for masquerading where the answer would not come back this way, and picks an endpoint at
//! random (or the client's last one); the endpoint's chain rewrites the destination. A service port without endpoints is in
//! another map, which the filter hooks ask: refused, or dropped when only endpoints elsewhere are missing.

use std::net::Ipv4Addr;

use sha2::{Digest as _, Sha256};

use crate::choice::Choice;
use crate::cidr::Cidr;
use crate::ruleset::Ruleset;
use crate::view::{NodeView, ServicePort};

/// What the flags say about the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Name of the table.
    pub table: String,
    /// The bit of the packet mark that asks for masquerading.
    pub masquerade_mark: u32,
    /// Masquerade everything that goes to a cluster IP.
    pub masquerade_all: bool,
    /// The pods' addresses; empty: not known.
    pub cluster_cidrs: Vec<Cidr>,
    /// Where node ports are served.
    pub node_ports: NodePorts,
}

/// Where node ports are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodePorts {
    /// At the Node's own addresses.
    Primary,
    /// At this machine's addresses within these ranges.
    Within(Vec<Cidr>),
}

/// Map: address, protocol and port to the chain of a service port.
const SERVICE_IPS: &str = "service-ips";
/// Map: protocol and port to the chain of a service port.
const SERVICE_NODEPORTS: &str = "service-nodeports";
/// Map: address, protocol and port of service ports that have no endpoint for it.
const NO_ENDPOINT_SERVICES: &str = "no-endpoint-services";
/// Map: node ports that have no endpoint.
const NO_ENDPOINT_NODEPORTS: &str = "no-endpoint-nodeports";
/// Map: load balancer addresses with source ranges.
const FIREWALL_IPS: &str = "firewall-ips";
/// Set: all cluster IPs.
const CLUSTER_IPS: &str = "cluster-ips";
/// Set: the node's addresses.
const NODEPORT_IPS: &str = "nodeport-ips";

/// The longest name we give a chain or set.
const LONGEST_NAME: usize = 120;

/// The fixed part of the table.
#[must_use]
pub fn base(options: &Options) -> Vec<String> {
    let mark = format!("{:#x}", options.masquerade_mark);
    let at_node = match &options.node_ports {
        NodePorts::Primary => format!("ip daddr @{NODEPORT_IPS}"),
        NodePorts::Within(ranges) => format!("fib daddr type local ip daddr != 127.0.0.0/8 ip daddr {}", list(ranges)),
    };
    let object =
        |kind: &str, name: &str, definition: &str| format!("add {kind} ip {} {name} {definition}", options.table);
    let address_map = "{ type ipv4_addr . inet_proto . inet_service : verdict ; }";
    let port_map = "{ type inet_proto . inet_service : verdict ; }";
    let hook = |kind: &str, hook: &str, priority: &str| format!("{{ type {kind} hook {hook} priority {priority} ; }}");
    let lookup = |map: &str| format!("ip daddr . meta l4proto . th dport vmap @{map}");
    let chains: Vec<(&str, String, Vec<String>)> = vec![
        ("mark-for-masquerade", String::new(), vec![format!("meta mark set meta mark or {mark}")]),
        ("reject-chain", String::new(), vec!["reject".to_owned()]),
        (
            "services",
            String::new(),
            vec![lookup(SERVICE_IPS), format!("{at_node} meta l4proto . th dport vmap @{SERVICE_NODEPORTS}")],
        ),
        ("service-endpoints-check", String::new(), vec![lookup(NO_ENDPOINT_SERVICES)]),
        (
            "nodeport-endpoints-check",
            String::new(),
            vec![format!("{at_node} meta l4proto . th dport vmap @{NO_ENDPOINT_NODEPORTS}")],
        ),
        ("firewall-check", String::new(), vec![lookup(FIREWALL_IPS)]),
        // What is for a cluster IP and was rewritten by no rule is for a port that no Service has.
        ("cluster-ips-check", String::new(), vec![format!("ip daddr @{CLUSTER_IPS} reject")]),
        (
            "masquerading",
            String::new(),
            vec![
                format!("meta mark & {mark} == 0 return"),
                format!("meta mark set meta mark ^ {mark}"),
                "masquerade fully-random".to_owned(),
            ],
        ),
        (
            "filter-prerouting",
            hook("filter", "prerouting", "-110"),
            vec!["ct state new jump firewall-check".to_owned()],
        ),
        (
            "filter-input",
            hook("filter", "input", "-110"),
            vec![
                "ct state new jump nodeport-endpoints-check".to_owned(),
                "ct state new jump service-endpoints-check".to_owned(),
            ],
        ),
        (
            "filter-forward",
            hook("filter", "forward", "-110"),
            vec![
                "ct state new jump service-endpoints-check".to_owned(),
                "ct state new jump cluster-ips-check".to_owned(),
            ],
        ),
        (
            "filter-output",
            hook("filter", "output", "-110"),
            vec!["ct state new jump service-endpoints-check".to_owned(), "ct state new jump firewall-check".to_owned()],
        ),
        (
            "filter-output-after-nat",
            hook("filter", "output", "-90"),
            vec!["ct state new jump cluster-ips-check".to_owned()],
        ),
        ("nat-prerouting", hook("nat", "prerouting", "-100"), vec!["jump services".to_owned()]),
        ("nat-output", hook("nat", "output", "-100"), vec!["jump services".to_owned()]),
        ("nat-postrouting", hook("nat", "postrouting", "100"), vec!["jump masquerading".to_owned()]),
    ];
    let mut commands = vec![
        object("set", CLUSTER_IPS, "{ type ipv4_addr ; }"),
        object("set", NODEPORT_IPS, "{ type ipv4_addr ; }"),
        object("map", SERVICE_IPS, address_map),
        object("map", SERVICE_NODEPORTS, port_map),
        object("map", NO_ENDPOINT_SERVICES, address_map),
        object("map", NO_ENDPOINT_NODEPORTS, port_map),
        object("map", FIREWALL_IPS, address_map),
    ];
    commands.extend(chains.iter().map(|(name, hook, _)| object("chain", name, hook).trim_end().to_owned()));
    for (name, _, rules) in &chains {
        commands.extend(rules.iter().map(|rule| object("rule", name, rule)));
    }
    commands
}

/// The table's content for these service ports at this node.
#[must_use]
pub fn plan(ports: &[ServicePort], node: &NodeView, options: &Options) -> Ruleset {
    let mut rules = Ruleset::default();
    if options.node_ports == NodePorts::Primary {
        for address in &node.addresses {
            rules.set(NODEPORT_IPS, address.to_string());
        }
    }
    for port in ports {
        Planner { port, choice: Choice::new(port, node), options }.plan(&mut rules);
    }
    rules
}

/// One service port.
struct Planner<'a> {
    port: &'a ServicePort,
    choice: Choice,
    options: &'a Options,
}

impl Planner<'_> {
    fn plan(&self, rules: &mut Ruleset) {
        let port = self.port;
        rules.set(CLUSTER_IPS, port.cluster_ip.to_string());

        let internal = if port.internal_local { &self.choice.local } else { &self.choice.cluster };
        if internal.is_empty() {
            rules.map(NO_ENDPOINT_SERVICES, self.at(port.cluster_ip), self.refusal());
        } else {
            let chain = self.policy_chain(rules, port.internal_local);
            rules.map(SERVICE_IPS, self.at(port.cluster_ip), format!("goto {chain}"));
        }
        self.external(rules);
    }

    /// External addresses, load balancers and node ports.
    fn external(&self, rules: &mut Ruleset) {
        let port = self.port;
        let addresses: Vec<Ipv4Addr> = port.external_ips.iter().chain(&port.load_balancer_ips).copied().collect();
        let node_port = port.node_port.map(|number| format!("{} . {number}", port.name.protocol));
        if addresses.is_empty() && node_port.is_none() {
            return;
        }
        let allowed = if port.external_local { &self.choice.local } else { &self.choice.cluster };
        if allowed.is_empty() {
            for address in &addresses {
                rules.map(NO_ENDPOINT_SERVICES, self.at(*address), self.refusal());
            }
            if let Some(key) = &node_port {
                rules.map(NO_ENDPOINT_NODEPORTS, key.clone(), self.refusal());
            }
        }
        // With the Local policy, traffic of this node and its pods still goes to the whole cluster.
        if !self.choice.cluster.is_empty() {
            let chain = self.external_chain(rules, !allowed.is_empty());
            for address in &addresses {
                rules.map(SERVICE_IPS, self.at(*address), format!("goto {chain}"));
            }
            if let Some(key) = node_port {
                rules.map(SERVICE_NODEPORTS, key, format!("goto {chain}"));
            }
        }
        if !port.source_ranges.is_empty() {
            let chain = self.name("firewall", "");
            rules.chain(&chain, vec![format!("ip saddr != {} drop", list(&port.source_ranges))]);
            for address in &port.load_balancer_ips {
                rules.map(FIREWALL_IPS, self.at(*address), format!("goto {chain}"));
            }
        }
    }

    fn external_chain(&self, rules: &mut Ruleset, allowed: bool) -> String {
        let chain = self.name("external", "");
        let mut body = Vec::new();
        if self.port.external_local {
            let cluster = self.policy_chain(rules, false);
            if !self.options.cluster_cidrs.is_empty() {
                body.push(format!("ip saddr {} goto {cluster}", list(&self.options.cluster_cidrs)));
            }
            body.push("fib saddr type local jump mark-for-masquerade".to_owned());
            body.push(format!("fib saddr type local goto {cluster}"));
            // The client's address is kept: the endpoint is here, so its answer passes here.
            if allowed {
                body.push(format!("goto {}", self.policy_chain(rules, true)));
            }
        } else {
            body.push("jump mark-for-masquerade".to_owned());
            body.push(format!("goto {}", self.policy_chain(rules, false)));
        }
        rules.chain(&chain, body);
        chain
    }

    /// The chain that picks an endpoint of the cluster or of this node.
    fn policy_chain(&self, rules: &mut Ruleset, local: bool) -> String {
        let (kind, endpoints) = if local { ("local", &self.choice.local) } else { ("service", &self.choice.cluster) };
        let chain = self.name(kind, "");
        if rules.chains.contains_key(&chain) {
            return chain;
        }
        let port = self.port;
        let mut body = Vec::new();
        if local == port.internal_local {
            let from_outside = format!("ip daddr {} {} dport {}", port.cluster_ip, port.name.protocol, port.port);
            if self.options.masquerade_all {
                body.push(format!("{from_outside} jump mark-for-masquerade"));
            } else if !self.options.cluster_cidrs.is_empty() {
                let pods = list(&self.options.cluster_cidrs);
                body.push(format!("{from_outside} ip saddr != {pods} jump mark-for-masquerade"));
            }
        }
        let targets: Vec<String> = endpoints.iter().map(|endpoint| self.endpoint_chain(rules, *endpoint)).collect();
        if port.affinity_seconds.is_some() {
            for (target, endpoint) in targets.iter().zip(endpoints) {
                body.push(format!("ip saddr @{} goto {target}", self.affinity_set(*endpoint)));
            }
        }
        let choices: Vec<String> =
            targets.iter().enumerate().map(|(i, target)| format!("{i} : goto {target}")).collect();
        body.push(format!("numgen random mod {} vmap {{ {} }}", choices.len(), choices.join(", ")));
        rules.chain(&chain, body);
        chain
    }

    fn endpoint_chain(&self, rules: &mut Ruleset, endpoint: (Ipv4Addr, u16)) -> String {
        let (ip, number) = endpoint;
        let chain = self.name("endpoint", &format!("__{ip}/{number}"));
        // A pod that reaches itself through its Service must see the answer come back from the Service.
        let mut body = vec![format!("ip saddr {ip} jump mark-for-masquerade")];
        if let Some(seconds) = self.port.affinity_seconds {
            let set = self.affinity_set(endpoint);
            body.push(format!("update @{set} {{ ip saddr timeout {seconds}s }}"));
            rules.dynamic_sets.insert(set, "{ type ipv4_addr ; flags dynamic,timeout ; }".to_owned());
        }
        body.push(format!("meta l4proto {} dnat to {ip}:{number}", self.port.name.protocol));
        rules.chain(&chain, body);
        chain
    }

    fn affinity_set(&self, (ip, number): (Ipv4Addr, u16)) -> String {
        self.name("affinity", &format!("__{ip}/{number}"))
    }

    fn at(&self, address: Ipv4Addr) -> String {
        format!("{address} . {} . {}", self.port.name.protocol, self.port.port)
    }

    fn refusal(&self) -> &'static str {
        if self.choice.any { "drop" } else { "goto reject-chain" }
    }

    /// A name that says what it is for and, by a hash, is no other's, even cut to the length that the kernel takes.
    fn name(&self, kind: &str, rest: &str) -> String {
        let name = &self.port.name;
        let said = format!("{}/{}/{}/{}{rest}", name.namespace, name.service, name.protocol, name.port);
        let hash = hex::encode(&Sha256::digest(said.as_bytes())[..4]);
        let mut full = format!("{kind}-{hash}-{said}");
        full.truncate(LONGEST_NAME);
        full
    }
}

fn list(ranges: &[Cidr]) -> String {
    match ranges {
        [one] => one.to_string(),
        many => format!("{{ {} }}", many.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    }
}
