//! The judges over objects: RBAC, nodes, escalation, impersonation, service account tokens.

use std::sync::Arc;

use serde_json::{Value, json};
use trireme_kinds::Registry;

use super::authorizer::Mode;
use super::node::NodeAuthorizer;
use super::rbac::{GROUP, Rbac};
use super::testing::Objects;
use super::{Attributes, Authorizer, UserInfo, escalation, impersonation};
use crate::duties::policy;
use crate::pipeline::Reader;

fn authorizer(objects: &Arc<Objects>) -> Authorizer {
    let reader: Arc<dyn Reader> = objects.clone();
    let registry = Registry::builtin();
    let node = NodeAuthorizer::new(reader.clone(), registry, policy::node_rules());
    let rbac = Rbac::new(reader, registry).unwrap();
    Authorizer::new(vec![Mode::Node, Mode::Rbac], Arc::new(node), Arc::new(rbac))
}

fn policy_objects() -> Vec<Value> {
    let roles = policy::roles().iter().map(policy::Role::object).collect::<Vec<_>>();
    roles.into_iter().chain(policy::bindings().iter().map(policy::Binding::object)).collect()
}

fn role(name: &str, rules: Value) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name, "namespace": "ns"}, "rules": rules})
}

fn binding(role: &str, subject: Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "b", "namespace": "ns"},
        "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": role},
        "subjects": [subject],
    })
}

#[test]
fn a_binding_counts_in_its_namespace_and_says_why() {
    let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    let objects = Objects::of([role("r", rules), binding("r", json!({"kind": "User", "name": "alice"}))]);
    let authorizer = authorizer(&objects);
    let alice = UserInfo::new("alice", &[]);
    let get = Attributes::resource("get", "", "pods").named("ns", "x");
    let decision = authorizer.authorize(&alice, &get);
    assert!(decision.allowed());
    assert_eq!(decision.reason, "RBAC: allowed by RoleBinding \"b/ns\" of Role \"r\" to User \"alice\"");
    assert!(!authorizer.authorize(&alice, &get.named("other", "x")).allowed());
    let refused = authorizer.require(&alice, &Attributes::resource("list", "", "pods").named("ns", "")).unwrap_err();
    let text =
        "pods is forbidden: User \"alice\" cannot list resource \"pods\" in API group \"\" in the namespace \"ns\"";
    assert_eq!((refused.code, refused.message.as_str()), (403, text));
}

#[test]
fn a_binding_of_the_cluster_gives_no_role_of_a_namespace() {
    let mut everywhere = binding("r", json!({"kind": "User", "name": "alice"}));
    everywhere["kind"] = json!("ClusterRoleBinding");
    everywhere["metadata"] = json!({"name": "b"});
    let rules = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    let mut same_name = role("r", rules.clone());
    same_name["kind"] = json!("ClusterRole");
    same_name["metadata"] = json!({"name": "r"});
    let authorizer = authorizer(&Objects::of([role("r", rules), same_name, everywhere]));
    let alice = UserInfo::new("alice", &[]);
    for namespace in ["ns", ""] {
        let get = Attributes::resource("get", "", "pods").named(namespace, "x");
        let decision = authorizer.authorize(&alice, &get);
        assert_eq!(decision.reason, "RBAC: role.rbac.authorization.k8s.io \"r\" not found");
        assert!(!decision.allowed() && authorizer.rbac().rules_for(&alice, namespace).0.is_empty());
    }
}

#[test]
fn a_new_role_counts_at_once() {
    let objects = Objects::of([binding("r", json!({"kind": "ServiceAccount", "name": "sa"}))]);
    let authorizer = authorizer(&objects);
    let account = UserInfo::new("system:serviceaccount:ns:sa", &[]);
    let get = Attributes::resource("get", "", "pods").named("ns", "x");
    let before = authorizer.authorize(&account, &get);
    assert_eq!(before.reason, "RBAC: role.rbac.authorization.k8s.io \"r\" not found");
    objects.put(role("r", json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}])));
    assert!(authorizer.authorize(&account, &get).allowed());
}

#[test]
fn the_default_roles_hold_what_components_need() {
    let objects = Objects::of(policy_objects());
    let authorizer = authorizer(&objects);
    let ask = |user: &UserInfo, verb: &str, group: &str, resource: &str| {
        authorizer.authorize(user, &Attributes::resource(verb, group, resource).named("ns", "x")).allowed()
    };
    let scheduler = UserInfo::new("system:kube-scheduler", &["system:authenticated"]);
    assert!(ask(&scheduler, "list", "", "nodes"));
    assert!(!ask(&scheduler, "delete", "", "nodes"));
    let binding = Attributes { subresource: "binding", ..Attributes::resource("create", "", "pods").named("ns", "x") };
    assert!(authorizer.authorize(&scheduler, &binding).allowed());
    let deployments = UserInfo::new("system:serviceaccount:kube-system:deployment-controller", &[]);
    assert!(ask(&deployments, "create", "apps", "replicasets"));
    let anonymous = UserInfo::anonymous();
    assert!(authorizer.authorize(&anonymous, &Attributes::path("get", "/readyz")).allowed());
    assert!(!ask(&anonymous, "list", "", "pods"));
}

#[test]
fn aggregated_roles_gather_without_a_controller() {
    let mut objects = policy_objects();
    let mut grant = binding("view", json!({"kind": "User", "name": "alice"}));
    grant["roleRef"]["kind"] = json!("ClusterRole");
    grant["roleRef"]["name"] = json!("admin");
    objects.push(grant);
    let authorizer = authorizer(&Objects::of(objects));
    let alice = UserInfo::new("alice", &[]);
    // admin ← edit ← view
    assert!(authorizer.authorize(&alice, &Attributes::resource("get", "", "configmaps").named("ns", "x")).allowed());
    assert!(
        authorizer.authorize(&alice, &Attributes::resource("create", "apps", "deployments").named("ns", "")).allowed()
    );
    assert!(!authorizer.authorize(&alice, &Attributes::resource("list", "", "nodes")).allowed());
}

#[test]
fn a_node_gets_what_its_pods_need() {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"nodeName": "n1", "serviceAccountName": "sa", "volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
    });
    let authorizer = authorizer(&Objects::of([pod]));
    let node = |name: &str| UserInfo::new(format!("system:node:{name}"), &["system:nodes"]);
    let secret = Attributes::resource("get", "", "secrets").named("ns", "s");
    assert!(authorizer.authorize(&node("n1"), &secret).allowed());
    let refused = authorizer.authorize(&node("n2"), &secret);
    assert_eq!(refused.reason, "no relationship found between node 'n2' and this object");
    let token =
        Attributes { subresource: "token", ..Attributes::resource("create", "", "serviceaccounts").named("ns", "sa") };
    assert!(authorizer.authorize(&node("n1"), &token).allowed());
    assert!(!authorizer.authorize(&node("n2"), &token).allowed());
    let own = Attributes::resource("get", "", "nodes").named("", "n1");
    assert!(authorizer.authorize(&node("n1"), &own).allowed() && !authorizer.authorize(&node("n2"), &own).allowed());
}

#[test]
fn a_node_gets_what_its_pods_volumes_need() {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"nodeName": "n1", "volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]},
    });
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"},
        "spec": {
            "claimRef": {"namespace": "ns", "name": "p-v"},
            "csi": {"driver": "d", "nodeStageSecretRef": {"namespace": "other", "name": "s"}},
        },
    });
    let authorizer = authorizer(&Objects::of([pod, volume]));
    let node = |name: &str| UserInfo::new(format!("system:node:{name}"), &["system:nodes"]);
    let may = |node: &UserInfo, resource: &'static str, namespace: &str, name: &str| {
        authorizer.authorize(node, &Attributes::resource("get", "", resource).named(namespace, name)).allowed()
    };
    let (own, other) = (node("n1"), node("n2"));
    assert!(may(&own, "persistentvolumeclaims", "ns", "p-v") && !may(&other, "persistentvolumeclaims", "ns", "p-v"));
    assert!(may(&own, "persistentvolumes", "", "pv") && !may(&other, "persistentvolumes", "", "pv"));
    assert!(may(&own, "secrets", "other", "s") && !may(&other, "secrets", "other", "s"));
    assert!(!may(&own, "secrets", "ns", "s") && !may(&own, "secrets", "other", "d"));
}

#[test]
fn nobody_grants_what_they_do_not_hold() {
    let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    let objects = Objects::of([role("r", rules), binding("r", json!({"kind": "User", "name": "alice"}))]);
    let authorizer = authorizer(&objects);
    let alice = UserInfo::new("alice", &["g"]);
    let write = |verbs: Value| {
        let object = role("new", json!([{"verbs": verbs, "apiGroups": [""], "resources": ["pods"]}]));
        let write = escalation::Write {
            user: &alice,
            resource: "roles",
            namespace: "ns",
            name: "",
            object: &object,
            old: None,
        };
        escalation::check(&authorizer, &write)
    };
    assert!(write(json!(["get"])).is_ok());
    let refused = write(json!(["get", "delete"])).unwrap_err();
    let text = "roles.rbac.authorization.k8s.io \"new\" is forbidden: user \"alice\" (groups=[\"g\"]) is attempting to grant RBAC \
                permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\"]}";
    assert_eq!(refused.message, text);
}

#[test]
fn acting_as_another_must_be_allowed() {
    let authorizer = authorizer(&Objects::of([]));
    let headers =
        [("Impersonate-User".to_owned(), "bob".to_owned()), ("Impersonate-Group".to_owned(), "devs".to_owned())];
    let asked = Attributes::resource("get", "", "pods").named("ns", "x");
    let admin = UserInfo::new("admin", &["system:masters"]);
    let bob = impersonation::apply(&authorizer, admin, &asked, &headers).unwrap();
    assert_eq!(
        (bob.name.as_str(), bob.groups.as_slice()),
        ("bob", &["devs".to_owned(), "system:authenticated".to_owned()][..])
    );
    let refused = impersonation::apply(&authorizer, UserInfo::new("eve", &[]), &asked, &headers).unwrap_err();
    assert_eq!(refused.code, 403);
}
