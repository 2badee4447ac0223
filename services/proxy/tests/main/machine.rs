//! A node with pods and a neighbour, in network namespaces of this machine. Needs root.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sched::{CloneFlags, setns};

/// The node's address at the bridge of its pods.
pub(crate) const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 1);
/// The node's address in the outer network.
pub(crate) const NODE: Ipv4Addr = Ipv4Addr::new(192, 168, 77, 1);
/// The neighbour's address there.
pub(crate) const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(192, 168, 77, 2);

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_millis(1500);

/// A network namespace.
#[derive(Clone, Debug)]
pub(crate) struct Namespace(String);

impl Namespace {
    fn create(name: String) -> Self {
        ip(&["netns", "add", &name]);
        ip(&["-n", &name, "link", "set", "lo", "up"]);
        Self(name)
    }

    /// Runs something on a thread inside the namespace.
    pub(crate) fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        self.spawn(work).join().unwrap()
    }

    /// The same, beside the caller.
    pub(crate) fn spawn<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let file = std::fs::File::open(format!("/run/netns/{}", self.0)).unwrap();
        std::thread::spawn(move || {
            setns(file, CloneFlags::CLONE_NEWNET).unwrap();
            work()
        })
    }

    /// Answers every TCP connection to `port` with `name` and the client's address.
    pub(crate) fn serve_tcp(&self, port: u16, name: &'static str) {
        let listener = self.run(move || TcpListener::bind(("0.0.0.0", port)).unwrap());
        std::thread::spawn(move || {
            while let Ok((mut stream, peer)) = listener.accept() {
                let _ = stream.write_all(format!("{name} {}", peer.ip()).as_bytes());
            }
        });
    }

    /// Answers every UDP packet to `port` with `name`.
    pub(crate) fn serve_udp(&self, port: u16, name: &'static str) {
        let socket = self.run(move || UdpSocket::bind(("0.0.0.0", port)).unwrap());
        std::thread::spawn(move || {
            let mut buffer = [0; 64];
            while let Ok((_, peer)) = socket.recv_from(&mut buffer) {
                let _ = socket.send_to(name.as_bytes(), peer);
            }
        });
    }

    /// Connects and reads the answer.
    pub(crate) fn ask(&self, address: Ipv4Addr, port: u16) -> std::io::Result<String> {
        self.run(move || ask(address, port))
    }

    /// A UDP socket that sends to `address`.
    pub(crate) fn udp(&self, address: Ipv4Addr, port: u16) -> UdpSocket {
        self.run(move || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket.connect((address, port)).unwrap();
            socket
        })
    }
}

pub(crate) fn ask(address: Ipv4Addr, port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::V4(SocketAddrV4::new(address, port)), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The node, its pods and its neighbour. Removed when dropped.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) node: Namespace,
    pub(crate) neighbour: Namespace,
    /// 10.244.0.2, 10.244.0.3, …
    pub(crate) pods: Vec<Namespace>,
}

impl Machine {
    pub(crate) fn new(pods: u8) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let id = format!("px{}n{}", std::process::id() % 10_000, NEXT.fetch_add(1, Ordering::Relaxed));
        let node = Namespace::create(format!("{id}node"));
        let neighbour = Namespace::create(format!("{id}out"));
        let in_node = |args: &[&str]| ip(&[&["-n", node.0.as_str()], args].concat());

        in_node(&["link", "add", "cni0", "type", "bridge"]);
        in_node(&["addr", "add", &format!("{GATEWAY}/24"), "dev", "cni0"]);
        in_node(&["link", "set", "cni0", "up"]);
        in_node(&["link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", &neighbour.0]);
        in_node(&["addr", "add", &format!("{NODE}/24"), "dev", "eth0"]);
        in_node(&["link", "set", "eth0", "up"]);
        ip(&["-n", &neighbour.0, "addr", "add", &format!("{NEIGHBOUR}/24"), "dev", "eth0"]);
        ip(&["-n", &neighbour.0, "link", "set", "eth0", "up"]);
        ip(&["-n", &neighbour.0, "route", "add", "10.96.0.0/16", "via", &NODE.to_string()]);
        // Cluster IPs must be routed somewhere before the rules can rewrite them.
        in_node(&["route", "add", "default", "via", &NEIGHBOUR.to_string()]);
        node.run(|| {
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
            // Pods of one bridge answer each other through the rules too.
            let _ = std::fs::write("/proc/sys/net/bridge/bridge-nf-call-iptables", "1");
        });

        let pods = (0..pods)
            .map(|number| {
                let pod = Namespace::create(format!("{id}pod{number}"));
                let port = format!("veth{number}");
                in_node(&["link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns", &pod.0]);
                in_node(&["link", "set", &port, "master", "cni0", "up"]);
                in_node(&["link", "set", "dev", &port, "type", "bridge_slave", "hairpin", "on"]);
                ip(&["-n", &pod.0, "addr", "add", &format!("{}/24", pod_ip(number)), "dev", "eth0"]);
                ip(&["-n", &pod.0, "link", "set", "eth0", "up"]);
                ip(&["-n", &pod.0, "route", "add", "default", "via", &GATEWAY.to_string()]);
                pod
            })
            .collect();
        Self { node, neighbour, pods }
    }
}

pub(crate) fn pod_ip(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 244, 0, 2 + number)
}

impl Drop for Machine {
    fn drop(&mut self) {
        for namespace in self.pods.iter().chain([&self.node, &self.neighbour]) {
            let _ = Command::new("ip").args(["netns", "delete", &namespace.0]).status();
        }
    }
}

fn ip(args: &[&str]) {
    let output = Command::new("ip").args(args).output().unwrap();
    assert!(output.status.success(), "ip {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}
