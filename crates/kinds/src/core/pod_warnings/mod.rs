//! What clients are warned of in a Pod or a template of Pods: it is accepted, and hardly what they want.

mod ports;
mod volumes;

use serde_json::Value;
use trireme_machinery::go;
use trireme_machinery::names;
use trireme_machinery::path::Path;

use crate::check::Node;

/// What to use instead of a label of Nodes that is on its way out.
const OLD_NODE_LABELS: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    ("failure-domain.beta.kubernetes.io/zone", "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"),
    ("beta.kubernetes.io/instance-type", "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    ("scheduler.alpha.kubernetes.io/preferAvoidPods", "deprecated since v1.22; use Taints and Tolerations instead"),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];

/// Annotations that no longer do anything.
const OLD_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    ("security.alpha.kubernetes.io/unsafe-sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
];

const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const USE_SECCOMP_PROFILE: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
const NULL_SELECTOR: &str = "a null labelSelector results in matching no pod";

/// Of the template below `at` of a workload, `spec.template` for most.
pub(crate) fn of_template(object: &Value, at: &[&str]) -> Vec<String> {
    let Some((first, rest)) = at.split_first() else { return Vec::new() };
    let template = rest.iter().fold(Node::of(object, first), |node, step| node.get(step));
    of(&template)
}

/// Of a workload's template, if the change is one that it notices; of a new one always.
pub(crate) fn of_workload(object: &Value, old: Option<&Value>, at: &[&str]) -> Vec<String> {
    match old {
        Some(old) if old["metadata"]["generation"] == object["metadata"]["generation"] => Vec::new(),
        _ => of_template(object, at),
    }
}

/// Of a name that Pods and their hosts are named after, when it is new.
pub(crate) fn of_name(object: &Value, old: Option<&Value>, used: &str) -> Option<String> {
    let wrong = names::is_dns1123_label(object["metadata"]["name"].as_str().unwrap_or_default());
    (old.is_none() && !wrong.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in {used}, which can result in surprising behavior; a DNS label is recommended: \
             [{}]",
            wrong.join(" ")
        )
    })
}

/// Of a Pod, or of a template.
pub(crate) fn of(pod: &Node<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let spec = pod.get("spec");
    placement(&spec, &mut warnings);
    let annotations = pod.get("metadata").get("annotations");
    for (key, why) in OLD_ANNOTATIONS.iter().filter(|(key, _)| annotations.has(key)) {
        say(&mut warnings, &annotations.path.key(key), why);
    }
    volumes::kinds(&spec, &mut warnings);
    volumes::overlaps(&spec, &mut warnings);
    named_twice(&spec, "hostAliases", "ip", &mut warnings);
    named_twice(&spec, "imagePullSecrets", "name", &mut warnings);
    for secret in spec.list("imagePullSecrets").iter().filter(|secret| secret.str("name").is_empty()) {
        say(&mut warnings, &secret.path.child("name"), "invalid empty name \"\"");
    }
    whole_bytes(&spec, "overhead", &mut warnings);
    if !spec.get("securityContext").has("seccompProfile") && annotations.has(SECCOMP_OF_POD) {
        say(&mut warnings, &annotations.path.key(SECCOMP_OF_POD), USE_SECCOMP_PROFILE);
    }
    let containers = containers(&spec);
    for container in &containers {
        of_container(pod, &spec, &annotations, container, &mut warnings);
    }
    ports::check(&containers, &mut warnings);
    if spec.int("terminationGracePeriodSeconds") < 0 {
        let why = "must be >= 0; negative values are invalid and will be treated as 1";
        say(&mut warnings, &spec.path.child("terminationGracePeriodSeconds"), why);
    }
    for key in ["podAffinity", "podAntiAffinity"] {
        null_selectors(&spec.get("affinity").get(key), &mut warnings);
    }
    warnings
}

fn say(warnings: &mut Vec<String>, at: &Path, why: &str) {
    warnings.push(format!("{at}: {why}"));
}

/// All containers, in the order in which upstream looks at them.
fn containers<'a>(spec: &Node<'a>) -> Vec<Node<'a>> {
    ["initContainers", "containers", "ephemeralContainers"].iter().flat_map(|key| spec.list(key)).collect()
}

fn old_label(key: &str) -> Option<&'static str> {
    OLD_NODE_LABELS.iter().find(|(label, _)| *label == key).map(|(_, why)| *why)
}

/// On which Nodes the Pod may run.
fn placement(spec: &Node<'_>, warnings: &mut Vec<String>) {
    for (key, label) in spec.entries("nodeSelector") {
        if let Some(why) = old_label(key) {
            say(warnings, &label.path, why);
        }
    }
    let affinity = spec.get("affinity").get("nodeAffinity");
    for term in affinity.get("requiredDuringSchedulingIgnoredDuringExecution").list("nodeSelectorTerms") {
        expressions(&term, false, warnings);
    }
    for preferred in affinity.list("preferredDuringSchedulingIgnoredDuringExecution") {
        expressions(&preferred.get("preference"), true, warnings);
    }
    for constraint in spec.list("topologySpreadConstraints") {
        let key = constraint.str("topologyKey");
        if let Some(why) = old_label(key) {
            say(warnings, &constraint.path.child("topologyKey"), &format!("{key} is {why}"));
        }
        if !constraint.has("labelSelector") {
            say(warnings, &constraint.path.child("labelSelector"), NULL_SELECTOR);
        }
    }
}

fn expressions(term: &Node<'_>, values: bool, warnings: &mut Vec<String>) {
    for expression in term.list("matchExpressions") {
        let key = expression.str("key");
        if let Some(why) = old_label(key) {
            say(warnings, &expression.path.child("key"), &format!("{key} is {why}"));
        }
        for value in expression.list("values").iter().filter(|_| values) {
            for why in names::is_label_value(value.text()) {
                say(warnings, &value.path, &format!("{} is invalid, {why}", value.text()));
            }
        }
    }
}

/// Terms of affinity between Pods that match none.
fn null_selectors(affinity: &Node<'_>, warnings: &mut Vec<String>) {
    let required = affinity.list("requiredDuringSchedulingIgnoredDuringExecution");
    let preferred = affinity.list("preferredDuringSchedulingIgnoredDuringExecution");
    let preferred = preferred.iter().map(|weighted| weighted.get("podAffinityTerm"));
    for term in required.into_iter().chain(preferred).filter(|term| !term.has("labelSelector")) {
        say(warnings, &term.path.child("labelSelector"), NULL_SELECTOR);
    }
}

fn named_twice(spec: &Node<'_>, list: &str, key: &str, warnings: &mut Vec<String>) {
    let items = spec.list(list);
    for (i, item) in items.iter().enumerate() {
        let name = item.str(key);
        if items[..i].iter().any(|other| other.str(key) == name) {
            say(warnings, &item.path.child(key), &format!("duplicate {key} {}", go::quote(name)));
        }
    }
}

/// Memory and storage are bytes.
fn whole_bytes(node: &Node<'_>, key: &str, warnings: &mut Vec<String>) {
    for resource in ["memory", "ephemeral-storage"] {
        let amount = node.get(key).get(resource);
        let Some(quantity) = amount.quantity() else { continue };
        if quantity.milli_value() % 1000 != 0 {
            let shown = go::quote(&quantity.to_string());
            let why = format!("fractional byte value {shown} is invalid, must be an integer");
            say(warnings, &node.path.child(key).key(resource), &why);
        }
    }
}

fn of_container(
    pod: &Node<'_>,
    spec: &Node<'_>,
    annotations: &Node<'_>,
    container: &Node<'_>,
    warnings: &mut Vec<String>,
) {
    let security = container.get("securityContext");
    let key = format!("{SECCOMP_OF_CONTAINER}{}", container.str("name"));
    if !security.has("seccompProfile") && annotations.has(&key) {
        say(warnings, &annotations.path.key(&key), USE_SECCOMP_PROFILE);
    }
    let key = format!("{APPARMOR}{}", container.str("name"));
    // A Pod's own annotations become fields.
    if !pod.path.is_nil() && !security.has("appArmorProfile") && annotations.has(&key) {
        let profile = spec.get("securityContext").get("appArmorProfile");
        if !is_profile(&profile, annotations.str(&key)) {
            let why = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
            say(warnings, &annotations.path.key(&key), why);
        }
    }
    let resources = container.get("resources");
    for resource in ["memory", "ephemeral-storage"] {
        for key in ["limits", "requests"] {
            let amount = resources.get(key).get(resource);
            let Some(quantity) = amount.quantity().filter(|quantity| quantity.milli_value() % 1000 != 0) else {
                continue;
            };
            let shown = go::quote(&quantity.to_string());
            let why = format!("fractional byte value {shown} is invalid, must be an integer");
            say(warnings, &resources.path.child(key).key(resource), &why);
        }
    }
    hidden_variables(container, warnings);
}

/// Whether the Pod's own AppArmor profile is what the annotation asks for.
fn is_profile(profile: &Node<'_>, annotation: &str) -> bool {
    let (ty, name) = match annotation {
        "unconfined" => ("Unconfined", None),
        "runtime/default" => ("RuntimeDefault", None),
        other => match other.strip_prefix("localhost/").filter(|name| !name.is_empty()) {
            Some(name) => ("Localhost", Some(name)),
            None => return false,
        },
    };
    profile.str("type") == ty && profile.given("localhostProfile").map(|node| node.text()) == name
}

/// Variables that are set again without use of what they were.
fn hidden_variables(container: &Node<'_>, warnings: &mut Vec<String>) {
    let variables = container.list("env");
    for (i, variable) in variables.iter().enumerate() {
        let name = variable.str("name");
        if !variables[..i].iter().any(|other| other.str("name") == name) {
            continue;
        }
        let (value, reference) = (variable.str("value"), format!("$({name})"));
        if variable.has("valueFrom") || value == reference || !value.contains(&reference) {
            let why =
                format!("hides previous definition of {}, which may be dropped when using apply", go::quote(name));
            say(warnings, &variable.path, &why);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of_spec(spec: Value) -> Vec<String> {
        of_template(&json!({"spec": {"template": {"spec": spec}}}), &["spec", "template"])
    }

    /// As kube-apiserver 1.37 says it.
    #[test]
    fn what_matches_nothing_and_what_is_named_twice_is_told() {
        assert_eq!(
            of_spec(json!({
                "topologySpreadConstraints": [{"topologyKey": "failure-domain.beta.kubernetes.io/zone"}],
                "imagePullSecrets": [{}, {"name": "a"}, {"name": "a"}],
                "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}},
                "terminationGracePeriodSeconds": -1,
            })),
            [
                "spec.template.spec.topologySpreadConstraints[0].topologyKey: failure-domain.beta.kubernetes.io/zone is \
                 deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
                "spec.template.spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching \
                 no pod",
                "spec.template.spec.imagePullSecrets[2].name: duplicate name \"a\"",
                "spec.template.spec.imagePullSecrets[0].name: invalid empty name \"\"",
                "spec.template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be \
                 treated as 1",
                "spec.template.spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]\
                 .podAffinityTerm.labelSelector: a null labelSelector results in matching no pod",
            ]
        );
    }

    #[test]
    fn variables_and_bytes_are_looked_at() {
        let env = json!([
            {"name": "A", "value": "1"},
            {"name": "A", "value": "$(A)2"},
            {"name": "A", "value": "$(A)"},
        ]);
        let resources = json!({"limits": {"memory": "1500m", "cpu": "1500m"}});
        assert_eq!(
            of_spec(json!({"containers": [{"name": "c", "env": env, "resources": resources}]})),
            [
                "spec.template.spec.containers[0].resources.limits[memory]: fractional byte value \"1500m\" is invalid, \
                 must be an integer",
                "spec.template.spec.containers[0].env[2]: hides previous definition of \"A\", which may be dropped when \
                 using apply",
            ]
        );
    }

    #[test]
    fn a_change_that_is_not_noticed_is_not_looked_at() {
        let object = json!({"metadata": {"generation": 1}, "spec": {"template": {"spec": {"imagePullSecrets": [{}]}}}});
        assert!(of_workload(&object, Some(&object), &["spec", "template"]).is_empty());
        assert_eq!(of_workload(&object, None, &["spec", "template"]).len(), 1);
    }
}
