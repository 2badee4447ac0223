use serde_json::{Value, json};
use trireme_machinery::labels::Selector;

use super::*;
use crate::framework::Rejection;
use crate::plugins::testing::{cluster, judge, rate};
use crate::testing::{NodeBuilder, PodBuilder, node, pod};

fn zoned(name: &str, zone: &str) -> NodeBuilder {
    node(name).label("zone", zone)
}

fn web(name: &str) -> PodBuilder {
    pod(name).label("app", "web")
}

fn constrained(when: &str, more: Value) -> PodBuilder {
    let mut constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": "web"}}});
    if let (Value::Object(constraint), Value::Object(more)) = (&mut constraint, more) {
        constraint.extend(more);
    }
    web("p").set(&["spec", "topologySpreadConstraints"], json!([constraint]))
}

fn fits(pod: PodBuilder, nodes: Vec<NodeBuilder>, pods: Vec<PodBuilder>) -> Vec<Result<(), Rejection>> {
    judge(&PodTopologySpread, &pod.info(), &cluster(nodes, pods))
}

#[test]
fn a_hard_constraint_keeps_zones_even() {
    let nodes = || vec![zoned("a", "x"), zoned("b", "y"), node("c")];
    let skewed = Err(Rejection::preemptible("node(s) didn't match pod topology spread constraints"));
    let unlabelled =
        Err(Rejection::lasting("node(s) didn't match pod topology spread constraints (missing required label)"));
    let hard = || constrained("DoNotSchedule", json!({}));
    assert_eq!(fits(hard(), nodes(), vec![web("1").on("a")]), [skewed.clone(), Ok(()), unlabelled.clone()]);
    assert_eq!(fits(hard(), nodes(), vec![web("1").on("a"), web("2").on("b")]), [Ok(()), Ok(()), unlabelled.clone()]);
    assert_eq!(fits(constrained("DoNotSchedule", json!({"maxSkew": 2})), nodes(), vec![web("1").on("a")])[0], Ok(()),);
    // With fewer domains than wanted the least is taken for none.
    assert_eq!(
        fits(constrained("DoNotSchedule", json!({"minDomains": 3})), nodes(), vec![web("1").on("a"), web("2").on("b")]),
        [skewed.clone(), skewed.clone(), unlabelled]
    );
    let going = web("1").on("a").set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z".into());
    assert_eq!(fits(hard(), nodes(), vec![going])[0], Ok(()));
    assert_eq!(
        fits(hard(), nodes(), vec![web("1").on("a").set(&["metadata", "namespace"], "other".into())])[0],
        Ok(())
    );
}

#[test]
fn nodes_that_the_pod_cannot_use_do_not_count() {
    let nodes = || vec![zoned("a", "x").label("d", "1"), zoned("b", "y")];
    let picky = |more| constrained("DoNotSchedule", more).set(&["spec", "nodeSelector"], json!({"d": "1"}));
    assert_eq!(fits(picky(json!({})), nodes(), vec![web("1").on("a")])[0], Ok(()));
    assert!(fits(picky(json!({"nodeAffinityPolicy": "Ignore"})), nodes(), vec![web("1").on("a")])[0].is_err());
}

#[test]
fn soft_constraints_prefer_the_emptier_zone() {
    let snapshot = cluster(
        vec![zoned("a", "x"), zoned("b", "y"), node("c")],
        vec![web("1").on("a"), web("2").on("a"), web("3").on("b")],
    );
    let soft = constrained("ScheduleAnyway", json!({})).info();
    let scores = rate(&PodTopologySpread, &soft, &snapshot, &Selector::everything()).unwrap();
    assert!(scores[1] > scores[0] && scores[2] == 0, "{scores:?}");
}

#[test]
fn replicas_are_spread_without_a_constraint() {
    let snapshot = cluster(vec![node("a"), node("b")], vec![web("1").on("a")]);
    let replicas = Selector::parse("app=web").unwrap();
    let scores = rate(&PodTopologySpread, &web("p").info(), &snapshot, &replicas).unwrap();
    assert!(scores[1] > scores[0], "{scores:?}");
    assert_eq!(rate(&PodTopologySpread, &web("p").info(), &snapshot, &Selector::everything()), None);
}
