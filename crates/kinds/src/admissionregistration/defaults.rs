//! Defaults of webhooks and policies.

use trireme_machinery::schema::DefaultFn;

use crate::defaults::{Object, absent};

/// Type and defaults.
pub(crate) const DEFAULTS: &[(&str, DefaultFn)] = &[
    ("admissionregistration.v1.ValidatingWebhook", webhook),
    ("admissionregistration.v1.MutatingWebhook", mutating_webhook),
    ("admissionregistration.v1.RuleWithOperations", |o| absent(o, "scope", "*")),
    ("admissionregistration.v1.NamedRuleWithOperations", |o| absent(o, "scope", "*")),
    ("admissionregistration.v1.ServiceReference", |o| absent(o, "port", 443)),
    ("admissionregistration.v1.ValidatingAdmissionPolicySpec", |o| absent(o, "failurePolicy", "Fail")),
    ("admissionregistration.v1.MutatingAdmissionPolicySpec", |o| absent(o, "failurePolicy", "Fail")),
    ("admissionregistration.v1.MatchResources", match_resources),
];

fn match_resources(what: &mut Object) {
    absent(what, "matchPolicy", "Equivalent");
    absent(what, "namespaceSelector", Object::new());
    absent(what, "objectSelector", Object::new());
}

fn webhook(webhook: &mut Object) {
    match_resources(webhook);
    absent(webhook, "failurePolicy", "Fail");
    absent(webhook, "timeoutSeconds", 10);
}

fn mutating_webhook(hook: &mut Object) {
    webhook(hook);
    absent(hook, "reinvocationPolicy", "Never");
}
