//! What is wrong with security contexts, of a Pod and of its containers, on Linux and on Windows.

use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::go;
use trireme_machinery::names;

use super::paths::local_path;
use super::shared::containers;
use crate::check::{Node, in_order};

const MAX_SYSCTL: usize = 253;
const SYSCTL: &str = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?";

pub(super) fn of_pod(spec: &Node<'_>, errors: &mut ErrorList) {
    let Some(context) = spec.given("securityContext") else { return };
    group_id(&context.get("fsGroup"), errors);
    user_id(&context.get("runAsUser"), errors);
    group_id(&context.get("runAsGroup"), errors);
    context.list("supplementalGroups").iter().for_each(|g| group_id(g, errors));
    sysctls(&context, errors);
    context.one_of("fsGroupChangePolicy", &["Always", "OnRootMismatch"], errors);
    seccomp(&context, errors);
    windows_options(&context, errors);
    app_armor(&context, errors);
    context.one_of("supplementalGroupsPolicy", &["Merge", "Strict"], errors);
    context.one_of("seLinuxChangePolicy", &["MountOption", "Recursive"], errors);
}

pub(super) fn of_container(container: &Node<'_>, host_users: bool, errors: &mut ErrorList) {
    let Some(context) = container.given("securityContext") else { return };
    user_id(&context.get("runAsUser"), errors);
    group_id(&context.get("runAsGroup"), errors);
    context.one_of("procMount", &["Default", "Unmasked"], errors);
    if host_users && context.str("procMount") == "Unmasked" {
        context.invalid("procMount", "`hostUsers` must be false to use `Unmasked`", errors);
    }
    seccomp(&context, errors);
    if *context.get("allowPrivilegeEscalation").value == false {
        if context.flag("privileged") {
            let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.push(field::invalid(&context.path, context.value, why));
        }
        if context.get("capabilities").list("add").iter().any(|c| c.text() == "CAP_SYS_ADMIN") {
            let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.push(field::invalid(&context.path, context.value, why));
        }
    }
    windows_options(&context, errors);
    app_armor(&context, errors);
}

fn user_id(id: &Node<'_>, errors: &mut ErrorList) {
    if let Some(number) = id.value.as_i64() {
        errors.extend(names::is_user_id(number).into_iter().map(|m| field::invalid(&id.path, &number, m)));
    }
}

fn group_id(id: &Node<'_>, errors: &mut ErrorList) {
    if let Some(number) = id.value.as_i64() {
        errors.extend(names::is_group_id(number).into_iter().map(|m| field::invalid(&id.path, &number, m)));
    }
}

fn sysctls(context: &Node<'_>, errors: &mut ErrorList) {
    let mut seen = Vec::new();
    for sysctl in context.list("sysctls") {
        let name = sysctl.str("name");
        if sysctl.required("name", errors) {
            if !is_sysctl(name) {
                sysctl.invalid(
                    "name",
                    format!("must have at most {MAX_SYSCTL} characters and match regex ^{SYSCTL}$"),
                    errors,
                );
            } else if seen.contains(&name) {
                errors.push(field::duplicate(&sysctl.path.child("name"), name));
            }
            seen.push(name);
        }
    }
}

/// Segments of lower-case letters, digits, `-` and `_`, parted by `.` or `/`.
fn is_sysctl(name: &str) -> bool {
    let edge = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let segment = |s: &str| {
        let bytes = s.as_bytes();
        let ends = bytes.first().is_some_and(|b| edge(*b)) && bytes.last().is_some_and(|b| edge(*b));
        ends && bytes.iter().all(|b| edge(*b) || matches!(b, b'-' | b'_'))
    };
    name.len() <= MAX_SYSCTL && name.split(['.', '/']).all(segment)
}

fn seccomp(context: &Node<'_>, errors: &mut ErrorList) {
    let Some(profile) = context.given("seccompProfile") else { return };
    if profile.required_as("type", "type is required when seccompProfile is set", errors) {
        profile.one_of("type", &["Localhost", "RuntimeDefault", "Unconfined"], errors);
    }
    match (profile.str("type") == "Localhost", profile.given("localhostProfile")) {
        (true, None) => errors.push(field::required(
            &profile.path.child("localhostProfile"),
            "must be set when seccomp type is Localhost",
        )),
        (true, Some(local)) => local_path(local.text(), &local.path, errors),
        (false, Some(local)) => {
            let shown = in_order([
                ("Type", go::json(&profile.str("type").into())),
                ("LocalhostProfile", go::json(local.value)),
            ]);
            let why = "can only be set when seccomp type is Localhost";
            errors.push(field::invalid(&local.path, profile.value, why).showing(shown));
        }
        (false, None) => {}
    }
}

fn app_armor(context: &Node<'_>, errors: &mut ErrorList) {
    const MAX: usize = 4095;
    let Some(profile) = context.given("appArmorProfile") else { return };
    let local = profile.given("localhostProfile");
    match profile.str("type") {
        "Localhost" => {
            let at = profile.path.child("localhostProfile");
            let text = local.as_ref().map(Node::text).unwrap_or_default();
            if text.trim() != text {
                errors.push(field::invalid(&at, text, "must not be padded with whitespace"));
            } else if text.is_empty() {
                errors.push(field::required(&at, "must be set when AppArmor type is Localhost"));
            }
            if text.len() > MAX {
                errors.push(field::too_long(&at, MAX));
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if local.is_some() {
                profile.invalid("localhostProfile", "can only be set when AppArmor type is Localhost", errors);
            }
        }
        "" => errors.push(field::required(&profile.path.child("type"), "type is required when appArmorProfile is set")),
        _ => profile.one_of("type", &["Localhost", "RuntimeDefault", "Unconfined"], errors),
    }
}

fn windows_options(context: &Node<'_>, errors: &mut ErrorList) {
    const MAX_SPEC_KIB: usize = 64;
    let Some(options) = context.given("windowsOptions") else { return };
    if options.has("gmsaCredentialSpecName") {
        options.named("gmsaCredentialSpecName", names::is_dns1123_subdomain, errors);
    }
    if let Some(spec) = options.given("gmsaCredentialSpec") {
        if spec.text().is_empty() {
            options.invalid("gmsaCredentialSpec", "gmsaCredentialSpec cannot be an empty string", errors);
        } else if spec.text().len() > MAX_SPEC_KIB * 1024 {
            options.invalid(
                "gmsaCredentialSpec",
                format!("gmsaCredentialSpec size must be under {MAX_SPEC_KIB} KiB"),
                errors,
            );
        }
    }
    if let Some(user) = options.given("runAsUserName")
        && let Some(why) = user_name(user.text())
    {
        for why in why {
            options.invalid("runAsUserName", why, errors);
        }
    }
}

/// What is wrong with the name of a Windows user.
fn user_name(name: &str) -> Option<Vec<String>> {
    const MAX_DOMAIN: usize = 256;
    const MAX_USER: usize = 104;
    let parts: Vec<&str> = name.split('\\').collect();
    let one = |why: &str| Some(vec![format!("runAsUserName{why}")]);
    if name.is_empty() {
        return one(" cannot be an empty string");
    }
    if name.chars().any(char::is_control) {
        return one(" cannot contain control characters");
    }
    let (domain, user) = match parts.as_slice() {
        [user] => ("", *user),
        [domain, user] => (*domain, *user),
        _ => return one(" cannot contain more than one backslash"),
    };
    let mut wrong = Vec::new();
    if domain.len() >= MAX_DOMAIN {
        wrong.push(format!("runAsUserName's Domain length must be under {MAX_DOMAIN} characters"));
    }
    if user.is_empty() {
        wrong.push("runAsUserName's User cannot be empty".to_owned());
    } else if user.len() > MAX_USER {
        wrong.push(format!("runAsUserName's User length must not be longer than {MAX_USER} characters"));
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        wrong.push("runAsUserName's User cannot contain only periods or spaces".to_owned());
    }
    if user.contains(['"', '/', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        wrong.push("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]".to_owned());
    }
    (!wrong.is_empty()).then_some(wrong)
}

/// Containers that are processes of a Windows host.
pub(super) fn host_process(spec: &Node<'_>, errors: &mut ErrorList) {
    let host_process =
        |node: &Node<'_>| node.get("securityContext").get("windowsOptions").get("hostProcess").value.as_bool();
    let of_pod = host_process(spec);
    let all = containers(spec);
    let mut count = 0;
    for container in &all {
        let own = host_process(container);
        if let (Some(pod), Some(own)) = (of_pod, own)
            && pod != own
        {
            let at = container.path.child("securityContext").child("windowsOptions").child("hostProcess");
            errors.push(field::invalid(
                &at,
                &own,
                format!("pod hostProcess value must be identical if both are specified, was {pod}"),
            ));
        }
        count += usize::from(own.or(of_pod).unwrap_or(false));
    }
    if count == 0 {
        return;
    }
    if count != all.len() {
        let why = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.push(field::invalid(&spec.path, "", why));
    }
    if !spec.flag("hostNetwork") {
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(field::invalid(&spec.path.child("hostNetwork"), &false, why));
    }
}

/// What a Linux Pod cannot have.
pub(super) fn linux(spec: &Node<'_>, errors: &mut ErrorList) {
    let why = "windows options cannot be set for a linux pod";
    spec.get("securityContext").forbidden("windowsOptions", why, errors);
    for container in containers(spec) {
        container.get("securityContext").forbidden("windowsOptions", why, errors);
    }
}

/// What a Windows Pod cannot have.
pub(super) fn windows(spec: &Node<'_>, errors: &mut ErrorList) {
    const OF_POD: [&str; 11] = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "fsGroup",
        "fsGroupChangePolicy",
        "sysctls",
        "runAsUser",
        "runAsGroup",
        "supplementalGroups",
        "supplementalGroupsPolicy",
        "seLinuxChangePolicy",
    ];
    const OF_CONTAINER: [&str; 10] = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
        "allowPrivilegeEscalation",
        "procMount",
        "runAsUser",
        "runAsGroup",
    ];
    let why = "cannot be set for a windows pod";
    OF_POD.iter().for_each(|key| spec.get("securityContext").forbidden(key, why, errors));
    for key in ["hostUsers", "shareProcessNamespace"] {
        spec.forbidden(key, why, errors);
    }
    for key in ["hostPID", "hostIPC"] {
        if spec.flag(key) {
            errors.push(field::forbidden(&spec.path.child(key), why));
        }
    }
    for container in containers(spec) {
        OF_CONTAINER.iter().for_each(|key| container.get("securityContext").forbidden(key, why, errors));
    }
}
