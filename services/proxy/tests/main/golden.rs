//! States of a cluster, and the scripts that lead through them. `UPDATE_GOLDEN=1` writes the scripts anew.

use serde::Deserialize;
use trireme_proxy::plan::{base, plan};
use trireme_proxy::ruleset::{Ruleset, rewrite, update};
use trireme_proxy::view::{NodeView, service_ports};

use crate::objects::{State, arcs, options};

#[derive(Deserialize)]
struct Case {
    steps: Vec<State>,
}

fn check(name: &str) {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/main/golden");
    let case = std::fs::read_to_string(dir.join(format!("{name}.yaml"))).unwrap();
    let case: Case = serde_saphyr::from_str(&case).unwrap();
    let options = options("kube-proxy");
    let mut present = None::<Ruleset>;
    let mut scripts = String::new();
    for (number, step) in case.steps.iter().enumerate() {
        let node = NodeView::new("node-1", step.node.as_ref());
        let wanted = plan(&service_ports(&arcs(&step.services), &arcs(&step.slices), &node), &node, &options);
        let script = match &present {
            // The fixed part has a golden script of its own.
            None if name != "base" => update(&options.table, &Ruleset::default(), &wanted),
            None => rewrite(&options.table, &base(&options), &wanted),
            Some(present) => update(&options.table, present, &wanted),
        };
        scripts += &format!("# step {}\n{script}\n", number + 1);
        present = Some(wanted);
    }
    let file = dir.join(format!("{name}.nft"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, &scripts).unwrap();
    }
    let golden = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(scripts == golden, "{name}: the scripts differ from the golden ones:\n{scripts}");
}

#[test]
fn the_fixed_part() {
    check("base");
}

#[test]
fn a_service_as_its_endpoints_come_and_go() {
    check("cluster-ip");
}

#[test]
fn node_ports_and_external_addresses_of_both_policies() {
    check("external");
}

#[test]
fn clients_that_stay_with_their_endpoint() {
    check("affinity");
}

#[test]
fn services_that_are_not_ours() {
    check("others");
}
