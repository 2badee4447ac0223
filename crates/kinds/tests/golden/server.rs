//! As much of an API server as the cases need: a request becomes an answer, without a store.

use jiff::Timestamp;
use serde_json::{Value, json};
use trireme_kinds::{Context, Kind, Registry, Requester};
use trireme_machinery::schema::decode::Strictness;
use trireme_machinery::status::Status;

/// A status code, a body and warnings.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
}

/// A POST of an object.
pub(crate) fn create(path: &str, body: &Value) -> Result<Answer, Status> {
    let (kind, namespace) = route(path)?;
    let strict = path.contains("fieldValidation=Strict");
    let (mut obj, mut warnings) = kind.decode(body.clone(), Strictness::Report)?;
    if strict && !warnings.is_empty() {
        return Err(kind.strict_refusal(&warnings));
    }
    kind.default(&mut obj);
    let requester = Requester {
        name: "admin".into(),
        uid: "11111111-1111-1111-1111-111111111111".into(),
        groups: vec!["system:masters".into(), "system:authenticated".into()],
        ..Requester::default()
    };
    let ctx = Context { now: Timestamp::now(), requester: Some(&requester) };
    let metadata = obj["metadata"].as_object_mut().unwrap();
    match (kind.namespaced, metadata.get("namespace").and_then(Value::as_str).map(str::to_owned)) {
        (true, None) => {
            metadata.insert("namespace".into(), namespace.into());
        }
        (true, Some(given)) if given != namespace => {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        (false, Some(_)) => _ = metadata.remove("namespace"),
        _ => {}
    }
    metadata.insert("uid".into(), "11111111-1111-1111-1111-111111111111".into());
    metadata.insert("creationTimestamp".into(), ctx.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into());
    metadata.remove("selfLink");
    metadata.remove("deletionTimestamp");
    metadata.remove("deletionGracePeriodSeconds");
    if metadata.get("name").is_none()
        && let Some(prefix) = metadata.get("generateName").and_then(Value::as_str)
    {
        let name = format!("{prefix}xxxxx");
        metadata.insert("name".into(), name.into());
    }
    dedup_owners(&mut obj, &mut warnings);
    admit(&kind, &mut obj);
    kind.prepare_create(&mut obj, &ctx);
    allocate(&kind, &mut obj);
    let errors = kind.validate_create(&obj, &ctx);
    if !errors.is_empty() {
        let mut status = kind.invalid(obj["metadata"]["name"].as_str().unwrap_or_default(), errors);
        status.code = 422;
        return Err(status);
    }
    warnings.extend(kind.hooks.warnings(&obj, None));
    if kind.storage_version != kind.api_version() {
        obj = kind.hooks.downgrade(kind.hooks.upgrade(obj));
    }
    kind.settle_stored(&mut obj);
    Ok(Answer { code: 201, body: obj, warnings })
}

fn route(path: &str) -> Result<(std::sync::Arc<Kind>, String), Status> {
    let parts: Vec<&str> = path.split('?').next().unwrap().trim_start_matches('/').split('/').collect();
    let (group, version, rest) =
        if parts[0] == "api" { ("", parts[1], &parts[2..]) } else { (parts[1], parts[2], &parts[3..]) };
    let (namespace, resource) =
        if rest[0] == "namespaces" && rest.len() > 2 { (rest[1], rest[2]) } else { ("", rest[0]) };
    let kind =
        Registry::builtin().by_resource(group, version, resource).unwrap_or_else(|| panic!("no kind for {path}"));
    Ok((kind, namespace.to_owned()))
}

fn dedup_owners(obj: &mut Value, warnings: &mut Vec<String>) {
    let Some(owners) = obj["metadata"].get_mut("ownerReferences").and_then(Value::as_array_mut) else { return };
    let mut seen = Vec::new();
    let before = owners.len();
    owners.retain(|o| {
        let uid = o["uid"].clone();
        let fresh = !seen.contains(&uid);
        seen.push(uid);
        fresh
    });
    if owners.len() < before {
        warnings.push(".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: ".to_owned());
    }
}

/// What the default admission plugins do to the cases' Pods and claims.
pub(crate) fn admit(kind: &Kind, obj: &mut Value) {
    if kind.kind == "Node" {
        let taints =
            obj["spec"].as_object_mut().unwrap().entry("taints").or_insert_with(|| json!([])).as_array_mut().unwrap();
        if !taints.iter().any(|t| t["key"] == "node.kubernetes.io/not-ready" && t["effect"] == "NoSchedule") {
            taints.push(json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}));
        }
    }
    let protection = match kind.kind.as_str() {
        "PersistentVolume" => Some("kubernetes.io/pv-protection"),
        "PersistentVolumeClaim" => Some("kubernetes.io/pvc-protection"),
        "VolumeAttributesClass" => Some("kubernetes.io/vac-protection"),
        _ => None,
    };
    if let Some(protection) = protection {
        let finalizers = obj["metadata"]
            .as_object_mut()
            .unwrap()
            .entry("finalizers")
            .or_insert_with(|| json!([]))
            .as_array_mut()
            .unwrap();
        if !finalizers.iter().any(|f| f == protection) {
            finalizers.push(protection.into());
        }
    }
    if kind.kind != "Pod" {
        return;
    }
    let spec = obj["spec"].as_object_mut().unwrap();
    let account = spec.get("serviceAccountName").and_then(Value::as_str).unwrap_or("default").to_owned();
    spec.insert("serviceAccountName".into(), account.clone().into());
    spec.insert("serviceAccount".into(), account.into());
    if spec.get("automountServiceAccountToken") != Some(&Value::Bool(false)) {
        let volume = json!({"name": "kube-api-access-xxxxx", "projected": {"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}}]}});
        let mut used = false;
        for list in ["containers", "initContainers"] {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                let container = container.as_object_mut().unwrap();
                let mounts = container.entry("volumeMounts").or_insert_with(|| json!([])).as_array_mut().unwrap();
                if !mounts.iter().any(|m| m["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount") {
                    mounts.push(json!({"name": "kube-api-access-xxxxx", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}));
                    used = true;
                }
            }
        }
        if used {
            spec.entry("volumes").or_insert_with(|| json!([])).as_array_mut().unwrap().push(volume);
        }
    }
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([])).as_array_mut().unwrap();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let known = tolerations
            .iter()
            .any(|t| (t["key"] == key || t["key"].is_null()) && (t["effect"] == "NoExecute" || t["effect"].is_null()));
        if !known {
            tolerations
                .push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
    spec.insert("priority".into(), 0.into());
    spec.insert("preemptionPolicy".into(), "PreemptLowerPriority".into());
}

/// What the allocators of a Service do.
fn allocate(kind: &Kind, obj: &mut Value) {
    if kind.kind != "Service" {
        return;
    }
    let spec = obj["spec"].as_object_mut().unwrap();
    if spec.get("type").is_none_or(|t| t != "ExternalName") {
        spec.entry("ipFamilies").or_insert_with(|| json!(["IPv4"]));
        spec.entry("ipFamilyPolicy").or_insert_with(|| "SingleStack".into());
        let ip = spec.entry("clusterIP").or_insert_with(|| "10.96.0.9".into()).clone();
        spec.entry("clusterIPs").or_insert_with(|| json!([ip]));
        if spec["type"] != "ClusterIP"
            && (spec["type"] == "NodePort" || spec.get("allocateLoadBalancerNodePorts") != Some(&Value::Bool(false)))
        {
            for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
                port.as_object_mut().unwrap().entry("nodePort").or_insert_with(|| 30001.into());
            }
        }
    }
}
