//! What is wrong with probes and hooks of a container.

use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;
use trireme_machinery::path::Path;

use super::shared::Shared;
use crate::check::Node;

pub(super) fn of_container(container: &Node<'_>, shared: &Shared<'_>, errors: &mut ErrorList) {
    if let Some(lifecycle) = container.given("lifecycle") {
        for key in ["postStart", "preStop"] {
            if let Some(hook) = lifecycle.given(key) {
                handler(&hook, shared.grace, errors);
            }
        }
        if let Some(signal) = lifecycle.given("stopSignal") {
            stop_signal(&signal, shared.os, errors);
        }
    }
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.given(key) else { continue };
        handler(&probe, shared.grace, errors);
        for number in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            probe.nonnegative(number, errors);
        }
        let grace = "terminationGracePeriodSeconds";
        if probe.opt_int(grace).is_some_and(|g| g <= 0) {
            probe.invalid(grace, "must be greater than 0", errors);
        }
        if key == "readinessProbe" {
            if probe.has(grace) {
                probe.invalid(grace, "must not be set for readinessProbes", errors);
            }
        } else if probe.int("successThreshold") != 1 {
            let threshold = probe.int("successThreshold");
            errors.push(field::invalid(&probe.path.child("successThreshold"), &threshold, "must be 1"));
        }
    }
}

fn stop_signal(signal: &Node<'_>, os: Option<&str>, errors: &mut ErrorList) {
    match os {
        None => errors.push(field::forbidden(&signal.path, "may not be set for containers with empty `spec.os.name`")),
        Some("windows") if !matches!(signal.text(), "SIGKILL" | "SIGTERM") => {
            errors.push(field::not_supported(&signal.path, &signal.text(), ["SIGKILL", "SIGTERM"]));
        }
        Some("linux") if !signals().iter().any(|s| s == signal.text()) => {
            errors.push(field::not_supported(&signal.path, &signal.text(), signals()));
        }
        Some(_) => {}
    }
}

/// The signals of Linux, sorted.
fn signals() -> Vec<String> {
    let plain = "ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR QUIT SEGV STKFLT STOP SYS TERM TRAP TSTP TTIN \
                 TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ RTMIN RTMAX";
    let mut all: Vec<String> = plain.split(' ').filter(|s| !s.is_empty()).map(|s| format!("SIG{s}")).collect();
    all.extend((1..=15).map(|n| format!("SIGRTMIN+{n}")));
    all.extend((1..=14).map(|n| format!("SIGRTMAX-{n}")));
    all.sort();
    all
}

/// Of the handlers of a probe or a hook exactly one is given.
fn handler(parent: &Node<'_>, grace: Option<i64>, errors: &mut ErrorList) {
    let mut found = false;
    for key in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let Some(action) = parent.given(key) else { continue };
        if found {
            errors.push(field::forbidden(&action.path, "may not specify more than 1 handler type"));
            continue;
        }
        found = true;
        match key {
            "exec" => {
                action.required("command", errors);
            }
            "httpGet" => http_get(&action, errors),
            "tcpSocket" => port(&action, errors),
            "grpc" => {
                port(&action, errors);
                action.one_of("mode", &["Plaintext", "TLS"], errors);
            }
            _ => {
                let seconds = action.int("seconds");
                if let Some(grace) = grace.filter(|g| !(0..=*g).contains(&seconds)) {
                    let why = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                    errors.push(field::invalid(&action.path, &seconds, why));
                }
            }
        }
    }
    if !found {
        errors.push(field::required(&parent.path, "must specify a handler type"));
    }
}

fn http_get(action: &Node<'_>, errors: &mut ErrorList) {
    action.required("path", errors);
    port(action, errors);
    action.always_one_of("scheme", &["HTTP", "HTTPS"], errors);
    for header in action.list("httpHeaders") {
        let name = header.str("name");
        let at = action.path.child("httpHeaders");
        errors.extend(names::is_http_header_name(name).into_iter().map(|m| field::invalid(&at, name, m)));
    }
    if let Some(protocol) = action.given("protocol") {
        action.one_of("protocol", &["HTTP1", "HTTP2"], errors);
        if protocol.text() == "HTTP2" {
            if action.str("scheme") != "HTTP" {
                action.invalid("protocol", "is only supported with HTTP (H2C)", errors);
            } else if !action.is_empty("host") {
                action.invalid("host", "must be empty when `protocol` is \"HTTP2\"", errors);
            }
        }
    }
}

fn port(action: &Node<'_>, errors: &mut ErrorList) {
    errors.extend(number_or_name(&action.get("port").value.clone(), &action.path.child("port")));
}

/// A port is a number or the name of one.
fn number_or_name(port: &Value, at: &Path) -> ErrorList {
    match port.as_str() {
        Some(name) => names::is_port_name(name).into_iter().map(|m| field::invalid(at, name, m)).collect(),
        None => {
            let number = port.as_i64().unwrap_or_default();
            names::is_port_number(number).into_iter().map(|m| field::invalid(at, &number, m)).collect()
        }
    }
}
