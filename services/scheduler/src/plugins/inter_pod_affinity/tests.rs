use serde_json::{Value, json};
use trireme_machinery::labels::Selector;

use super::*;
use crate::framework::Rejection;
use crate::plugins::testing::{cluster, judge, rate};
use crate::testing::{NodeBuilder, PodBuilder, node, pod};

fn term(app: &str, key: &str) -> Value {
    json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key})
}

fn required(pod: PodBuilder, side: &str, term: Value) -> PodBuilder {
    pod.set(&["spec", "affinity", side, "requiredDuringSchedulingIgnoredDuringExecution"], json!([term]))
}

fn nodes() -> Vec<NodeBuilder> {
    vec![node("a").label("zone", "x"), node("b").label("zone", "x"), node("c").label("zone", "y"), node("d")]
}

fn app(name: &str, app: &str) -> PodBuilder {
    pod(name).label("app", app)
}

fn fits(pod: PodBuilder, pods: Vec<PodBuilder>) -> Vec<bool> {
    judge(&InterPodAffinity, &pod.info(), &cluster(nodes(), pods)).iter().map(Result::is_ok).collect()
}

#[test]
fn a_pod_goes_where_the_wanted_pods_are() {
    let wants = || required(app("p", "web"), "podAffinity", term("db", "zone"));
    assert_eq!(fits(wants(), vec![app("1", "db").on("a")]), [true, true, false, false]);
    assert_eq!(fits(wants(), vec![]), [false, false, false, false]);
    let elsewhere = app("1", "db").on("a").set(&["metadata", "namespace"], "other".into());
    assert_eq!(fits(wants(), vec![elsewhere]), [false; 4]);
    // The first of pods that want each other may go anywhere with the label.
    let like_itself = required(app("p", "web"), "podAffinity", term("web", "zone"));
    assert_eq!(fits(like_itself, vec![]), [true, true, true, false]);
}

#[test]
fn both_sides_can_keep_apart() {
    let avoids = required(app("p", "web"), "podAntiAffinity", term("db", "zone"));
    assert_eq!(fits(avoids, vec![app("1", "db").on("a")]), [false, false, true, true]);
    let hermit = required(app("1", "db"), "podAntiAffinity", term("web", "kubernetes.io/hostname")).on("a");
    let judged = judge(&InterPodAffinity, &app("p", "web").info(), &cluster(nodes(), vec![hermit]));
    assert_eq!(judged[0], Err(Rejection::preemptible("node(s) didn't satisfy existing pods anti-affinity rules")));
    assert!(judged[1..].iter().all(Result::is_ok));
}

#[test]
fn namespaces_are_named_or_selected() {
    let mut cache = crate::cache::Cache::default();
    nodes().into_iter().for_each(|node| cache.set_node(node.build()));
    cache.set_namespace("other", Some(&[("team".to_owned(), "a".to_owned())].into()));
    cache.set_pod(app("1", "db").on("a").set(&["metadata", "namespace"], "other".into()).info());
    let snapshot = cache.snapshot();
    let near = |more: Value| {
        let mut term = term("db", "zone");
        if let (Value::Object(term), Value::Object(more)) = (&mut term, more) {
            term.extend(more);
        }
        judge(&InterPodAffinity, &required(app("p", "web"), "podAffinity", term).info(), &snapshot)[0].is_ok()
    };
    assert!(!near(json!({})));
    assert!(near(json!({"namespaces": ["other"]})));
    assert!(near(json!({"namespaceSelector": {}})));
    assert!(near(json!({"namespaceSelector": {"matchLabels": {"team": "a"}}})));
    assert!(!near(json!({"namespaceSelector": {"matchLabels": {"team": "b"}}})));
}

#[test]
fn preferences_attract_and_repel() {
    let prefers = |side: &str| {
        app("p", "web").set(
            &["spec", "affinity", side, "preferredDuringSchedulingIgnoredDuringExecution"],
            json!([{"weight": 10, "podAffinityTerm": term("db", "zone")}]),
        )
    };
    let snapshot = cluster(nodes(), vec![app("1", "db").on("a")]);
    let scores = |pod: PodBuilder| rate(&InterPodAffinity, &pod.info(), &snapshot, &Selector::everything());
    assert_eq!(scores(prefers("podAffinity")), Some(vec![100, 100, 0, 0]));
    assert_eq!(scores(prefers("podAntiAffinity")), Some(vec![0, 0, 100, 100]));
    assert_eq!(scores(app("p", "web")), None);
}
