//! What is wrong with the spec of a Job, in a Job or in the template of a CronJob.

use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::go;
use trireme_machinery::names;

use crate::check::{Node, in_order};
use crate::core::pod_spec;

const MAX_PARALLELISM_INDEXED: i64 = 100_000;
const MANY_COMPLETIONS: i64 = 100_000;
const MAX_PARALLELISM_MANY: i64 = 10_000;
const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const MAX_MANAGED_BY: usize = 63;
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];

/// Without its selector.
pub(super) fn spec(spec: &Node<'_>, errors: &mut ErrorList) {
    for key in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        spec.nonnegative(key, errors);
    }
    if spec.has("maxFailedIndexes") && !spec.has("backoffLimitPerIndex") {
        errors.push(field::required(&spec.path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"));
    }
    managed_by(spec, errors);
    spec.one_of("completionMode", &["NonIndexed", "Indexed"], errors);
    let indexed = spec.str("completionMode") == "Indexed";
    if indexed {
        self::indexed(spec, errors);
    }
    if matches!(spec.str("completionMode"), "" | "NonIndexed") {
        for key in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if spec.has(key) {
                spec.invalid(key, "requires indexed completion mode", errors);
            }
        }
    }
    if let Some(policy) = spec.given("podFailurePolicy") {
        failure_policy(spec, &policy, errors);
    }
    if let Some(policy) = spec.given("successPolicy") {
        success_policy(spec, &policy, indexed, errors);
    }
    if spec.has("podFailurePolicy") {
        spec.one_of("podReplacementPolicy", &["Failed"], errors);
    } else {
        spec.one_of("podReplacementPolicy", &["Failed", "TerminatingOrFailed"], errors);
    }
    let template = spec.get("template");
    errors.extend(pod_spec::template(&template));
    let pod = template.get("spec");
    match pod.str("restartPolicy") {
        "" | "Always" => {
            errors.push(field::required(&pod.path.child("restartPolicy"), "valid values: \"OnFailure\", \"Never\""));
        }
        "OnFailure" if spec.has("podFailurePolicy") => {
            pod.invalid("restartPolicy", "only \"Never\" is supported when podFailurePolicy is specified", errors);
        }
        _ => pod.one_of("restartPolicy", &["OnFailure", "Never"], errors),
    }
}

fn managed_by(spec: &Node<'_>, errors: &mut ErrorList) {
    let Some(manager) = spec.given("managedBy") else { return };
    let text = manager.text();
    if text.is_empty() {
        errors.push(field::required(&manager.path, ""));
    } else {
        match text.split_once('/') {
            Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
                errors.extend(
                    names::is_dns1123_subdomain(domain).into_iter().map(|m| field::invalid(&manager.path, domain, m)),
                );
                let path_fine = path.chars().all(|c| c.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(c));
                if !path_fine {
                    errors.push(field::invalid(
                        &manager.path,
                        path,
                        names::regex_error("Invalid path", r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", &[]),
                    ));
                }
            }
            _ => errors.push(field::invalid(
                &manager.path,
                text,
                "must be a domain-prefixed path (such as \"acme.io/foo\")",
            )),
        }
    }
    if text.len() > MAX_MANAGED_BY {
        errors.push(field::too_long(&manager.path, MAX_MANAGED_BY));
    }
}

fn indexed(spec: &Node<'_>, errors: &mut ErrorList) {
    let (parallelism, completions, failed) =
        (spec.int("parallelism"), spec.opt_int("completions"), spec.opt_int("maxFailedIndexes"));
    if completions.is_none() {
        errors.push(field::required(&spec.path.child("completions"), "when completion mode is Indexed"));
    }
    if parallelism > MAX_PARALLELISM_INDEXED {
        let why = format!("must be less than or equal to {MAX_PARALLELISM_INDEXED} when completion mode is Indexed");
        spec.invalid("parallelism", why, errors);
    }
    if let (Some(completions), Some(failed)) = (completions, failed)
        && failed > completions
    {
        spec.invalid("maxFailedIndexes", "must be less than or equal to completions", errors);
    }
    if failed.is_some_and(|f| f > MANY_COMPLETIONS) {
        spec.invalid("maxFailedIndexes", format!("must be less than or equal to {MANY_COMPLETIONS}"), errors);
    }
    if completions.is_some_and(|c| c > MANY_COMPLETIONS) && spec.has("backoffLimitPerIndex") {
        let with = format!("when completions are above {MANY_COMPLETIONS} and used with backoff limit per index");
        if failed.is_none() {
            let why = format!("must be specified when completions is above {MANY_COMPLETIONS}");
            errors.push(field::required(&spec.path.child("maxFailedIndexes"), why));
        }
        if parallelism > MAX_PARALLELISM_MANY {
            spec.invalid("parallelism", format!("must be less than or equal to {MAX_PARALLELISM_MANY} {with}"), errors);
        }
        if failed.is_some_and(|f| f > MAX_PARALLELISM_MANY) {
            spec.invalid(
                "maxFailedIndexes",
                format!("must be less than or equal to {MAX_PARALLELISM_MANY} {with}"),
                errors,
            );
        }
    }
}

fn failure_policy(spec: &Node<'_>, policy: &Node<'_>, errors: &mut ErrorList) {
    let rules = policy.list("rules");
    if rules.len() > MAX_RULES {
        errors.push(field::too_many(&policy.path.child("rules"), rules.len(), MAX_RULES));
    }
    let pod = spec.get("template").get("spec");
    let names: Vec<&str> =
        ["containers", "initContainers"].iter().flat_map(|l| pod.list(l)).map(|c| c.str("name")).collect();
    for rule in rules {
        match rule.str("action") {
            "" => {
                errors.push(field::required(&rule.path.child("action"), format!("valid values: {}", quoted(&ACTIONS))))
            }
            "FailIndex" if !spec.has("backoffLimitPerIndex") => {
                rule.invalid("action", "requires the backoffLimitPerIndex to be set", errors);
            }
            _ => rule.one_of("action", &ACTIONS, errors),
        }
        if let Some(codes) = rule.given("onExitCodes") {
            exit_codes(&codes, &names, errors);
        }
        conditions(&rule, errors);
        let why = match (rule.has("onExitCodes"), !rule.is_empty("onPodConditions")) {
            (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
            (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
            _ => continue,
        };
        errors.push(omitted(&rule, why));
    }
}

/// An error that does not print the value.
fn omitted(node: &Node<'_>, why: &str) -> field::Error {
    let mut error = field::invalid(&node.path, "", why);
    error.bad_value = None;
    error
}

fn quoted(values: &[&str]) -> String {
    format!("[{}]", values.iter().map(|v| format!("{v:?}")).collect::<Vec<_>>().join(" "))
}

fn conditions(rule: &Node<'_>, errors: &mut ErrorList) {
    const STATUS: [&str; 3] = ["False", "True", "Unknown"];
    let patterns = rule.list("onPodConditions");
    if patterns.len() > MAX_RULES {
        errors.push(field::too_many(&rule.path.child("onPodConditions"), patterns.len(), MAX_RULES));
    }
    for pattern in patterns {
        pattern.named("type", names::is_qualified_name, errors);
        if pattern.is_empty("status") {
            errors.push(field::required(&pattern.path.child("status"), format!("valid values: {}", quoted(&STATUS))));
        } else {
            pattern.one_of("status", &STATUS, errors);
        }
    }
}

fn exit_codes(codes: &Node<'_>, containers: &[&str], errors: &mut ErrorList) {
    const OPERATORS: [&str; 2] = ["In", "NotIn"];
    if codes.is_empty("operator") {
        errors.push(field::required(&codes.path.child("operator"), format!("valid values: {}", quoted(&OPERATORS))));
    } else {
        codes.one_of("operator", &OPERATORS, errors);
    }
    if codes.given("containerName").is_some_and(|n| !containers.contains(&n.text())) {
        let why = "must be one of the container or initContainer names in the pod template";
        codes.invalid("containerName", why, errors);
    }
    let values = codes.list("values");
    if values.is_empty() {
        codes.invalid("values", "at least one value is required", errors);
    } else if values.len() > MAX_EXIT_CODES {
        errors.push(field::too_many(&codes.path.child("values"), values.len(), MAX_EXIT_CODES));
    }
    let mut seen: Vec<i64> = Vec::new();
    let mut ordered = true;
    for value in &values {
        let code = value.value.as_i64().unwrap_or_default();
        if codes.str("operator") == "In" && code == 0 {
            errors.push(field::invalid(&value.path, &code, "must not be 0 for the In operator"));
        }
        if seen.contains(&code) {
            errors.push(field::duplicate(&value.path, &code));
        }
        ordered &= seen.last().is_none_or(|last| *last <= code);
        seen.push(code);
    }
    if !ordered {
        codes.invalid("values", "must be ordered", errors);
    }
}

fn success_policy(spec: &Node<'_>, policy: &Node<'_>, indexed: bool, errors: &mut ErrorList) {
    let rules = policy.list("rules");
    if !indexed {
        let printed: Vec<_> = rules
            .iter()
            .map(|r| {
                let json = |key: &str| go::json(r.get(key).value);
                in_order([("SucceededIndexes", json("succeededIndexes")), ("SucceededCount", json("succeededCount"))])
            })
            .collect();
        let rules = if policy.has("rules") { format!("[{}]", printed.join(",")) } else { "null".to_owned() };
        let why = "requires indexed completion mode";
        errors.push(field::invalid(&policy.path, policy.value, why).showing(in_order([("Rules", rules)])));
        return;
    }
    if rules.is_empty() {
        policy.required_as("rules", "at least one rules must be specified when the successPolicy is specified", errors);
    }
    if rules.len() > MAX_RULES {
        errors.push(field::too_many(&policy.path.child("rules"), rules.len(), MAX_RULES));
    }
    let completions = spec.int("completions");
    for rule in rules {
        let (indexes, count) = (rule.given("succeededIndexes"), rule.opt_int("succeededCount"));
        if indexes.is_none() && count.is_none() {
            errors.push(field::required(
                &rule.path,
                "at least one of succeededCount or succeededIndexes must be specified",
            ));
        }
        let mut total = None;
        if let Some(indexes) = &indexes {
            match super::indexes::count(indexes.text(), completions) {
                Ok(number) => total = Some(number),
                Err(why) => rule.invalid("succeededIndexes", format!("error parsing succeededIndexes: {why}"), errors),
            }
        }
        rule.nonnegative("succeededCount", errors);
        let Some(count) = count else { continue };
        if count > completions {
            let why = format!("must be less than or equal to {completions} (the number of specified completions)");
            rule.invalid("succeededCount", why, errors);
        }
        if let Some(total) = total.filter(|t| count > *t) {
            let why = format!(
                "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            );
            rule.invalid("succeededCount", why, errors);
        }
    }
}
