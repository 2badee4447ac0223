//! StatefulSet (v1 of apps).

use crate::cells;
use crate::check::{NOT_NEGATIVE, Node, immutable, in_order};
use crate::core::{pod_spec, pod_warnings};
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::table::{AGE, NAME, TableColumn, column, containers, images, words};
use crate::workload;
use serde_json::{Value, json};
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::go;
use trireme_machinery::names;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("apps", "v1", "StatefulSet", "statefulsets")
        .short(&["sts"])
        .category("all")
        .generation()
        .scale()
        .status()
        .hooks(StatefulSet)
}

#[derive(Debug)]
struct StatefulSet;

impl Hooks for StatefulSet {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn warnings(&self, set: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = pod_warnings::of_workload(set, old, &["spec", "template"]);
        if cells::int(set, "spec.revisionHistoryLimit") < 0 {
            let why = "a negative value retains all historical revisions; a value >= 0 is recommended";
            warnings.push(format!("spec.revisionHistoryLimit: {why}"));
        }
        warnings
    }

    fn validate(&self, obj: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        validate(obj, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value, ctx: &Context<'_>) -> ErrorList {
        let mut errors = self.validate(new, ctx);
        let (new, old) = (Node::of(new, "spec"), Node::of(old, "spec"));
        immutable(&new, &old, "selector", &mut errors);
        immutable(&new, &old, "volumeClaimTemplates", &mut errors);
        immutable(&new, &old, "serviceName", &mut errors);
        immutable(&new, &old, "podManagementPolicy", &mut errors);
        errors
    }

    fn validate_update_status(&self, new: &Value, old: &Value, _: &Context<'_>) -> ErrorList {
        let counts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
        let mut errors = workload::status_counts(new, &counts, "status.readyReplicas");
        workload::collisions(new, old, &mut errors);
        errors
    }
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Ready", "string", words("Number of the pod with ready state"), |o, _| {
        format!("{}/{}", cells::int(o, "status.readyReplicas"), cells::int(o, "spec.replicas")).into()
    }),
    AGE,
    containers(|o, _| cells::names(o, "spec.template.spec.containers")),
    images(|o, _| cells::images(o, "spec.template.spec.containers")),
];

fn validate(set: &Value, errors: &mut ErrorList) {
    let spec = Node::of(set, "spec");
    if spec.required("podManagementPolicy", errors)
        && !matches!(spec.str("podManagementPolicy"), "OrderedReady" | "Parallel")
    {
        spec.invalid("podManagementPolicy", "must be 'OrderedReady' or 'Parallel'", errors);
    }
    strategy(&spec, errors);
    if let Some(policy) = spec.given("persistentVolumeClaimRetentionPolicy") {
        for key in ["whenDeleted", "whenScaled"] {
            policy.always_one_of(key, &["Retain", "Delete"], errors);
        }
    }
    for claim in spec.list("volumeClaimTemplates") {
        pod_spec::claim_spec(&claim.get("spec"), errors);
    }
    spec.nonnegative("replicas", errors);
    spec.nonnegative("minReadySeconds", errors);
    if let Some(start) = spec.get("ordinals").opt_int("start").filter(|s| *s < 0) {
        errors.push(field::invalid(&spec.path.child("ordinals.start"), &start, NOT_NEGATIVE));
    }
    if !spec.is_empty("serviceName") {
        spec.named("serviceName", names::is_dns1123_label, errors);
    }
    workload::selector(&spec, "statefulset", errors);
    workload::template_labels(&spec, false, Some(""), errors);
    template(&spec, errors);
    workload::always_running(&spec, &spec.get("template"), "StatefulSet", errors);
}

/// The template with what every Pod of the set has of its own: a host name, and the volumes of its claims.
fn template(spec: &Node<'_>, errors: &mut ErrorList) {
    let template = spec.get("template");
    let mut value = template.value.clone();
    if let Some(pod) = value.get_mut("spec").and_then(Value::as_object_mut) {
        pod.remove("subdomain");
        pod.remove("hostname");
        let claims: Vec<Value> =
            spec.list("volumeClaimTemplates").iter().map(|c| c.value["metadata"]["name"].clone()).collect();
        if !claims.is_empty() {
            let mut volumes: Vec<Value> =
                claims.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}})).collect();
            let own = pod.get("volumes").and_then(Value::as_array).cloned().unwrap_or_default();
            volumes.extend(own.into_iter().filter(|v| !claims.contains(&v["name"])));
            pod.insert("volumes".to_owned(), volumes.into());
        }
    }
    errors.extend(pod_spec::template(&Node { value: &value, path: template.path }));
}

fn strategy(spec: &Node<'_>, errors: &mut ErrorList) {
    let strategy = spec.get("updateStrategy");
    let rolling = strategy.given("rollingUpdate");
    match strategy.str("type") {
        "" => errors.push(field::required(&strategy.path, "")),
        "OnDelete" => {
            if let Some(rolling) = rolling {
                let why = "only allowed for updateStrategy 'RollingUpdate'";
                errors.push(field::invalid(&rolling.path, rolling.value, why).showing(internal(&rolling)));
            }
        }
        "RollingUpdate" => {
            let Some(rolling) = rolling else { return };
            rolling.nonnegative("partition", errors);
            if let Some(unavailable) = rolling.given("maxUnavailable") {
                workload::number_or_percent(&unavailable, errors);
                if workload::amount(&unavailable) == 0 {
                    rolling.invalid("maxUnavailable", "cannot be 0", errors);
                }
                workload::at_most_all(&unavailable, errors);
            }
        }
        ty => {
            let rolling = rolling.map_or_else(|| "null".to_owned(), |r| internal(&r));
            let shown = in_order([("Type", go::json(&ty.into())), ("RollingUpdate", rolling)]);
            let why = "must be 'RollingUpdate' or 'OnDelete'";
            errors.push(field::invalid(&strategy.path, ty, why).showing(shown));
        }
    }
}

/// As Kubernetes' internal type prints itself.
fn internal(rolling: &Node<'_>) -> String {
    in_order([
        ("Partition", rolling.int("partition").to_string()),
        ("MaxUnavailable", go::json(rolling.get("maxUnavailable").value)),
    ])
}
