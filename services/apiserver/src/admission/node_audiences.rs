//! For whom a node's kubelet may ask tokens: for the audience that a volume of the Pod names, or whose driver does.
//! For another it needs the verb `request-serviceaccounts-token-audience` on the audience.

use std::sync::Arc;

use serde_json::Value;
use trireme_kinds::Kind;
use trireme_machinery::gvk::GroupResource;
use trireme_machinery::meta;

use super::Attributes;
use super::pod::{items, text};
use crate::auth::user::quoted;
use crate::auth::{self, Authorizer};
use crate::pipeline::Objects;

const VERB: &str = "request-serviceaccounts-token-audience";

/// Volumes of old that a CSI driver serves by now, in Pods (where they may be written) and in PersistentVolumes.
const MIGRATED: [(&str, &str); 7] = [
    ("gcePersistentDisk", "pd.csi.storage.gke.io"),
    ("awsElasticBlockStore", "ebs.csi.aws.com"),
    ("cinder", "cinder.csi.openstack.org"),
    ("azureDisk", "disk.csi.azure.com"),
    ("azureFile", "file.csi.azure.com"),
    ("vsphereVolume", "csi.vsphere.vmware.com"),
    ("portworxVolume", "pxd.portworx.com"),
];

/// Judges the audiences that nodes ask for.
pub struct Audiences {
    objects: Arc<dyn Objects>,
    authorizer: Authorizer,
    claims: Arc<Kind>,
    volumes: Arc<Kind>,
    drivers: Arc<Kind>,
}

impl Audiences {
    /// Reads `claims`, `volumes` and `drivers` from the cache.
    #[must_use]
    pub fn new(
        objects: Arc<dyn Objects>,
        authorizer: Authorizer,
        claims: Arc<Kind>,
        volumes: Arc<Kind>,
        drivers: Arc<Kind>,
    ) -> Self {
        Self { objects, authorizer, claims, volumes, drivers }
    }

    /// Whether the request's node may have a token of this Pod for the audience that it asks for.
    pub(super) fn check(&self, pod: &Value, a: &Attributes<'_>) -> Result<(), String> {
        let audiences: Vec<&Value> = items(&a.object()["spec"]["audiences"]).collect();
        let audience = match audiences.as_slice() {
            [] => "",
            [one] => one.as_str().unwrap_or_default(),
            _ => return Err("node may only request 0 or 1 audiences".into()),
        };
        let mut unknown = Vec::new();
        for volume in items(&pod["spec"]["volumes"]) {
            let mut sources = items(&volume["projected"]["sources"]).map(|source| &source["serviceAccountToken"]);
            if sources.any(|token| token.is_object() && text(token, "audience") == audience) {
                return Ok(());
            }
            match self.driver(pod, volume).and_then(|driver| self.wants(driver.as_deref(), audience)) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(why) => unknown.push(why),
            }
        }
        if !unknown.is_empty() {
            unknown.dedup();
            let why = if unknown.len() == 1 { unknown.remove(0) } else { format!("[{}]", unknown.join(", ")) };
            return Err(format!("error validating audience {}: {why}", quoted(audience)));
        }
        let asked = auth::Attributes {
            version: &a.kind.version,
            ..auth::Attributes::resource(VERB, &a.kind.group, audience).named(a.namespace, a.name)
        };
        if self.authorizer.authorize(&a.context.user, &asked).allowed() {
            return Ok(());
        }
        let user = &a.context.user.name;
        Err(format!("{user} is not authorized to request tokens for audience {}", quoted(audience)))
    }

    /// The CSI driver behind a volume of the Pod.
    fn driver(&self, pod: &Value, volume: &Value) -> Result<Option<String>, String> {
        let namespace = meta::namespace(pod);
        if volume["ephemeral"]["volumeClaimTemplate"].is_object() {
            let claim = format!("{}-{}", meta::name(pod), text(volume, "name"));
            return self.driver_of_claim(namespace, &claim);
        }
        if volume["persistentVolumeClaim"].is_object() {
            return self.driver_of_claim(namespace, text(&volume["persistentVolumeClaim"], "claimName"));
        }
        Ok(driver_of(volume))
    }

    fn driver_of_claim(&self, namespace: &str, claim: &str) -> Result<Option<String>, String> {
        let claim = self.read(&self.claims, namespace, claim)?;
        Ok(driver_of(&self.read(&self.volumes, "", text(&claim["spec"], "volumeName"))?["spec"]))
    }

    /// Whether the driver asks for tokens of this audience.
    fn wants(&self, driver: Option<&str>, audience: &str) -> Result<bool, String> {
        let Some(driver) = driver.filter(|driver| !driver.is_empty()) else { return Ok(false) };
        let driver = self.read(&self.drivers, "", driver)?;
        Ok(items(&driver["spec"]["tokenRequests"]).any(|request| text(request, "audience") == audience))
    }

    fn read(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Value, String> {
        let found = self.objects.reader().get(kind, namespace, name);
        // Upstream's listers name one, not all.
        let resource = GroupResource::new(&*kind.group, kind.kind.to_lowercase());
        found.map(|stored| stored.value()).ok_or_else(|| format!("{resource} {} not found", quoted(name)))
    }
}

/// The driver that a volume names, or that serves its kind of old.
fn driver_of(volume: &Value) -> Option<String> {
    if let Some(driver) = volume["csi"]["driver"].as_str() {
        return Some(driver.to_owned());
    }
    MIGRATED.iter().find(|(source, _)| volume[source].is_object()).map(|(_, driver)| (*driver).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::testing::{Behind, authorizer, node};
    use crate::admission::{Operation, Plugin as _, node_restriction::NodeRestriction};
    use crate::pipeline::Context;
    use serde_json::json;
    use trireme_kinds::Registry;

    fn pod(volumes: Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
            "spec": {"nodeName": "n1", "serviceAccountName": "sa", "volumes": volumes},
        })
    }

    async fn ask(objects: Vec<Value>, audiences: &[&str]) -> Result<(), String> {
        let behind = Behind::seen(objects);
        let registry = Registry::builtin();
        let kind = |plural| registry.by_resource("", "v1", plural).unwrap();
        let drivers = registry.by_resource("storage.k8s.io", "v1", "csidrivers").unwrap();
        let (claims, volumes) = (kind("persistentvolumeclaims"), kind("persistentvolumes"));
        let judge = Audiences::new(behind.clone(), authorizer(&behind), claims, volumes, drivers);
        let plugin = NodeRestriction::new(behind.clone(), kind("pods"), kind("nodes"), judge);
        let context = Context::new(crate::pipeline::RequestInfo::default(), node("n1"));
        let mut request = json!({"spec": {"audiences": audiences, "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}}});
        let mut attributes = Attributes {
            context: &context,
            kind: &kind("serviceaccounts"),
            operation: Operation::Create,
            subresource: "token",
            namespace: "ns",
            name: "sa",
            object: Some(&mut request),
            old: None,
            options: &Value::Null,
            dry_run: false,
        };
        plugin.mutate(&mut attributes).await.map_err(|status| {
            assert_eq!(status.code(), 403);
            status.message
        })
    }

    #[tokio::test]
    async fn a_node_gets_tokens_for_audiences_of_its_pods_volumes_only() {
        let token = |token: Value| json!([{"name": "t", "projected": {"sources": [{"serviceAccountToken": token}]}}]);
        let own = pod(token(json!({"path": "token"})));
        assert_eq!(ask(vec![own.clone()], &[]).await, Ok(()));
        let refused = "serviceaccounts \"sa\" is forbidden: system:node:n1 is not authorized to request tokens for audience \"vault\"";
        assert_eq!(ask(vec![own], &["vault"]).await.unwrap_err(), refused);
        let vault = pod(token(json!({"path": "token", "audience": "vault"})));
        assert_eq!(ask(vec![vault.clone()], &["vault"]).await, Ok(()));
        assert!(ask(vec![vault.clone()], &[]).await.unwrap_err().ends_with("for audience \"\""));
        let several = ask(vec![vault], &["vault", "other"]).await.unwrap_err();
        assert!(several.ends_with("node may only request 0 or 1 audiences"), "{several}");
    }

    #[tokio::test]
    async fn what_a_driver_asks_for_counts_as_the_volumes() {
        let driver = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "d"},
            "spec": {"tokenRequests": [{"audience": "vault"}]},
        });
        let inline = pod(json!([{"name": "v", "csi": {"driver": "d"}}]));
        assert_eq!(ask(vec![inline.clone(), driver.clone()], &["vault"]).await, Ok(()));
        let unknown = ask(vec![inline], &["vault"]).await.unwrap_err();
        let why = "error validating audience \"vault\": csidriver.storage.k8s.io \"d\" not found";
        assert!(unknown.ends_with(why), "{unknown}");
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "p-v", "namespace": "ns"},
            "spec": {"volumeName": "pv"},
        });
        let volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {"csi": {"driver": "d"}},
        });
        for source in [
            json!({"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}),
            json!({"name": "v", "persistentVolumeClaim": {"claimName": "p-v"}}),
        ] {
            let objects = vec![pod(json!([source])), claim.clone(), volume.clone(), driver.clone()];
            assert_eq!(ask(objects.clone(), &["vault"]).await, Ok(()));
            assert!(ask(objects, &["other"]).await.unwrap_err().contains("not authorized"));
        }
    }

    #[tokio::test]
    async fn a_role_may_allow_other_audiences() {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"},
            "rules": [{"verbs": [VERB], "apiGroups": [""], "resources": ["registry"], "resourceNames": ["sa"]}],
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "b"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}],
        });
        let objects = vec![pod(json!([])), role, binding];
        assert_eq!(ask(objects.clone(), &["registry"]).await, Ok(()));
        assert!(ask(objects, &["vault"]).await.is_err());
    }
}
