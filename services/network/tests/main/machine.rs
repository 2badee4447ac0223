//! Two nodes on one wire, and a neighbour of the first that knows nothing of pods.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sched::{CloneFlags, setns};

/// The first node on the wire.
pub(crate) const NODE_1: Ipv4Addr = Ipv4Addr::new(192, 168, 78, 1);
/// The second node on the wire.
pub(crate) const NODE_2: Ipv4Addr = Ipv4Addr::new(192, 168, 78, 2);
/// The first node as its neighbour sees it.
pub(crate) const NODE_1_OUTSIDE: Ipv4Addr = Ipv4Addr::new(192, 168, 79, 1);
/// The neighbour.
pub(crate) const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(192, 168, 79, 2);

const PATIENCE: Duration = Duration::from_millis(1500);

/// A network namespace; removed when dropped.
#[derive(Debug)]
pub(crate) struct Namespace(pub(crate) String);

impl Namespace {
    pub(crate) fn new(what: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("nw{}n{}{what}", std::process::id() % 10_000, NEXT.fetch_add(1, Ordering::Relaxed));
        ip(&["netns", "add", &name]);
        ip(&["-n", &name, "link", "set", "lo", "up"]);
        Self(name)
    }

    pub(crate) fn path(&self) -> String {
        format!("/run/netns/{}", self.0)
    }

    /// Runs something on a thread inside the namespace.
    pub(crate) fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let file = std::fs::File::open(self.path()).unwrap();
        std::thread::spawn(move || {
            setns(file, CloneFlags::CLONE_NEWNET).unwrap();
            work()
        })
        .join()
        .unwrap()
    }

    /// Answers every TCP connection to `port` with the client's address.
    pub(crate) fn serve(&self, port: u16) {
        let listener = self.run(move || TcpListener::bind(("0.0.0.0", port)).unwrap());
        std::thread::spawn(move || {
            while let Ok((mut stream, peer)) = listener.accept() {
                let _ = stream.write_all(peer.ip().to_string().as_bytes());
            }
        });
    }

    /// Which address `address` sees us at.
    pub(crate) fn seen_by(&self, address: Ipv4Addr, port: u16) -> std::io::Result<Ipv4Addr> {
        self.run(move || {
            let address = SocketAddr::V4(SocketAddrV4::new(address, port));
            let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer.parse().unwrap())
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.0]).status();
    }
}

/// The nodes and the neighbour.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) nodes: [Namespace; 2],
    pub(crate) neighbour: Namespace,
}

impl Wire {
    pub(crate) fn new() -> Self {
        let nodes = [Namespace::new("a"), Namespace::new("b")];
        let neighbour = Namespace::new("out");
        connect(&nodes[0], "eth0", NODE_1, &nodes[1], "eth0", NODE_2);
        connect(&nodes[0], "eth1", NODE_1_OUTSIDE, &neighbour, "eth0", NEIGHBOUR);
        // A smaller packet size than usual, as in a cloud's network.
        ip(&["-n", &nodes[0].0, "link", "set", "eth0", "mtu", "1400"]);
        Self { nodes, neighbour }
    }
}

fn connect(a: &Namespace, port_a: &str, ip_a: Ipv4Addr, b: &Namespace, port_b: &str, ip_b: Ipv4Addr) {
    ip(&["-n", &a.0, "link", "add", port_a, "type", "veth", "peer", "name", port_b, "netns", &b.0]);
    for (namespace, port, address) in [(a, port_a, ip_a), (b, port_b, ip_b)] {
        ip(&["-n", &namespace.0, "addr", "add", &format!("{address}/24"), "dev", port]);
        ip(&["-n", &namespace.0, "link", "set", port, "up"]);
    }
}

pub(crate) fn ip(args: &[&str]) -> String {
    let output = Command::new("ip").args(args).output().unwrap();
    assert!(output.status.success(), "ip {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
