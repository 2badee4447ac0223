//! Pods of two nodes reach each other, and the world behind the node's address.

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};
use trireme_client::{Store, Wakes};
use trireme_network::Error;
use trireme_network::agent::{Agent, check_plugins};
use trireme_network::cleanup::{Places, cleanup};
use trireme_network::plan::Settings;
use trireme_testkit::netns::Namespace;

use crate::machine::{NEIGHBOUR, NODE_1, NODE_1_OUTSIDE, NODE_2, Wire, seen_by, serve};

const PLUGINS: &str = "/usr/lib/cni";

fn node(name: &str, range: Option<&str>, address: Ipv4Addr) -> Node {
    let mut node = json!({
        "metadata": { "name": name },
        "status": { "addresses": [{ "type": "InternalIP", "address": address }] },
    });
    if let Some(range) = range {
        node["spec"] = json!({ "podCIDR": range, "podCIDRs": [range] });
    }
    serde_json::from_value(node).unwrap()
}

fn nodes(second: Option<&str>) -> Store<Node> {
    let mut nodes = vec![node("n1", Some("10.244.0.0/24"), NODE_1)];
    nodes.push(node("n2", second, NODE_2));
    Store::of(Vec::new(), nodes)
}

fn agent(name: &str, dir: &Path, nodes: Store<Node>) -> Agent {
    Agent::new(settings(name, dir), dir.join("net.d"), None, nodes, Duration::from_secs(600))
}

/// Lets the agent do its work in its node's namespace.
fn sync(namespace: &Namespace, mut agent: Agent) -> (Agent, Result<bool, Error>) {
    namespace.block_on(move || async move {
        let result = agent.sync(&Wakes::default()).await;
        (agent, result)
    })
}

fn conflist(dir: &Path, name: &str) -> Value {
    let text = std::fs::read_to_string(dir.join(format!("net.d/10-trireme-{name}.conflist"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Runs the plugins of a configuration list on a Pod's namespace, as a container runtime does.
fn add_pod(node: &Namespace, list: &Value, pod: &Namespace, ports: &Value) -> Ipv4Addr {
    let mut result = Value::Null;
    for plugin in list["plugins"].as_array().unwrap() {
        let mut config = plugin.clone();
        config["cniVersion"] = list["cniVersion"].clone();
        config["name"] = list["name"].clone();
        config["runtimeConfig"] = json!({ "portMappings": ports });
        if !result.is_null() {
            config["prevResult"] = result;
        }
        result = call(node, "ADD", plugin["type"].as_str().unwrap(), pod, &config);
    }
    let address = result["ips"][0]["address"].as_str().unwrap();
    address.split('/').next().unwrap().parse().unwrap()
}

fn call(node: &Namespace, command: &'static str, plugin: &str, pod: &Namespace, config: &Value) -> Value {
    let program = format!("{PLUGINS}/{plugin}");
    let (pod_path, pod_id, input) = (pod.path(), pod.name().to_owned(), config.to_string());
    let output = node.run(move || {
        let mut child = Command::new(program)
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", pod_id.replace('-', ""))
            .env("CNI_NETNS", pod_path)
            .env("CNI_IFNAME", "eth0")
            .env("CNI_PATH", PLUGINS)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    });
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{plugin}: {text}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn pods_of_two_nodes() {
    let wire = Wire::new();
    let [first, second] = &wire.nodes;
    let dir = tempfile::tempdir().unwrap();

    // Without a range there is nothing to do, and no configuration that would let Pods start.
    let (agent_2, done) = sync(second, agent("n2", dir.path(), nodes(None)));
    assert!(!done.unwrap());
    assert!(!dir.path().join("net.d").exists());

    let both = nodes(Some("10.244.1.0/24"));
    let (agent_1, done) = sync(first, agent("n1", dir.path(), both.clone()));
    assert!(done.unwrap());
    let (_agent_2, done) = sync(second, agent_2.seeing(both.clone()));
    assert!(done.unwrap());

    let (list_1, list_2) = (conflist(dir.path(), "n1"), conflist(dir.path(), "n2"));
    assert_eq!(list_1["plugins"][0]["mtu"], 1400, "as the wire's");
    let [pod_a, pod_b, pod_c] = ["pa", "pb", "pc"].map(|what| Namespace::new(what).unwrap());
    let ip_a = add_pod(first, &list_1, &pod_a, &json!([]));
    let ports = json!([{ "hostPort": 8088, "containerPort": 80, "protocol": "tcp" }]);
    let ip_b = add_pod(first, &list_1, &pod_b, &ports);
    let ip_c = add_pod(second, &list_2, &pod_c, &json!([]));
    assert_eq!((ip_a.octets()[2], ip_c.octets()[2]), (0, 1));

    // Pods see each other's own addresses, on one node and across nodes.
    serve(&pod_b, 80);
    serve(&pod_c, 80);
    assert_eq!(seen_by(&pod_a, ip_b, 80), ip_a);
    assert_eq!(seen_by(&pod_a, ip_c, 80), ip_a);
    assert_eq!(seen_by(&pod_c, ip_b, 80), ip_c);
    // The world sees the node's address; it does not know the way to a Pod's.
    serve(&wire.neighbour, 80);
    assert_eq!(seen_by(&pod_a, NEIGHBOUR, 80), NODE_1_OUTSIDE);
    // A node that is not a Pod's network is outside too, a node's own processes are not masqueraded.
    serve(second, 81);
    assert_eq!(seen_by(&pod_a, NODE_2, 81), NODE_1);
    assert_eq!(seen_by(first, ip_c, 80), NODE_1);
    // A port of the host leads to its Pod.
    assert_eq!(seen_by(&wire.neighbour, NODE_1_OUTSIDE, 8088), NEIGHBOUR);

    // What others destroy is mended, and a look at what is right changes nothing.
    let before = std::fs::metadata(dir.path().join("net.d/10-trireme-n1.conflist")).unwrap().modified().unwrap();
    first.ip(&["route", "delete", "10.244.1.0/24"]).unwrap();
    let nft = first.run(|| Command::new("nft").args(["flush", "table", "ip", "trireme-n1"]).status().unwrap());
    assert!(nft.success());
    // The neighbour does not know the way back.
    serve(first, 81);
    assert!(pod_a.is_ignored_by(NEIGHBOUR, 80, (NODE_1, 81)).unwrap());
    let (agent_1, done) = sync(first, agent_1);
    assert!(done.unwrap());
    assert_eq!(seen_by(&pod_a, ip_c, 80), ip_a);
    assert_eq!(seen_by(&pod_a, NEIGHBOUR, 80), NODE_1_OUTSIDE);
    let after = std::fs::metadata(dir.path().join("net.d/10-trireme-n1.conflist")).unwrap().modified().unwrap();
    assert_eq!(before, after, "the configuration was right and is not written again");

    // A node that goes takes its route with it; others' routes stay.
    first.ip(&["route", "add", "10.99.0.0/24", "via", &NODE_2.to_string()]).unwrap();
    let (_agent_1, done) = sync(first, agent_1.seeing(nodes(None)));
    assert!(done.unwrap());
    let routes = first.ip(&["route", "show"]).unwrap();
    assert!(!routes.contains("10.244.1.0/24") && routes.contains("10.99.0.0/24"), "{routes}");
}

/// The record that libcni keeps of an attachment.
fn record(dir: &Path, network: &str, pod: &Namespace, ports: &Value) -> PathBuf {
    let (results, id) = (dir.join("results"), pod.name().replace('-', ""));
    std::fs::create_dir_all(&results).unwrap();
    std::fs::write(results.join(format!("cni-loopback-{id}-lo")), "{}").unwrap();
    let known = json!({
        "kind": "cniCacheV1", "containerId": id, "ifName": "eth0", "networkName": network,
        "capabilityArgs": { "portMappings": ports }, "result": { "cniVersion": "1.0.0" },
    });
    let path = results.join(format!("{network}-{}-eth0", "0123456789abcdef".repeat(4)));
    std::fs::write(&path, known.to_string()).unwrap();
    path
}

fn settings(name: &str, dir: &Path) -> Settings {
    Settings {
        name: format!("trireme-{name}"),
        bridge: format!("tri-{name}"),
        cluster_cidr: Some("10.244.0.0/16".parse().unwrap()),
        ipam_dir: dir.join("ipam"),
        node_name: name.to_owned(),
    }
}

/// What a node's network namespace holds of Pods' networks.
fn traces(node: &Namespace) -> String {
    let seen = |program: &'static str, arguments: &'static [&'static str]| {
        let output = node.run(move || Command::new(program).args(arguments).output().unwrap());
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let rules = [seen("nft", &["list", "ruleset"]), seen("iptables-save", &[])].concat();
    [seen("ip", &["link"]), seen("ip", &["route"]), rules].concat()
}

#[test]
fn cleanup_takes_everything_with_it_whatever_the_runtime_left() {
    let wire = Wire::new();
    let node = &wire.nodes[0];
    let dir = tempfile::tempdir().unwrap();
    let places =
        Places { conf_dir: dir.path().join("net.d"), bin_dir: PLUGINS.into(), results: dir.path().join("results") };
    node.ip(&["route", "add", "10.99.0.0/24", "via", &NODE_2.to_string()]).unwrap();
    let drops = node.run(|| Command::new("iptables").args(["-P", "FORWARD", "DROP"]).status().unwrap());
    assert!(drops.success());
    let (_agent, done) = sync(node, agent("n1", dir.path(), nodes(Some("10.244.1.0/24"))));
    assert!(done.unwrap());
    let ports = json!([{ "hostPort": 8088, "containerPort": 80, "protocol": "tcp" }]);
    let pod = Namespace::new("left").unwrap();
    add_pod(node, &conflist(dir.path(), "n1"), &pod, &ports);
    let record = record(dir.path(), "trireme-n1", &pod, &ports);
    let before = traces(node);
    for trace in ["tri-n1", "trireme-n1", "10.244.1.0/24", "8088", "trireme pods"] {
        assert!(before.contains(trace), "{trace}: {before}");
    }

    // Another agent has its table here too: what they have in common stays.
    let second = node.run(|| Command::new("nft").args(["add", "table", "ip", "trireme-n2"]).status().unwrap());
    assert!(second.success());
    let clean = || {
        let (settings, places) = (settings("n1", dir.path()), places.clone());
        node.block_on(move || async move { cleanup(&settings, &places).await }).unwrap();
        traces(node)
    };
    let left = clean();
    assert!(!["tri-n1", "trireme-n1", "8088"].iter().any(|trace| left.contains(trace)), "{left}");
    assert!(["10.244.1.0/24", "trireme pods", "trireme-n2"].iter().all(|trace| left.contains(trace)), "{left}");
    assert_eq!(std::fs::read_dir(dir.path().join("results")).unwrap().count(), 0, "{record:?} and its loopback's");
    assert!(!dir.path().join("ipam/trireme-n1").exists());
    assert_eq!(std::fs::read_dir(dir.path().join("net.d")).unwrap().count(), 0);

    // The last one takes the rest; again is harmless.
    node.run(|| Command::new("nft").args(["delete", "table", "ip", "trireme-n2"]).status().unwrap());
    for _ in 0..2 {
        let left = clean();
        assert!(!["10.244.1.0/24", "trireme pods"].iter().any(|trace| left.contains(trace)), "{left}");
        assert!(left.contains("10.99.0.0/24"), "others' routes stay: {left}");
    }
}

#[test]
fn a_missing_plugin_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let error = check_plugins(dir.path()).unwrap_err().to_string();
    assert!(error.contains("bridge is missing") && error.contains("containernetworking-plugins"), "{error}");
    check_plugins(Path::new(PLUGINS)).unwrap();
}
