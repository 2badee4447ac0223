//! What may change of a Pod: in an update, in its status, and in the two subresources that change its containers.

use serde_json::{Map, Value};
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;
use trireme_machinery::path::Path;

use super::{pod_spec, qos};
use crate::cells;
use crate::check::{IMMUTABLE, Node};
use crate::ip;

const MIRROR: &str = "kubernetes.io/config.mirror";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                         `spec.tolerations` (only additions to existing tolerations),\
                         `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
const ONLY_RESOURCES: &str = "only cpu and memory resources are mutable";

/// Of an update of the Pod itself.
pub(crate) fn update(new: &Value, old: &Value) -> ErrorList {
    let mut errors = pod_spec::pod(new);
    annotations(new, old, &mut errors);
    let (is, was) = (Node::of(new, "spec"), Node::of(old, "spec"));
    for list in ["containers", "initContainers"] {
        let (containers, before) = (is.list(list), was.list(list));
        if containers.len() != before.len() {
            errors.push(field::forbidden(&is.path.child(list), "pod updates may not add or remove containers"));
            return errors;
        }
        for container in containers {
            container.required("image", &mut errors);
            let image = container.str("image");
            if image.trim() != image {
                container.invalid("image", "must not have leading or trailing whitespace", &mut errors);
            }
        }
    }
    match (is.opt_int("activeDeadlineSeconds"), was.opt_int("activeDeadlineSeconds")) {
        (Some(now), _) if !(0..=i64::from(i32::MAX)).contains(&now) => {
            is.within("activeDeadlineSeconds", 0, i64::from(i32::MAX), &mut errors);
            return errors;
        }
        (Some(now), Some(before)) if before < now => {
            is.invalid("activeDeadlineSeconds", "must be less than or equal to previous value", &mut errors);
            return errors;
        }
        (None, Some(_)) => {
            is.invalid("activeDeadlineSeconds", "must not update from a positive integer to nil value", &mut errors);
        }
        _ => {}
    }
    added_tolerations(&is, &was, &mut errors);
    deleted_gates(&is, &was, &mut errors);

    // Whatever may change is set back; what is left must be as it was.
    let mut rest = is.value.as_object().cloned().unwrap_or_default();
    for list in ["containers", "initContainers"] {
        let containers = rest.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, before) in containers.zip(cells::list(was.value, list)) {
            take(container, before, "image");
        }
    }
    for key in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        take_entry(&mut rest, was.value, key);
    }
    if was.int("terminationGracePeriodSeconds") < 0 && is.int("terminationGracePeriodSeconds") == 1 {
        take_entry(&mut rest, was.value, "terminationGracePeriodSeconds");
    }
    if !was.is_empty("schedulingGates") {
        gated(&is, &was, &mut rest, &mut errors);
    }
    let rest = Value::Object(rest);
    if !same(&rest, was.value) {
        let diff = difference(was.value, &rest);
        errors.push(field::forbidden(
            &is.path,
            format!("pod updates may not change fields other than {UPDATABLE}\n{diff}"),
        ));
    }
    errors
}

/// What may change of a Pod that must not be scheduled yet: where it may go, if that leaves less.
fn gated(is: &Node<'_>, was: &Node<'_>, rest: &mut Map<String, Value>, errors: &mut ErrorList) {
    let narrowed = was
        .entries("nodeSelector")
        .into_iter()
        .all(|(key, value)| is.get("nodeSelector").value.get(key) == Some(value.value));
    if !narrowed {
        let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        is.invalid("nodeSelector", why, errors);
    }
    take_entry(rest, was.value, "nodeSelector");

    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = is.get("affinity").get("nodeAffinity").get(REQUIRED).get("nodeSelectorTerms");
    let before = was.get("affinity").get("nodeAffinity").get(REQUIRED).list("nodeSelectorTerms");
    let now = terms.items();
    if !before.is_empty() && before.len() != now.len() {
        errors.push(field::invalid(
            &terms.path,
            terms.value,
            "no additions/deletions to non-empty NodeSelectorTerms list are allowed",
        ));
    } else {
        for (term, before) in now.iter().zip(&before) {
            let only_adds = ["matchExpressions", "matchFields"].iter().all(|list| {
                let (now, before) = (cells::list(term.value, list), cells::list(before.value, list));
                now.starts_with(before)
            }) && !(before.is_empty("matchExpressions")
                && before.is_empty("matchFields")
                && !(term.is_empty("matchExpressions") && term.is_empty("matchFields")));
            if !only_adds {
                let why = "only additions are allowed (no mutations or deletions)";
                errors.push(field::invalid(&term.path, term.value, why));
            }
        }
    }
    let mut affinity = rest.remove("affinity").unwrap_or_else(|| Value::Object(Map::new()));
    take(&mut affinity, was.get("affinity").value, "nodeAffinity");
    rest.insert("affinity".to_owned(), affinity);
}

/// Tolerations may be added, and their seconds may change.
fn added_tolerations(is: &Node<'_>, was: &Node<'_>, errors: &mut ErrorList) {
    let without_seconds = |toleration: &Value| {
        let mut copy = toleration.clone();
        if let Some(map) = copy.as_object_mut() {
            map.remove("tolerationSeconds");
        }
        copy
    };
    let now: Vec<Value> = is.list("tolerations").iter().map(|t| without_seconds(t.value)).collect();
    if !was.list("tolerations").iter().all(|t| now.contains(&without_seconds(t.value))) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(field::forbidden(&is.path.child("tolerations"), why));
    }
}

/// Scheduling gates may only go.
fn deleted_gates(is: &Node<'_>, was: &Node<'_>, errors: &mut ErrorList) {
    let before = was.list("schedulingGates");
    for gate in is.list("schedulingGates") {
        let name = gate.str("name");
        if !before.iter().any(|g| g.str("name") == name) {
            let why = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.push(field::forbidden(&gate.path.child("name"), why));
        }
    }
}

/// Annotations that say how the Pod came to be or is confined do not change.
fn annotations(new: &Value, old: &Value, errors: &mut ErrorList) {
    let at = Path::new("metadata").child("annotations");
    let (is, was) = (&new["metadata"]["annotations"], &old["metadata"]["annotations"]);
    for (key, value) in was.as_object().into_iter().flatten() {
        if is.get(key) == Some(value) {
            continue;
        }
        if key.starts_with(APP_ARMOR) {
            errors.push(field::forbidden(&at.key(key), "may not remove or update AppArmor annotations"));
        }
        if key == MIRROR {
            errors.push(field::forbidden(&at.key(key), "may not remove or update mirror pod annotation"));
        }
    }
    for key in is.as_object().into_iter().flatten().map(|(k, _)| k).filter(|k| was.get(k.as_str()).is_none()) {
        if key.starts_with(APP_ARMOR) {
            errors.push(field::forbidden(&at.key(key), "may not add AppArmor annotations"));
        }
        if key == MIRROR {
            errors.push(field::forbidden(&at.key(key), "may not add mirror pod annotation"));
        }
    }
}

/// Of an update through `ephemeralcontainers`: such containers may be added, and none changed.
pub(crate) fn ephemeral_containers(new: &Value, old: &Value) -> ErrorList {
    if !old["metadata"]["annotations"][MIRROR].is_null() {
        return vec![field::forbidden(&Path::new(""), "static pods do not support ephemeral containers")];
    }
    let mut errors = pod_spec::pod(new);
    annotations(new, old, &mut errors);
    let containers = Node::of(new, "spec").get("ephemeralContainers");
    for before in Node::of(old, "spec").list("ephemeralContainers") {
        let name = before.str("name");
        match containers.items().into_iter().rfind(|c| c.str("name") == name) {
            None => errors.push(field::forbidden(
                &containers.path,
                format!("existing ephemeral containers {name:?} may not be removed\n"),
            )),
            Some(now) if !same(now.value, before.value) => {
                let diff = difference(before.value, now.value);
                errors.push(field::forbidden(
                    &containers.path,
                    format!("existing ephemeral containers {name:?} may not be changed\n{diff}"),
                ));
            }
            Some(_) => {}
        }
    }
    errors
}

/// Keeps of an update through `resize` what it may change: the resources of containers and of the Pod.
pub(crate) fn prepare_resize(new: &mut Value, old: &Value) {
    let mut kept = old.clone();
    for list in ["containers", "initContainers"] {
        let asked = cells::list(&new["spec"], list);
        let Some(containers) = kept["spec"].get_mut(list).and_then(Value::as_array_mut) else {
            if asked.is_empty() {
                continue;
            }
            return;
        };
        // Containers that came, went or moved are left for validation to refuse.
        if asked.len() != containers.len() || asked.iter().zip(&*containers).any(|(a, b)| a["name"] != b["name"]) {
            return;
        }
        for (container, asked) in containers.iter_mut().zip(asked) {
            take(container, asked, "resources");
            take(container, asked, "resizePolicy");
        }
    }
    take(&mut kept["spec"], &new["spec"], "resources");
    kept["metadata"] = new["metadata"].clone();
    *new = kept;
}

/// Of an update through `resize`.
pub(crate) fn resize(new: &Value, old: &Value) -> ErrorList {
    if !old["metadata"]["annotations"][MIRROR].is_null() {
        return vec![field::forbidden(&Path::new(""), "static pods cannot be resized")];
    }
    if cells::str(old, "spec.os.name") == "windows" {
        return vec![field::forbidden(&Path::new(""), "windows pods cannot be resized")];
    }
    let mut errors = pod_spec::pod(new);
    let (is, was) = (Node::of(new, "spec"), Node::of(old, "spec"));
    let class = match cells::str(old, "status.qosClass") {
        "" => qos::class(old),
        class => class,
    };
    if class != qos::class(new) {
        let why = "Pod QOS Class may not change as a result of resizing";
        errors.push(field::invalid(&is.path, &cells::str(new, "status.qosClass"), why));
    }
    let supported = cells::list(old, "status.containerStatuses")
        .iter()
        .find(|c| !c["state"]["running"].is_null())
        .is_none_or(|c| !c["resources"].is_null());
    if !supported {
        errors.push(field::forbidden(&is.path, "Pod running on node without support for resize"));
    }
    let mut moved = false;
    for list in ["containers", "initContainers"] {
        let (now, before) = (is.list(list), was.list(list));
        if now.len() != before.len() {
            let why = format!("{list} may not be added or removed on resize");
            errors.push(field::forbidden(&is.path.child(list), why));
            moved = true;
            continue;
        }
        for container in now.iter().zip(&before).filter(|(a, b)| a.str("name") != b.str("name")).map(|(a, _)| a) {
            let why = format!("{list} may not be renamed or reordered on resize");
            errors.push(field::forbidden(&container.path.child("name"), why));
            moved = true;
        }
    }
    if moved {
        return errors;
    }
    for list in ["initContainers", "containers"] {
        for (container, before) in is.list(list).iter().zip(was.list(list)) {
            resized(&container.get("resources"), &before.get("resources"), "resource ", &mut errors);
            if !same(&without_compute(container.value), &without_compute(before.value)) {
                errors.push(match list {
                    "containers" => field::forbidden(&is.path, ONLY_RESOURCES),
                    _ => field::forbidden(
                        &container.path,
                        "only cpu and memory resources for init or sidecar containers are mutable",
                    ),
                });
            }
            let restarts = container.list("resizePolicy").iter().any(|p| p.str("restartPolicy") == "RestartContainer");
            if list == "initContainers"
                && container.str("restartPolicy") != "Always"
                && restarts
                && !same(container.value, before.value)
            {
                let why = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
                errors.push(field::forbidden(&container.path, why));
            }
        }
    }
    if was.has("resources") {
        if is.has("resources") {
            resized(&is.get("resources"), &was.get("resources"), "pod-level resource ", &mut errors);
        } else {
            errors.push(field::forbidden(&is.path.child("resources"), "pod-level resources cannot be removed"));
        }
    }
    errors
}

/// Requests and limits may not go away.
fn resized(is: &Node<'_>, was: &Node<'_>, what: &str, errors: &mut ErrorList) {
    for list in ["requests", "limits"] {
        if was.entries(list).iter().any(|(name, _)| is.get(list).value.get(name).is_none()) {
            errors.push(field::forbidden(&is.path.child(list), format!("{what}{list} cannot be removed")));
        }
    }
}

/// A container but for what a resize may change.
fn without_compute(container: &Value) -> Value {
    let mut copy = container.clone();
    for list in ["requests", "limits"] {
        if let Some(amounts) = copy["resources"].get_mut(list).and_then(Value::as_object_mut) {
            amounts.retain(|name, _| name != "cpu" && name != "memory");
        }
    }
    copy
}

/// Of an update of the status.
pub(crate) fn status(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    annotations(new, old, &mut errors);
    let (is, was) = (Node::of(new, "status"), Node::of(old, "status"));
    for condition in is.list("conditions") {
        if condition.int("observedGeneration") < 0 {
            condition.invalid("observedGeneration", "must be a non-negative integer", &mut errors);
        }
        let name = condition.str("type");
        if !matches!(name, "PodScheduled" | "Ready" | "Initialized") {
            let at = condition.path.child("Type");
            errors.extend(names::is_qualified_name(name).into_iter().map(|m| field::invalid(&at, name, m)));
        }
    }
    let nominated = is.str("nominatedNodeName");
    if nominated != was.str("nominatedNodeName") && !nominated.is_empty() {
        is.named("nominatedNodeName", names::is_dns1123_subdomain, &mut errors);
        if !cells::str(old, "spec.nodeName").is_empty() {
            errors.push(field::forbidden(
                &is.path.child("nominatedNodeName"),
                "may not be set on pods that are already bound to a node",
            ));
        }
    }
    if is.int("observedGeneration") < 0 {
        is.invalid("observedGeneration", "must be a non-negative integer", &mut errors);
    }
    if is.str("qosClass") != was.str("qosClass") {
        is.invalid("qosClass", IMMUTABLE, &mut errors);
    }
    let spec = Node::of(old, "spec");
    for (list, containers) in [
        ("containerStatuses", Some("containers")),
        ("initContainerStatuses", Some("initContainers")),
        ("ephemeralContainerStatuses", None),
    ] {
        no_resurrection(&is, &was, list, &spec, containers, &mut errors);
    }
    addresses(&is, "podIP", "podIPs", true, &mut errors);
    addresses(&is, "hostIP", "hostIPs", false, &mut errors);
    errors
}

/// A container that ended and is not restarted does not run again.
fn no_resurrection(
    is: &Node<'_>,
    was: &Node<'_>,
    list: &str,
    spec: &Node<'_>,
    containers: Option<&str>,
    errors: &mut ErrorList,
) {
    let restarts_all = ["initContainers", "containers"].iter().flat_map(|list| spec.list(list)).any(|container| {
        container.list("restartPolicyRules").iter().any(|rule| rule.str("action") == "RestartAllContainers")
    });
    if containers.is_some() && restarts_all {
        return;
    }
    for before in was.list(list) {
        let ended = before.get("state").get("terminated");
        if ended.value.is_null() {
            continue;
        }
        let name = before.str("name");
        let now = is.list(list).into_iter().find(|s| s.str("name") == name);
        if now.is_none_or(|s| s.get("state").has("terminated")) {
            continue;
        }
        let may_restart = containers.is_some_and(|containers| {
            spec.list(containers)
                .into_iter()
                .find(|c| c.str("name") == name)
                .is_some_and(|c| restarts(&c, spec.str("restartPolicy"), ended.int("exitCode")))
        });
        if !may_restart {
            let at = is.path.child(list);
            let index = was.list(list).iter().position(|s| s.str("name") == name).unwrap_or_default();
            let why = "may not be transitioned to non-terminated state";
            errors.push(field::forbidden(&at.index(index).child("state"), why));
        }
    }
}

/// Whether a container that ended with this code is started again.
fn restarts(container: &Node<'_>, pod_policy: &str, code: i64) -> bool {
    let policy = match container.str("restartPolicy") {
        "" => pod_policy,
        own => {
            let rule = container.list("restartPolicyRules").into_iter().find(|rule| {
                let codes = rule.get("exitCodes");
                let listed = codes.list("values").iter().any(|v| v.value.as_i64() == Some(code));
                match codes.str("operator") {
                    "In" => listed,
                    "NotIn" => !listed,
                    _ => false,
                }
            });
            if rule.is_some_and(|r| matches!(r.str("action"), "Restart" | "RestartAllContainers")) {
                return true;
            }
            own
        }
    };
    match policy {
        "OnFailure" => code != 0,
        "Never" => false,
        _ => true,
    }
}

/// The one address and the list of them agree.
fn addresses(status: &Node<'_>, one: &str, many: &str, both: bool, errors: &mut ErrorList) {
    let list = status.list(many);
    for address in &list {
        errors.extend(ip::address(&address.path, address.str("ip")));
    }
    let (one, first) = (status.str(one), list.first());
    match first {
        None if both && !one.is_empty() => {
            status.invalid(many, "podIP and podIPs must either both be set or both be unset", errors);
        }
        Some(_) if both && one.is_empty() => {
            status.invalid(many, "podIP and podIPs must either both be set or both be unset", errors);
        }
        Some(first) if first.str("ip") != one => {
            let why = if both { "must be equal to `podIP`" } else { "must be equal to `hostIP`" };
            first.invalid("ip", why, errors);
        }
        _ => {}
    }
    if list.len() > 1 {
        let v6 = list.iter().filter(|a| a.str("ip").contains(':')).count();
        if list.len() > 2 || v6 != 1 {
            status.invalid(many, "may specify no more than one IP for each IP family", errors);
        }
    }
}

/// Sets one field of an object as it is in another.
fn take(object: &mut Value, from: &Value, key: &str) {
    if let Some(map) = object.as_object_mut() {
        take_entry(map, from, key);
    }
}

fn take_entry(map: &mut Map<String, Value>, from: &Value, key: &str) {
    match from.get(key) {
        Some(value) => _ = map.insert(key.to_owned(), value.clone()),
        None => _ = map.remove(key),
    }
}

/// Whether two values mean the same: what is empty and what is absent do.
fn same(a: &Value, b: &Value) -> bool {
    let empty = |v: &Value| match v {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            let null = Value::Null;
            x.iter().all(|(key, value)| same(value, y.get(key).unwrap_or(&null)))
                && y.iter().all(|(key, value)| x.contains_key(key) || empty(value))
        }
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y)),
        (a, b) => a == b || (empty(a) && empty(b)),
    }
}

/// How two values differ, as `diff -u` shows their lines.
fn difference(old: &Value, new: &Value) -> String {
    const CONTEXT: usize = 3;
    let lines = |value: &Value| {
        let text = serde_json::to_string_pretty(value).unwrap_or_default();
        text.lines()
            .map(|l| format!("{}{}", " ".repeat((l.len() - l.trim_start().len()) / 2), l.trim_start()))
            .collect()
    };
    let (old, new): (Vec<String>, Vec<String>) = (lines(old), lines(new));
    let shorter = old.len().min(new.len());
    let before = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let after = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count().min(shorter - before);
    let start = before.saturating_sub(CONTEXT);
    let end = |lines: &[String]| (lines.len() - after + CONTEXT).min(lines.len());
    let mut out = format!("@@ -{},{} +{},{} @@\n", start + 1, end(&old) - start, start + 1, end(&new) - start);
    let mut say = |sign: char, lines: &[String]| lines.iter().for_each(|l| out.push_str(&format!("{sign}{l}\n")));
    say(' ', &old[start..before]);
    say('-', &old[before..old.len() - after]);
    say('+', &new[before..new.len() - after]);
    say(' ', &old[old.len() - after..end(&old)]);
    out
}
