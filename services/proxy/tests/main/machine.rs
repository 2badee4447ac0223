//! A node with pods and a neighbour, in network namespaces of this machine. Needs root.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;

use trireme_testkit::netns::Namespace;
use trireme_testkit::poll::PATIENCE;

/// The node's address at the bridge of its pods.
pub(crate) const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 1);
/// The node's address in the outer network.
pub(crate) const NODE: Ipv4Addr = Ipv4Addr::new(192, 168, 77, 1);
/// The neighbour's address there.
pub(crate) const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(192, 168, 77, 2);

/// At each of its addresses the node itself answers here, whatever the rules are.
pub(crate) const WITNESS: u16 = 9000;

/// Answers every TCP connection to `port` with `name` and the client's address.
pub(crate) fn serve_tcp(namespace: &Namespace, port: u16, name: &'static str) {
    namespace.serve(port, move |peer| format!("{name} {}", peer.ip())).unwrap();
}

/// Answers every UDP packet to `port` with `name`.
pub(crate) fn serve_udp(namespace: &Namespace, port: u16, name: &'static str) {
    let socket = namespace.run(move || UdpSocket::bind(("0.0.0.0", port)).unwrap());
    std::thread::spawn(move || {
        let mut buffer = [0; 64];
        while let Ok((_, peer)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(name.as_bytes(), peer);
        }
    });
}

/// A UDP socket that sends to `address`.
pub(crate) fn udp(namespace: &Namespace, address: Ipv4Addr, port: u16) -> UdpSocket {
    namespace.run(move || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.connect((address, port)).unwrap();
        socket
    })
}

/// The node, its pods and its neighbour.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) node: Arc<Namespace>,
    pub(crate) neighbour: Namespace,
    /// 10.244.0.2, 10.244.0.3, …
    pub(crate) pods: Vec<Namespace>,
}

impl Machine {
    pub(crate) fn new(pods: u8) -> Self {
        let (node, neighbour) = (Namespace::new("node").unwrap(), Namespace::new("out").unwrap());
        let ip = |namespace: &Namespace, arguments: &str| {
            namespace.ip(&arguments.split_whitespace().collect::<Vec<_>>()).unwrap();
        };
        ip(&node, "link add cni0 type bridge");
        ip(&node, &format!("addr add {GATEWAY}/24 dev cni0"));
        ip(&node, "link set cni0 up");
        ip(&node, &format!("link add eth0 type veth peer name eth0 netns {}", neighbour.name()));
        ip(&node, &format!("addr add {NODE}/24 dev eth0"));
        ip(&node, "link set eth0 up");
        ip(&neighbour, &format!("addr add {NEIGHBOUR}/24 dev eth0"));
        ip(&neighbour, "link set eth0 up");
        ip(&neighbour, &format!("route add 10.96.0.0/16 via {NODE}"));
        // Cluster IPs must be routed somewhere before the rules can rewrite them.
        ip(&node, &format!("route add default via {NEIGHBOUR}"));
        node.run(|| {
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
            // Pods of one bridge answer each other through the rules too.
            let _ = std::fs::write("/proc/sys/net/bridge/bridge-nf-call-iptables", "1");
        });
        serve_tcp(&node, WITNESS, "node");

        let pods = (0..pods)
            .map(|number| {
                let pod = Namespace::new(&format!("pod{number}")).unwrap();
                ip(&node, &format!("link add veth{number} type veth peer name eth0 netns {}", pod.name()));
                ip(&node, &format!("link set veth{number} master cni0 up"));
                ip(&node, &format!("link set dev veth{number} type bridge_slave hairpin on"));
                ip(&pod, &format!("addr add {}/24 dev eth0", pod_ip(number)));
                ip(&pod, "link set eth0 up");
                ip(&pod, &format!("route add default via {GATEWAY}"));
                pod
            })
            .collect();
        Self { node: Arc::new(node), neighbour, pods }
    }
}

pub(crate) fn pod_ip(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 244, 0, 2 + number)
}
