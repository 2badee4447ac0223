//! Two nodes on one wire, and a neighbour of the first that knows nothing of pods.

use std::net::Ipv4Addr;

use trireme_testkit::netns::Namespace;

/// The first node on the wire.
pub(crate) const NODE_1: Ipv4Addr = Ipv4Addr::new(192, 168, 78, 1);
/// The second node on the wire.
pub(crate) const NODE_2: Ipv4Addr = Ipv4Addr::new(192, 168, 78, 2);
/// The first node as its neighbour sees it.
pub(crate) const NODE_1_OUTSIDE: Ipv4Addr = Ipv4Addr::new(192, 168, 79, 1);
/// The neighbour.
pub(crate) const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(192, 168, 79, 2);

/// Answers every TCP connection to `port` with the client's address.
pub(crate) fn serve(namespace: &Namespace, port: u16) {
    namespace.serve(port, |peer| peer.ip().to_string()).unwrap();
}

/// Which address `address` sees one at.
pub(crate) fn seen_by(namespace: &Namespace, address: Ipv4Addr, port: u16) -> Ipv4Addr {
    namespace.ask(address, port).unwrap().parse().unwrap()
}

/// The nodes and the neighbour.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) nodes: [Namespace; 2],
    pub(crate) neighbour: Namespace,
}

impl Wire {
    pub(crate) fn new() -> Self {
        let [first, second, neighbour] = ["a", "b", "out"].map(|what| Namespace::new(what).unwrap());
        connect((&first, "eth0", NODE_1), (&second, "eth0", NODE_2));
        connect((&first, "eth1", NODE_1_OUTSIDE), (&neighbour, "eth0", NEIGHBOUR));
        // A smaller packet size than usual, as in a cloud's network.
        first.ip(&["link", "set", "eth0", "mtu", "1400"]).unwrap();
        Self { nodes: [first, second], neighbour }
    }
}

type End<'a> = (&'a Namespace, &'a str, Ipv4Addr);

fn connect(a: End<'_>, b: End<'_>) {
    a.0.ip(&["link", "add", a.1, "type", "veth", "peer", "name", b.1, "netns", b.0.name()]).unwrap();
    for (namespace, port, address) in [a, b] {
        namespace.ip(&["addr", "add", &format!("{address}/24"), "dev", port]).unwrap();
        namespace.ip(&["link", "set", port, "up"]).unwrap();
    }
}
