//! Real traffic through real rules.

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use trireme_client::{Store, Wakes};
use trireme_proxy::nft::{self, Monitor, Seen};
use trireme_proxy::sync::{Keeper, Progress, World};
use trireme_testkit::netns::{Namespace, ask};
use trireme_testkit::poll::{self, PATIENCE};

use crate::machine::{GATEWAY, Machine, NEIGHBOUR, NODE, WITNESS, pod_ip, serve_tcp, serve_udp, udp};
use crate::objects::{State, options};

const SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 5);

/// A Service `web` at 10.96.0.5:80 (node port 30080), with more of its spec.
fn state(spec: &str, protocol: &str, endpoints: &[u8]) -> State {
    let endpoints: Vec<String> = endpoints
        .iter()
        .map(|pod| format!("{{addresses: [{}], conditions: {{ready: true}}, nodeName: node-1}}", pod_ip(*pod)))
        .collect();
    state_of(spec, protocol, &endpoints.join(", "))
}

fn state_of(spec: &str, protocol: &str, endpoints: &str) -> State {
    let text = format!(
        "node: {{metadata: {{name: node-1}}, status: {{addresses: [{{type: InternalIP, address: {NODE}}}]}}}}\n\
         services:\n\
         - metadata: {{name: web, namespace: default}}\n\
        \x20 spec: {{clusterIP: {SERVICE}, ports: [{{port: 80, nodePort: 30080, protocol: {protocol}}}]{spec}}}\n\
         slices:\n\
         - metadata: {{name: web-1, namespace: default, labels: {{kubernetes.io/service-name: web}}}}\n\
        \x20 addressType: IPv4\n\
        \x20 ports: [{{name: '', port: 8080, protocol: {protocol}}}]\n\
        \x20 endpoints: [{endpoints}]\n"
    );
    serde_saphyr::from_str(&text).unwrap()
}

/// A keeper that lives in the node's namespace.
struct Proxy {
    node: Arc<Namespace>,
    keeper: Option<Keeper>,
}

impl Proxy {
    fn new(machine: &Machine) -> Self {
        Self { node: Arc::clone(&machine.node), keeper: None }
    }

    /// The world as a keeper that starts now sees it.
    fn restart(&mut self, state: &State) -> usize {
        self.keeper = None;
        self.sync(state)
    }

    /// Brings the rules to a state; how many transactions that took.
    fn sync(&mut self, state: &State) -> usize {
        let world = World {
            services: Store::of(Vec::new(), state.services.clone()),
            slices: Store::of(Vec::new(), state.slices.clone()),
            nodes: Store::of(Vec::new(), state.node.clone()),
            node_name: "node-1".to_owned(),
        };
        let keeper = self.keeper.take();
        let (keeper, transactions) = self.node.block_on(move || async move {
            let mut keeper = match keeper {
                Some(keeper) => keeper.seeing(world),
                None => Keeper::new(options("kube-proxy-test"), world, Duration::from_secs(600), Progress::default()),
            };
            let transactions = keeper.sync(&Wakes::default()).await.unwrap();
            (keeper, transactions)
        });
        self.keeper = Some(keeper);
        transactions
    }

    fn verify(&mut self) -> bool {
        let mut keeper = self.keeper.take().unwrap();
        let (keeper, right) = self.node.block_on(move || async move {
            let right = keeper.verify().await;
            (keeper, right)
        });
        self.keeper = Some(keeper);
        right
    }
}

fn refused(result: std::io::Result<String>) -> bool {
    result.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// Nothing comes back of what a client sends there.
fn dropped(client: &Namespace, address: Ipv4Addr, port: u16, node: Ipv4Addr) -> bool {
    client.is_ignored_by(address, port, (node, WITNESS)).unwrap()
}

/// The address leads nowhere: nothing comes back, or word of that. (Without rules it goes round between routers.)
fn unserved(client: &Namespace) -> bool {
    dropped(client, SERVICE, 80, GATEWAY) || client.ask(SERVICE, 80).is_err()
}

/// Who answers `times` connections of a client.
fn answers(client: &Namespace, address: Ipv4Addr, port: u16, times: usize) -> Vec<String> {
    let mut names: Vec<String> = client
        .run(move || (0..times).map(|_| ask(address, port).unwrap().split(' ').next().unwrap().to_owned()).collect());
    names.sort();
    names.dedup();
    names
}

#[test]
fn a_cluster_ip_leads_to_all_endpoints_and_to_none_that_is_gone() {
    let machine = Machine::new(3);
    let [first, second, client] = &machine.pods[..] else { panic!("three pods") };
    let mut proxy = Proxy::new(&machine);
    serve_tcp(first, 8080, "first");
    serve_tcp(second, 8080, "second");

    // No endpoint: refused, from a pod and from the node itself.
    proxy.sync(&state("", "TCP", &[]));
    assert!(refused(client.ask(SERVICE, 80)), "from a pod");
    assert!(refused(machine.node.ask(SERVICE, 80)), "from the node");

    assert_eq!(proxy.sync(&state("", "TCP", &[0, 1])), 1);
    assert_eq!(proxy.sync(&state("", "TCP", &[0, 1])), 0, "nothing to do");
    for asker in [client, &*machine.node, &machine.neighbour, first] {
        assert_eq!(answers(asker, SERVICE, 80, 40), ["first", "second"]);
    }
    // A pod's address is seen by the endpoint, another's is masqueraded.
    assert!(client.ask(SERVICE, 80).unwrap().ends_with(&format!(" {}", pod_ip(2))));
    assert!(machine.neighbour.ask(SERVICE, 80).unwrap().ends_with(&format!(" {GATEWAY}")));
    // A port that the Service does not have.
    assert!(refused(client.ask(SERVICE, 81)));

    // An endpoint is removed while traffic flows: no connection fails, and none that begins afterwards goes there.
    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (stopped, count) = (Arc::clone(&stop), Arc::clone(&answered));
    let traffic = client.spawn(move || {
        let mut seen = Vec::new();
        while !stopped.load(Ordering::SeqCst) {
            seen.push((Instant::now(), ask(SERVICE, 80)));
            count.fetch_add(1, Ordering::SeqCst);
        }
        seen
    });
    let flows = || {
        let before = answered.load(Ordering::SeqCst);
        let more = || answered.load(Ordering::SeqCst).checked_sub(before + 50).context("too few answers");
        poll::until("traffic", PATIENCE, more).unwrap();
    };
    flows();
    proxy.sync(&state("", "TCP", &[1]));
    let changed = Instant::now();
    flows();
    stop.store(true, Ordering::SeqCst);
    let seen = traffic.join().unwrap();
    assert!(seen.iter().any(|(at, _)| *at > changed), "traffic went on");
    for (at, answer) in seen {
        let answer = answer.unwrap();
        assert!(at < changed || answer.starts_with("second"), "{answer} after the change");
    }

    // A pod that is the only endpoint reaches itself.
    assert_eq!(answers(second, SERVICE, 80, 5), ["second"]);

    // The Service goes: its address leads nowhere, and the table is as if it had never been.
    proxy.sync(&serde_saphyr::from_str("{}").unwrap());
    assert!(unserved(client));
}

#[test]
fn node_ports_and_the_clients_address() {
    let machine = Machine::new(2);
    let [server, client] = &machine.pods[..] else { panic!("two pods") };
    let mut proxy = Proxy::new(&machine);
    serve_tcp(server, 8080, "server");

    proxy.sync(&state(", type: NodePort", "TCP", &[0]));
    let answer = machine.neighbour.ask(NODE, 30080).unwrap();
    assert_eq!(answer, format!("server {GATEWAY}"), "masqueraded");
    assert_eq!(answers(client, NODE, 30080, 3), ["server"]);
    assert_eq!(answers(&machine.node, NODE, 30080, 3), ["server"]);
    assert!(refused(machine.neighbour.ask(NODE, 30081)));

    proxy.sync(&state(", type: NodePort, externalTrafficPolicy: Local", "TCP", &[0]));
    let answer = machine.neighbour.ask(NODE, 30080).unwrap();
    assert_eq!(answer, format!("server {NEIGHBOUR}"), "the client's address is kept");

    // The endpoint is on another node (it is not, so that it answers): dropped for others, served for our own.
    let elsewhere = format!("{{addresses: [{}], conditions: {{ready: true}}, nodeName: node-2}}", pod_ip(0));
    proxy.sync(&state_of(", type: NodePort, externalTrafficPolicy: Local", "TCP", &elsewhere));
    assert!(dropped(&machine.neighbour, NODE, 30080, NODE), "dropped for others");
    assert_eq!(answers(client, NODE, 30080, 3), ["server"]);
    assert_eq!(answers(&machine.node, NODE, 30080, 3), ["server"]);

    proxy.sync(&state_of(", internalTrafficPolicy: Local", "TCP", &elsewhere));
    assert!(dropped(client, SERVICE, 80, GATEWAY), "no endpoint here");

    proxy.sync(&state(", type: NodePort", "TCP", &[]));
    assert!(refused(machine.neighbour.ask(NODE, 30080)), "no endpoint anywhere");
}

#[test]
fn a_client_stays_with_its_endpoint() {
    let machine = Machine::new(3);
    let [first, second, client] = &machine.pods[..] else { panic!("three pods") };
    let mut proxy = Proxy::new(&machine);
    serve_tcp(first, 8080, "first");
    serve_tcp(second, 8080, "second");
    let spec = ", sessionAffinity: ClientIP";
    proxy.sync(&state(spec, "TCP", &[0, 1]));
    let chosen = answers(client, SERVICE, 80, 20);
    assert_eq!(chosen.len(), 1, "{chosen:?}");
    // An unrelated change does not make it forget.
    proxy.sync(&state(", sessionAffinity: ClientIP, externalIPs: [203.0.113.5]", "TCP", &[0, 1]));
    assert_eq!(answers(client, SERVICE, 80, 20), chosen);
    // When its endpoint goes it gets another.
    let (left, name) = if chosen == ["first"] { (1, "second") } else { (0, "first") };
    proxy.sync(&state(spec, "TCP", &[left]));
    assert_eq!(answers(client, SERVICE, 80, 5), [name]);
}

#[test]
fn udp_follows_the_endpoints() {
    let machine = Machine::new(3);
    let [first, second, client] = &machine.pods[..] else { panic!("three pods") };
    let mut proxy = Proxy::new(&machine);
    serve_udp(first, 8080, "first");
    serve_udp(second, 8080, "second");
    let socket = udp(client, SERVICE, 80);
    let answer = || {
        let mut buffer = [0; 64];
        socket.send(b"?")?;
        socket.recv(&mut buffer).map(|length| String::from_utf8_lossy(&buffer[..length]).into_owned())
    };
    // One socket all along, as a DNS client has it.
    proxy.sync(&state("", "UDP", &[]));
    assert!(refused(answer()));
    proxy.sync(&state("", "UDP", &[0]));
    assert_eq!(answer().unwrap(), "first");
    proxy.sync(&state("", "UDP", &[1]));
    assert_eq!(answer().unwrap(), "second");
}

#[test]
fn changes_by_others_are_seen_and_undone() {
    let machine = Machine::new(2);
    let [server, client] = &machine.pods[..] else { panic!("two pods") };
    let mut proxy = Proxy::new(&machine);
    serve_tcp(server, 8080, "server");
    let wanted = state("", "TCP", &[0]);
    proxy.sync(&wanted);
    assert!(!proxy.node.hears_of_rules().unwrap());

    for tampering in [
        "delete element ip kube-proxy-test service-ips { 10.96.0.5 . tcp . 80 }",
        "insert rule ip kube-proxy-test services ip daddr 10.96.0.5 drop",
        "delete table ip kube-proxy-test",
    ] {
        let node = Arc::clone(&proxy.node);
        let seen = proxy.node.block_on(move || async move {
            let mut monitor = Monitor::start("kube-proxy-test").unwrap();
            poll::holds("the monitor listens", || node.hears_of_rules().unwrap()).await.unwrap();
            nft::transaction(&format!("{tampering}\n")).await.unwrap();
            tokio::time::timeout(PATIENCE, monitor.next()).await.unwrap()
        });
        assert_eq!(seen, Seen::Transaction);
        assert!(!proxy.verify(), "{tampering}");
        assert!(unserved(client));
        proxy.restart(&wanted);
        assert_eq!(answers(client, SERVICE, 80, 3), ["server"]);
    }
    assert!(proxy.verify() && proxy.verify(), "nothing changed since");
}
