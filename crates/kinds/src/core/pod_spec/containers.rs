//! What is wrong with containers: those of the Pod, those that run before, and those that join later.

use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;

use super::shared::Shared;
use super::{env, probes, resources, security, volumes};
use crate::check::Node;

/// What an ephemeral container cannot have.
const NOT_EPHEMERAL: [&str; 8] = [
    "ports",
    "resources",
    "resizePolicy",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
    "restartPolicy",
];

pub(super) fn validate(spec: &Node<'_>, shared: &Shared<'_>, errors: &mut ErrorList) {
    let containers = spec.list("containers");
    regular(spec, &containers, shared, errors);
    let mut names: Vec<&str> = containers.iter().map(|c| c.str("name")).collect();
    for container in spec.list("initContainers") {
        common(&container, shared, errors);
        init(&container, shared, &mut names, errors);
    }
    let others = names.clone();
    for container in spec.list("ephemeralContainers") {
        common(&container, shared, errors);
        ephemeral(&container, &others, &mut names, errors);
    }
}

fn regular(spec: &Node<'_>, containers: &[Node<'_>], shared: &Shared<'_>, errors: &mut ErrorList) {
    if containers.is_empty() {
        spec.required("containers", errors);
        return;
    }
    let mut seen: Vec<&str> = Vec::new();
    for container in containers {
        common(container, shared, errors);
        let name = container.str("name");
        if seen.contains(&name) {
            errors.push(field::duplicate(&container.path.child("name"), name));
        } else {
            seen.push(name);
        }
        probes::of_container(container, shared, errors);
        restart_policy(container, errors);
    }
    host_ports(containers, errors);
}

fn init<'a>(container: &Node<'a>, shared: &Shared<'_>, names: &mut Vec<&'a str>, errors: &mut ErrorList) {
    if container.has("restartPolicy") {
        restart_policy(container, errors);
    } else if !container.is_empty("restartPolicyRules") {
        container.required_as("restartPolicy", "must specify restartPolicy when restart rules are used", errors);
    }
    let name = container.str("name");
    if names.contains(&name) {
        errors.push(field::duplicate(&container.path.child("name"), name));
    } else if !name.is_empty() {
        names.push(name);
    }
    host_ports(std::slice::from_ref(container), errors);
    let sidecar = container.str("restartPolicy") == "Always";
    if sidecar {
        probes::of_container(container, shared, errors);
    } else {
        for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            container.forbidden(key, "may not be set for init containers without restartPolicy=Always", errors);
        }
        for policy in container.list("resizePolicy").iter().filter(|p| p.str("restartPolicy") == "RestartContainer") {
            policy.invalid(
                "restartPolicy",
                "must not be set to 'RestartContainer' for non-sidecar initContainers",
                errors,
            );
        }
    }
}

fn ephemeral<'a>(container: &Node<'a>, others: &[&str], names: &mut Vec<&'a str>, errors: &mut ErrorList) {
    only_for_pods(container, errors);
    let name = container.str("name");
    if names.contains(&name) {
        errors.push(field::duplicate(&container.path.child("name"), name));
    } else {
        names.push(name);
    }
    let target = container.str("targetContainerName");
    if !target.is_empty() && !others.contains(&target) {
        errors.push(field::not_found(&container.path.child("targetContainerName"), target));
    }
    let why = "cannot be set for an Ephemeral Container";
    for key in NOT_EPHEMERAL.into_iter().chain(["restartPolicyRules"]) {
        let set = match key {
            "resources" => container.get(key).value.as_object().is_some_and(|r| !r.is_empty()),
            "ports" | "resizePolicy" | "restartPolicyRules" => !container.is_empty(key),
            key => container.has(key),
        };
        if set {
            errors.push(field::forbidden(&container.path.child(key), why));
        }
    }
    for mount in container.list("volumeMounts") {
        for key in ["subPath", "subPathExpr"] {
            if !mount.is_empty(key) {
                errors.push(field::forbidden(&mount.path.child(key), why));
            }
        }
    }
}

fn common(container: &Node<'_>, shared: &Shared<'_>, errors: &mut ErrorList) {
    container.required_name("name", names::is_dns1123_label, errors);
    container.required("image", errors);
    container.required_one_of("terminationMessagePolicy", &["File", "FallbackToLogsOnError"], errors);
    ports(container, errors);
    env::validate(container, errors);
    volumes::mounts(container, shared.volumes, errors);
    volumes::devices(container, shared.volumes, errors);
    container.required_one_of("imagePullPolicy", &["Always", "IfNotPresent", "Never"], errors);
    resources::of_container(&container.get("resources"), shared.claims, errors);
    resize_policy(container, shared.restart_policy, errors);
    security::of_container(container, shared.host_users, errors);
}

/// What holds for containers of Pods, but not for those of templates.
pub(super) fn only_for_pods(container: &Node<'_>, errors: &mut ErrorList) {
    let image = container.str("image");
    if image.trim() != image {
        container.invalid("image", "must not have leading or trailing whitespace", errors);
    }
}

fn ports(container: &Node<'_>, errors: &mut ErrorList) {
    let mut seen = Vec::new();
    for port in container.list("ports") {
        let name = port.str("name");
        if !name.is_empty() {
            let wrong = names::is_port_name(name);
            if wrong.is_empty() && seen.contains(&name) {
                errors.push(field::duplicate(&port.path.child("name"), name));
            }
            seen.push(name);
            errors.extend(wrong.into_iter().map(|m| field::invalid(&port.path.child("name"), name, m)));
        }
        if port.required("containerPort", errors) {
            port_number(&port, "containerPort", errors);
        }
        if port.int("hostPort") != 0 {
            port_number(&port, "hostPort", errors);
        }
        port.required_one_of("protocol", &["SCTP", "TCP", "UDP"], errors);
    }
}

fn port_number(port: &Node<'_>, key: &str, errors: &mut ErrorList) {
    let number = port.int(key);
    errors.extend(names::is_port_number(number).into_iter().map(|m| field::invalid(&port.path.child(key), &number, m)));
}

fn host_ports(containers: &[Node<'_>], errors: &mut ErrorList) {
    let mut seen = Vec::new();
    for port in containers.iter().flat_map(|c| c.list("ports")) {
        let host = port.int("hostPort");
        if host == 0 {
            continue;
        }
        let key = format!("{}/{}/{host}", port.str("protocol"), port.str("hostIP"));
        if seen.contains(&key) {
            errors.push(field::duplicate(&port.path.child("hostPort"), &key));
        } else {
            seen.push(key);
        }
    }
}

fn resize_policy(container: &Node<'_>, restart_policy: &str, errors: &mut ErrorList) {
    let at = container.path.child("resizePolicy");
    let mut seen = Vec::new();
    for policy in container.list("resizePolicy") {
        let (resource, restart) = (policy.str("resourceName"), policy.str("restartPolicy"));
        if seen.contains(&resource) {
            errors.push(field::duplicate(&policy.path, resource));
        }
        seen.push(resource);
        for (given, supported) in [(resource, ["cpu", "memory"]), (restart, ["NotRequired", "RestartContainer"])] {
            if given.is_empty() {
                errors.push(field::required(&at, ""));
            } else if !supported.contains(&given) {
                errors.push(field::not_supported(&at, &given, supported));
            }
        }
        if restart_policy == "Never" && restart != "NotRequired" {
            errors.push(field::invalid(&at, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'"));
        }
    }
}

fn restart_policy(container: &Node<'_>, errors: &mut ErrorList) {
    let rules = container.list("restartPolicyRules");
    if !container.has("restartPolicy") {
        if !rules.is_empty() {
            container.required_as("restartPolicy", "must specify restartPolicy when restart rules are used", errors);
        }
    } else {
        container.one_of("restartPolicy", &["Always", "Never", "OnFailure"], errors);
    }
    if rules.len() > 20 {
        errors.push(field::too_many(&container.path.child("restartPolicyRules"), rules.len(), 20));
    }
    for rule in rules {
        rule.always_one_of("action", &["Restart", "RestartAllContainers"], errors);
        match rule.given("exitCodes") {
            Some(codes) => {
                codes.always_one_of("operator", &["In", "NotIn"], errors);
                let values = codes.list("values").len();
                if values > 255 {
                    errors.push(field::too_many(&codes.path.child("values"), values, 255));
                }
            }
            None => errors.push(field::required(&rule.path.child("exitCodes"), "must be specified")),
        }
    }
}
