//! Whose a route is: ours are made, changed and removed; those of others stand, whatever range they have.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use trireme_network::Error;
use trireme_network::system::set_routes;
use trireme_testkit::netns::Namespace;

use crate::machine::{NEIGHBOUR, NODE_2, Wire};

fn set(node: &Namespace, wanted: &[(&str, Ipv4Addr)]) -> Result<bool, Error> {
    let wanted: BTreeMap<_, _> = wanted.iter().map(|(range, via)| (range.parse().unwrap(), *via)).collect();
    node.block_on(move || async move { set_routes(&wanted).await })
}

#[test]
fn a_route_of_others_is_never_replaced() {
    let wire = Wire::new();
    let node = &wire.nodes[0];
    let routes = || node.ip(&["route", "show"]).unwrap();
    node.ip(&["route", "add", "default", "via", &NEIGHBOUR.to_string()]).unwrap();
    node.ip(&["route", "add", "10.244.1.0/24", "via", &NEIGHBOUR.to_string()]).unwrap();

    let error = set(node, &[("0.0.0.0/0", NODE_2), ("10.244.1.0/24", NODE_2), ("10.244.2.0/24", NODE_2)]).unwrap_err();
    assert!(error.to_string().contains("File exists"), "{error}");
    let after = routes();
    assert!(after.contains(&format!("default via {NEIGHBOUR}")), "{after}");
    assert!(after.contains(&format!("10.244.1.0/24 via {NEIGHBOUR}")), "{after}");
    assert!(after.contains(&format!("10.244.2.0/24 via {NODE_2}")), "what can be made is: {after}");

    // A node with a new address, then none at all.
    assert!(set(node, &[("10.244.2.0/24", NEIGHBOUR)]).unwrap());
    assert!(routes().contains(&format!("10.244.2.0/24 via {NEIGHBOUR}")), "{}", routes());
    assert!(!set(node, &[("10.244.2.0/24", NEIGHBOUR)]).unwrap());
    assert!(set(node, &[]).unwrap());
    let after = routes();
    assert!(
        !after.contains("10.244.2.0/24") && after.contains("default via") && after.contains("10.244.1.0/24"),
        "{after}"
    );
}
