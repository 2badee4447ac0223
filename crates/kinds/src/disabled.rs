//! Fields of features that Kubernetes 1.37 has off by default: it takes them, and drops them before it stores an object.

use serde_json::Value;
use trireme_machinery::schema::{Schema, Shape, TypeId};

use crate::facts;

/// Type and field.
const FIELDS: &[(&str, &[&str])] = &[
    ("batch.v1.JobSpec", &["scheduling"]),
    ("coordination.v1.LeaseSpec", &["preferredHolder", "strategy"]),
    ("core.v1.ClusterTrustBundleProjection", &["user"]),
    ("core.v1.ConfigMapVolumeSource", &["defaultUser"]),
    ("core.v1.ContainerStatus", &["stopSignal"]),
    ("core.v1.DownwardAPIVolumeFile", &["user"]),
    ("core.v1.DownwardAPIVolumeSource", &["defaultUser"]),
    ("core.v1.EmptyDirVolumeSource", &["mode"]),
    ("core.v1.GRPCAction", &["mode"]),
    ("core.v1.HTTPGetAction", &["protocol"]),
    ("core.v1.KeyToPath", &["user"]),
    ("core.v1.Lifecycle", &["stopSignal"]),
    ("core.v1.NodeSpec", &["configSource", "podPreemptionPolicy"]),
    ("core.v1.PersistentVolumeClaimStatus", &["healthStatus"]),
    ("core.v1.PodCertificateProjection", &["user"]),
    ("core.v1.PodSpec", &["evictionResponders", "schedulingGroup"]),
    ("core.v1.PodStatus", &["nodeAllocatableResourceClaimStatuses", "volumeHealth"]),
    ("core.v1.ProjectedVolumeSource", &["defaultUser"]),
    ("core.v1.SecretVolumeSource", &["defaultUser"]),
    ("core.v1.ServiceAccountTokenProjection", &["user"]),
    ("core.v1.VolumeMount", &["bindMountOptions"]),
    ("core.v1.VolumeStatus", &["image"]),
    ("resource.v1.Device", &["nodeAllocatableResources"]),
    ("resource.v1.DeviceAttribute", &["bools", "ints", "strings", "versions"]),
    ("resource.v1.DeviceCounterConsumption", &["compatibilityGroups"]),
    ("resource.v1.DeviceRequestAllocationResult", &["skipNodeOperations"]),
    ("resource.v1.DeviceSubRequest", &["derivedAttributes"]),
    ("resource.v1.ExactDeviceRequest", &["derivedAttributes"]),
    ("resource.v1.ResourceSliceSpec", &["partitionTypeAttribute", "skipNodeOperations"]),
    ("storage.v1.CSINodeStatus", &["storageHealth"]),
];

/// One step towards a field.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Field(Box<str>),
    /// Every item of a list or value of a map.
    Each,
}

/// The paths of such fields from the root of a kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Disabled {
    paths: Vec<Vec<Step>>,
}

impl Disabled {
    /// Finds them below a type.
    pub(crate) fn find(schema: &Schema, ty: TypeId) -> Self {
        let fields = FIELDS
            .iter()
            .filter_map(|(name, fields)| Some((schema.find(&facts::full_name(name))?, *fields)))
            .collect::<Vec<_>>();
        let mut search = Search { schema, fields, path: Vec::new(), open: Vec::new(), found: Vec::new() };
        search.visit(ty);
        Self { paths: search.found }
    }

    /// Drops them from an object.
    pub(crate) fn drop_from(&self, obj: &mut Value) {
        self.paths.iter().for_each(|path| drop(obj, path));
    }
}

struct Search<'a> {
    schema: &'a Schema,
    fields: Vec<(TypeId, &'a [&'a str])>,
    path: Vec<Step>,
    open: Vec<TypeId>,
    found: Vec<Vec<Step>>,
}

impl Search<'_> {
    fn visit(&mut self, ty: TypeId) {
        match self.schema.shape(ty) {
            Shape::Object(object) if !self.open.contains(&ty) => {
                self.open.push(ty);
                let disabled = self.fields.iter().find(|(t, _)| *t == ty).map_or(&[] as &[&str], |(_, fields)| fields);
                for field in &object.fields {
                    self.path.push(Step::Field(field.name.clone()));
                    if disabled.contains(&&*field.name) {
                        self.found.push(self.path.clone());
                    } else {
                        self.visit(field.ty);
                    }
                    self.path.pop();
                }
                self.open.pop();
            }
            Shape::List { of, .. } | Shape::Map { of, .. } => {
                self.path.push(Step::Each);
                self.visit(*of);
                self.path.pop();
            }
            _ => {}
        }
    }
}

fn drop(value: &mut Value, path: &[Step]) {
    match (path, value) {
        ([Step::Field(name)], Value::Object(map)) => _ = map.remove(&**name),
        ([Step::Field(name), rest @ ..], Value::Object(map)) => {
            if let Some(value) = map.get_mut(&**name) {
                drop(value, rest);
            }
        }
        ([Step::Each, rest @ ..], Value::Array(list)) => list.iter_mut().for_each(|v| drop(v, rest)),
        ([Step::Each, rest @ ..], Value::Object(map)) => map.values_mut().for_each(|v| drop(v, rest)),
        _ => {}
    }
}
