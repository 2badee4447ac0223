//! CSIDriver (v1 of storage.k8s.io).

use crate::check::{IMMUTABLE, Node, immutable};
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};

use crate::cells;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::table::{AGE, NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("storage.k8s.io", "v1", "CSIDriver", "csidrivers").cluster().conditional_update().hooks(CsiDriver)
}

#[derive(Debug)]
struct CsiDriver;

impl Hooks for CsiDriver {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn warnings(&self, driver: &Value, old: Option<&Value>) -> Vec<String> {
        let spec = Node::of(driver, "spec");
        let unsafe_tokens = !spec.is_empty("tokenRequests") && !spec.has("serviceAccountTokenInSecrets");
        let told = (old.is_none() && unsafe_tokens).then(|| {
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible \
             logging of tokens in volume attributes"
                .to_owned()
        });
        told.into_iter().collect()
    }

    fn validate(&self, obj: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        validate(obj, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value, ctx: &Context<'_>) -> ErrorList {
        let mut errors = self.validate(new, ctx);
        let (is, was) = (Node::of(new, "spec"), Node::of(old, "spec"));
        if is.get("attachRequired").value != was.get("attachRequired").value {
            let at = is.path.child("attachedRequired");
            errors.push(field::invalid(&at, is.get("attachRequired").value, IMMUTABLE));
        }
        immutable(&is, &was, "volumeLifecycleModes", &mut errors);
        errors
    }
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("AttachRequired", "boolean", field("storage.v1.CSIDriverSpec", "attachRequired"), |o, _| {
        cells::truth(o, "spec.attachRequired", true)
    }),
    column("PodInfoOnMount", "boolean", field("storage.v1.CSIDriverSpec", "podInfoOnMount"), |o, _| {
        cells::truth(o, "spec.podInfoOnMount", false)
    }),
    column("StorageCapacity", "boolean", field("storage.v1.CSIDriverSpec", "storageCapacity"), |o, _| {
        cells::truth(o, "spec.storageCapacity", false)
    }),
    column("TokenRequests", "string", field("storage.v1.CSIDriverSpec", "tokenRequests"), |o, _| {
        token_requests(o).into()
    }),
    column("RequiresRepublish", "boolean", field("storage.v1.CSIDriverSpec", "requiresRepublish"), |o, _| {
        cells::truth(o, "spec.requiresRepublish", false)
    }),
    column("Modes", "string", field("storage.v1.CSIDriverSpec", "volumeLifecycleModes"), |o, _| modes(o).into()),
    AGE,
];

fn token_requests(driver: &Value) -> String {
    match cells::at(driver, "spec.tokenRequests").as_array() {
        Some(requests) => requests.iter().map(|r| cells::str(r, "audience")).collect::<Vec<_>>().join(","),
        None => "<unset>".to_owned(),
    }
}

fn modes(driver: &Value) -> String {
    let modes: Vec<&str> = cells::list(driver, "spec.volumeLifecycleModes").iter().filter_map(Value::as_str).collect();
    if modes.is_empty() { "<none>".to_owned() } else { modes.join(",") }
}

const MIN_PERIOD: i64 = 10;
const MIN_TOKEN_SECONDS: i64 = 600;

fn validate(obj: &Value, errors: &mut ErrorList) {
    let spec = Node::of(obj, "spec");
    for (key, said) in [
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
        ("seLinuxMount", "seLinuxMount"),
    ] {
        if !spec.has(key) {
            errors.push(field::required(&spec.path.child(said), ""));
        }
    }
    spec.one_of("fsGroupPolicy", &["File", "None", "ReadWriteOnceWithFSType"], errors);
    let mut audiences = Vec::new();
    for request in spec.list("tokenRequests") {
        let audience = request.str("audience");
        if audiences.contains(&audience) {
            errors.push(field::duplicate(&request.path.child("audience"), audience));
            continue;
        }
        audiences.push(audience);
        let Some(seconds) = request.opt_int("expirationSeconds") else { continue };
        if seconds < MIN_TOKEN_SECONDS {
            request.invalid("expirationSeconds", "may not specify a duration less than 10 minutes", errors);
        }
        if seconds > 1 << 32 {
            request.invalid("expirationSeconds", "may not specify a duration larger than 2^32 seconds", errors);
        }
    }
    let modes = spec.get("volumeLifecycleModes");
    for mode in modes.items().iter().filter(|m| !matches!(m.text(), "Persistent" | "Ephemeral")) {
        errors.push(field::not_supported(&modes.path, mode.text(), ["Persistent", "Ephemeral"]));
    }
    if spec.opt_int("nodeAllocatableUpdatePeriodSeconds").is_some_and(|n| n < MIN_PERIOD) {
        let why = "must be greater than or equal to 10 seconds";
        spec.invalid("nodeAllocatableUpdatePeriodSeconds", why, errors);
    }
    if spec.has("serviceAccountTokenInSecrets") && spec.is_empty("tokenRequests") {
        let why = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        spec.invalid("serviceAccountTokenInSecrets", why, errors);
    }
}
