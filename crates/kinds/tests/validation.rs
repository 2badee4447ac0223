//! Validation in the words of Kubernetes: cases of `validation_test.go` of the groups.

use serde_json::{Value, json};
use trireme_kinds::{Context, Registry};
use trireme_machinery::schema::decode::Strictness;

/// What is said of a new object, each mistake on a line.
fn refusal(group: &str, kind: &str, mut obj: Value) -> String {
    let kind = Registry::builtin().by_kind(group, "v1", kind).unwrap();
    if obj["metadata"].is_null() {
        obj["metadata"] = json!({"name": "config"});
    }
    let (mut obj, _) = kind.decode(obj, Strictness::Ignore).unwrap();
    kind.default(&mut obj);
    let ctx = Context::internal(jiff::Timestamp::UNIX_EPOCH);
    kind.prepare_create(&mut obj, &ctx);
    let errors = kind.validate_create(&obj, &ctx);
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// `base` with what `change` has.
fn with(base: &Value, change: &Value) -> Value {
    let mut out = base.clone();
    match (&mut out, change) {
        (Value::Object(to), Value::Object(from)) => {
            for (key, value) in from {
                let old = to.get(key).cloned().unwrap_or_default();
                to.insert(key.clone(), with(&old, value));
            }
        }
        (to, from) => *to = from.clone(),
    }
    out
}

#[test]
fn webhooks() {
    let good = json!({
        "name": "webhook.k8s.io", "clientConfig": {"url": "https://host"}, "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    let refused = |change: Value| {
        let hook = with(&good, &change);
        refusal("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", json!({"webhooks": [hook]}))
    };
    assert_eq!(refused(json!({})), "");
    let rule = |change: Value| {
        let rule = json!({"operations": ["CREATE"], "apiGroups": ["a"], "apiVersions": ["a"], "resources": ["a"]});
        refused(json!({"rules": [with(&rule, &change)]}))
    };
    assert_eq!(rule(json!({})), "");
    let service = |change: Value| {
        let service = with(&json!({"namespace": "ns", "name": "n"}), &change);
        refused(json!({"clientConfig": {"url": null, "service": service}}))
    };
    assert_eq!(service(json!({})), "");
    let url = |url: &str| refused(json!({"clientConfig": {"url": url}}));
    for (got, wanted) in [
        (
            refused(json!({"name": "k8s.io"})),
            r#"webhooks[0].name: Invalid value: "k8s.io": should be a domain with at least three segments separated by dots"#,
        ),
        (
            refused(json!({"admissionReviewVersions": []})),
            "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
        ),
        (
            refused(json!({"admissionReviewVersions": ["v1beta1", "v1beta1"]})),
            r#"webhooks[0].admissionReviewVersions[1]: Invalid value: "v1beta1": duplicate version"#,
        ),
        (
            refused(json!({"admissionReviewVersions": ["invalidversion"]})),
            r#"webhooks[0].admissionReviewVersions: Invalid value: ["invalidversion"]: must include at least one of v1, v1beta1"#,
        ),
        (
            refused(json!({"failurePolicy": "other"})),
            r#"webhooks[0].failurePolicy: Unsupported value: "other": supported values: "Fail", "Ignore""#,
        ),
        (
            refused(json!({"sideEffects": null})),
            "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
        ),
        (
            refused(json!({"sideEffects": "other"})),
            r#"webhooks[0].sideEffects: Unsupported value: "other": supported values: "None", "NoneOnDryRun""#,
        ),
        (
            refused(json!({"timeoutSeconds": 31})),
            "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
        ),
        (
            refused(json!({"clientConfig": {"url": null}})),
            "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
        ),
        (
            url("http://host"),
            r#"webhooks[0].clientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]"#,
        ),
        (
            url("https:///fancy/webhook"),
            r#"webhooks[0].clientConfig.url: Invalid value: "": host must be specified; desired format: https://host[/path]"#,
        ),
        (
            url("https://harry.potter@example.com/"),
            r#"webhooks[0].clientConfig.url: Invalid value: "harry.potter": user information is not permitted in the URL"#,
        ),
        (
            url("https://example.com/#bookmark"),
            r#"webhooks[0].clientConfig.url: Invalid value: "bookmark": fragments are not permitted in the URL"#,
        ),
        (
            url("https://example.com?arg=value"),
            r#"webhooks[0].clientConfig.url: Invalid value: "arg=value": query parameters are not permitted in the URL"#,
        ),
        (
            service(json!({"path": "foo/"})),
            r#"webhooks[0].clientConfig.service.path: Invalid value: "foo/": must start with a '/'"#,
        ),
        (
            service(json!({"path": "//"})),
            r#"webhooks[0].clientConfig.service.path: Invalid value: "//": segment[0] may not be empty"#,
        ),
        (
            service(json!({"path": "/foo//bar/"})),
            r#"webhooks[0].clientConfig.service.path: Invalid value: "/foo//bar/": segment[1] may not be empty"#,
        ),
        (
            service(json!({"path": "/foo/bar//"})),
            r#"webhooks[0].clientConfig.service.path: Invalid value: "/foo/bar//": segment[2] may not be empty"#,
        ),
        (
            service(json!({"port": 65536})),
            "webhooks[0].clientConfig.service.port: Invalid value: 65536: port is not valid: must be between 1 and 65535, inclusive",
        ),
        (rule(json!({"operations": []})), "webhooks[0].rules[0].operations: Required value"),
        (
            rule(json!({"operations": ["PATCH"]})),
            r#"webhooks[0].rules[0].operations[0]: Unsupported value: "PATCH": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE""#,
        ),
        (
            rule(json!({"operations": ["CREATE", "*"]})),
            r#"webhooks[0].rules[0].operations: Invalid value: ["CREATE","*"]: if '*' is present, must not specify other operations"#,
        ),
        (
            rule(json!({"resources": ["*", "a"]})),
            r#"webhooks[0].rules[0].resources: Invalid value: ["*","a"]: if '*' is present, must not specify other resources without subresources"#,
        ),
        (
            rule(json!({"resources": ["a/*", "a/x"]})),
            r#"webhooks[0].rules[0].resources[1]: Invalid value: "a/x": if 'a/*' is present, must not specify a/x"#,
        ),
        (
            rule(json!({"resources": ["*/a", "x/a"]})),
            r#"webhooks[0].rules[0].resources[1]: Invalid value: "x/a": if '*/a' is present, must not specify x/a"#,
        ),
        (
            rule(json!({"resources": ["*/*", "a"]})),
            r#"webhooks[0].rules[0].resources: Invalid value: ["*/*","a"]: if '*/*' is present, must not specify other resources"#,
        ),
        (
            refused(json!({"matchConditions": [{"name": "a", "expression": ""}]})),
            "webhooks[0].matchConditions[0].expression: Required value",
        ),
    ] {
        assert_eq!(got, wanted);
    }
}

#[test]
fn policies_and_their_bindings() {
    let good = json!({"spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{
            "operations": ["CREATE"], "apiGroups": ["a"], "apiVersions": ["a"], "resources": ["a"],
        }]},
        "validations": [{"expression": "true"}],
    }});
    let policy = |spec: Value| {
        refusal("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", with(&good, &json!({"spec": spec})))
    };
    let binding = |spec: Value| {
        let good = json!({"spec": {
            "policyName": "xyzlimit-scale.example.com",
            "paramRef": {"name": "xyzlimit-scale-setting.example.com", "parameterNotFoundAction": "Deny"},
            "validationActions": ["Deny"],
        }});
        refusal("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding", with(&good, &json!({"spec": spec})))
    };
    assert_eq!(policy(json!({})), "");
    assert_eq!(binding(json!({})), "");
    let long = "x".repeat(5 * 1024 + 1);
    for (got, wanted) in [
        (policy(json!({"matchConstraints": null})), "spec.matchConstraints: Required value"),
        (
            policy(json!({"matchConstraints": {"resourceRules": []}})),
            "spec.matchConstraints.resourceRules: Required value",
        ),
        (
            policy(json!({"validations": []})),
            "spec.validations: Required value: validations or auditAnnotations must contain at least one item\n\
             spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
        ),
        (
            policy(json!({"validations": [{"expression": "true", "reason": "other"}]})),
            "spec.validations[0].reason: Unsupported value: \"other\": supported values: \"Forbidden\", \"Invalid\", \
             \"RequestEntityTooLarge\"",
        ),
        (
            policy(json!({"validations": [{"expression": " "}]})),
            "spec.validations[0].expression: Required value: expression is not specified",
        ),
        (policy(json!({"paramKind": {"apiVersion": "rules.example.com/v1"}})), "spec.paramKind.kind: Required value"),
        (
            policy(json!({"variables": [{"name": "true", "expression": "1"}]})),
            "spec.variables[0].name: Invalid value: \"true\": must be a valid CEL identifier",
        ),
        (
            policy(json!({"auditAnnotations": [{"key": "k", "valueExpression": long}]})),
            "spec.auditAnnotations[0].valueExpression: Required value: must not exceed 5120 bytes in length",
        ),
        (binding(json!({"policyName": ""})), "spec.policyName: Required value"),
        (
            binding(json!({"paramRef": {"name": null}})),
            "spec.paramRef: Required value: one of name or selector must be specified",
        ),
        (
            binding(json!({"paramRef": {"selector": {}}})),
            "spec.paramRef.name: Forbidden: name and selector are mutually exclusive\n\
             spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
        ),
        (
            binding(json!({"validationActions": ["Deny", "Warn"]})),
            "spec.validationActions: Invalid value: [\"Deny\",\"Warn\"]: must not contain both Deny and Warn (repeating the \
             same validation failure information in the API response and headers serves no purpose)",
        ),
        (
            binding(json!({"validationActions": ["Deny", "Deny"]})),
            "spec.validationActions[1]: Duplicate value: \"Deny\"",
        ),
    ] {
        assert_eq!(got, wanted);
    }
}

#[test]
fn a_policy_does_not_mutate_what_is_deleted() {
    let policy = json!({"spec": {
        "matchConstraints": {"resourceRules": [{
            "operations": ["DELETE"], "apiGroups": ["a"], "apiVersions": ["a"], "resources": ["a"],
        }]},
        "mutations": [{"patchType": "JSONPatch"}],
        "reinvocationPolicy": "Never",
    }});
    assert_eq!(
        refusal("admissionregistration.k8s.io", "MutatingAdmissionPolicy", policy),
        "spec.matchConstraints.resourceRules.operations: Unsupported value: \"DELETE\": supported values: \"*\", \
         \"CONNECT\", \"CREATE\", \"UPDATE\"\n\
         spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch"
    );
}

#[test]
fn flow_schemas_and_priority_levels() {
    let good = json!({"spec": {
        "matchingPrecedence": 50, "priorityLevelConfiguration": {"name": "system"},
        "rules": [{
            "subjects": [{"kind": "User", "user": {"name": "noxu"}}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }],
    }});
    let schema =
        |spec: Value| refusal("flowcontrol.apiserver.k8s.io", "FlowSchema", with(&good, &json!({"spec": spec})));
    let level = |queuing: Value| {
        let limited = json!({"nominalConcurrencyShares": 100, "limitResponse": {"type": "Queue", "queuing": queuing}});
        let level = json!({"spec": {"type": "Limited", "limited": limited}});
        refusal("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration", level)
    };
    assert_eq!(schema(json!({})), "");
    assert_eq!(level(json!({"queues": 128, "handSize": 5, "queueLengthLimit": 100})), "");
    for (got, wanted) in [
        (
            schema(json!({"matchingPrecedence": 1})),
            "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1",
        ),
        (
            schema(json!({"matchingPrecedence": 10001})),
            "spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000",
        ),
        (
            schema(json!({"priorityLevelConfiguration": {"name": ""}})),
            "spec.priorityLevelConfiguration.name: Required value: must reference a priority level",
        ),
        (
            schema(json!({"rules": [{"subjects": [{"kind": "User", "user": {"name": "noxu"}}]}]})),
            "spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty",
        ),
        (
            level(json!({"queues": 512, "handSize": 8, "queueLengthLimit": 100})),
            "spec.limited.limitResponse.queuing.handSize: Invalid value: 8: required entropy bits of deckSize 512 and \
             handSize 8 should not be greater than 60",
        ),
        (
            level(json!({"queues": 128, "handSize": 10, "queueLengthLimit": 100})),
            "spec.limited.limitResponse.queuing.handSize: Invalid value: 10: required entropy bits of deckSize 128 and \
             handSize 10 should not be greater than 60",
        ),
    ] {
        assert_eq!(got, wanted);
    }
}

#[test]
fn api_services() {
    let service = |name: &str, spec: Value| {
        let good = json!({
            "group": "example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "service": {"namespace": "ns", "name": "n", "port": 443},
        });
        let service = json!({"metadata": {"name": name}, "spec": with(&good, &spec)});
        refusal("apiregistration.k8s.io", "APIService", service)
    };
    assert_eq!(service("v1.example.com", json!({})), "");
    for (got, wanted) in [
        (
            service("v2.example.com", json!({})),
            r#"metadata.name: Invalid value: "v2.example.com": must be `spec.version+"."+spec.group`: "v1.example.com""#,
        ),
        (
            service("v1.example.com", json!({"groupPriorityMinimum": 20001})),
            "spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000",
        ),
        (
            service("v1.example.com", json!({"insecureSkipTLSVerify": true, "caBundle": "YQ=="})),
            "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present",
        ),
        (
            service("v1.example.com", json!({"service": null, "insecureSkipTLSVerify": true})),
            "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify",
        ),
    ] {
        assert_eq!(got, wanted);
    }
}
