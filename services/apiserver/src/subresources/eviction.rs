//! `pods/eviction`: a Pod goes, if its disruption budget has room for it.

use std::sync::Arc;

use serde_json::{Value, json};
use trireme_kinds::Kind;
use trireme_machinery::gvk::GroupResource;
use trireme_machinery::labels::Selector;
use trireme_machinery::meta;
use trireme_machinery::status::{Reason, Status, cause};
use trireme_machinery::time;

use super::binding::set_condition;
use super::{Subresources, done, is_dry_run};
use crate::pipeline::{Answer, Context, Request, decode};

/// How often a write that lost a race is tried again.
const TRIES: usize = 20;
/// How many evicted Pods a budget may still wait for.
const MOST_DISRUPTED: usize = 2000;
const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

impl Subresources {
    pub(super) async fn evict(&self, context: &Context, request: &Request, kind: &Arc<Kind>) -> Result<Answer, Status> {
        let info = &request.info;
        let mut eviction = decode::body(context, &self.inner.bodies.eviction, request)?;
        if meta::name(&eviction) != info.name {
            return Err(Status::bad_request("name in URL does not match name in Eviction object"));
        }
        self.admit(context, request, kind, &mut eviction).await?;
        let mut options =
            eviction.get("deleteOptions").filter(|options| !options.is_null()).cloned().unwrap_or_else(|| json!({}));
        let dry_run = is_dry_run(request) || options["dryRun"].as_array().is_some_and(|list| !list.is_empty());
        if dry_run {
            options["dryRun"] = json!(["All"]);
        }
        let pinned = options.pointer("/preconditions/resourceVersion").is_some_and(Value::is_string);

        let wanted = |field: &str| options["preconditions"][field].as_str();
        let (uid, version) = (wanted("uid"), wanted("resourceVersion"));
        let mut lost = None;
        for _ in 0..TRIES {
            let pod = self.inner.objects.get(&self.inner.pods, &info.namespace, &info.name).await?;
            let value = pod.value();
            // Another Pod than the one that is meant costs its budget nothing.
            check_preconditions(&value, uid, version)?;
            let mut options = options.clone();
            let unguarded = is_unguarded(&value);
            let budget = if unguarded { None } else { self.spend(context, &value, dry_run).await? };
            // Between now and the deletion it might become ready and count; one that ended never will.
            if !pinned && (budget.is_some() || (unguarded && !is_over(&value))) {
                options["preconditions"]["resourceVersion"] = json!(pod.revision.to_string());
            }
            match (self.delete_evicted(context, &info.namespace, &info.name, options, dry_run).await, budget) {
                (Ok(()), _) => return Ok(done()),
                (Err(status), Some(budget)) if status.is_conflict() && !pinned => return Err(too_many(&budget)),
                // Only where nothing was spent is it tried again.
                (Err(status), None) if status.is_conflict() && !pinned && unguarded => lost = Some(status),
                (Err(status), _) => return Err(status),
            }
        }
        Err(lost.unwrap_or_else(|| Status::timeout("couldn't evict the pod due to conflicts", 10)))
    }

    /// Takes one disruption from the Pod's budget. Returns the budget's name if the Pod may go without costing one
    /// as long as it stays unready.
    async fn spend(&self, context: &Context, pod: &Value, dry_run: bool) -> Result<Option<String>, Status> {
        let namespace = meta::namespace(pod);
        let budgets = self.inner.objects.reader().list(&self.inner.budgets, Some(namespace));
        let mut matching = budgets.iter().map(|budget| budget.value()).filter(|budget| selects(budget, pod));
        let Some(budget) = matching.next() else { return Ok(None) };
        if matching.next().is_some() {
            let message =
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(Status::failure(500, Reason::Unknown, message));
        }
        let name = meta::name(&budget).to_owned();
        if !is_ready(pod) {
            let count = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
            let always = budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow";
            if always || (count("currentHealthy") >= count("desiredHealthy") && count("desiredHealthy") > 0) {
                return Ok(Some(name));
            }
        }
        let pod_name = meta::name(pod).to_owned();
        let now = time::format(context.now);
        let mut change = |budget: &mut Value| {
            check(budget)?;
            let allowed = budget["status"]["disruptionsAllowed"].as_i64().unwrap_or(0) - 1;
            budget["status"]["disruptionsAllowed"] = json!(allowed);
            budget["status"]["disruptedPods"][&pod_name] = json!(now);
            Ok(())
        };
        if dry_run {
            change(&mut budget.clone())?;
            return Ok(None);
        }
        let budgets = &self.inner.budgets;
        self.inner.objects.update(context, budgets, namespace, &name, "status", &mut change).await?;
        Ok(None)
    }

    async fn delete_evicted(
        &self,
        context: &Context,
        namespace: &str,
        name: &str,
        mut options: Value,
        dry_run: bool,
    ) -> Result<(), Status> {
        if !dry_run {
            let wanted = |field: &str| options["preconditions"][field].as_str().map(str::to_owned);
            let (uid, version) = (wanted("uid"), wanted("resourceVersion"));
            let mut mark = |pod: &mut Value| {
                check_preconditions(pod, uid.as_deref(), version.as_deref())?;
                let condition = json!({
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "EvictionByEvictionAPI",
                    "message": "Eviction API: evicting",
                });
                set_condition(pod, condition, context.now);
                Ok(())
            };
            let pods = &self.inner.pods;
            let marked = self.inner.objects.update(context, pods, namespace, name, "status", &mut mark).await?;
            if version.is_some() {
                options["preconditions"]["resourceVersion"] = json!(marked.revision.to_string());
            }
        }
        self.inner.objects.delete(context, &self.inner.pods, namespace, name, &options).await.map(|_| ())
    }
}

fn check_preconditions(pod: &Value, uid: Option<&str>, version: Option<&str>) -> Result<(), Status> {
    let resource = GroupResource::new("", "Pod");
    let (name, has_uid, has_version) = (meta::name(pod), meta::uid(pod), meta::resource_version(pod));
    if let Some(uid) = uid.filter(|uid| !uid.is_empty() && *uid != has_uid) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({has_uid}). \
             The object might have been deleted and then recreated"
        );
        return Err(Status::conflict(&resource, name, why));
    }
    if let Some(version) = version.filter(|version| !version.is_empty() && *version != has_version) {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({has_version}). \
             The object might have been modified"
        );
        return Err(Status::conflict(&resource, name, why));
    }
    Ok(())
}

fn is_over(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) || meta::is_deleting(pod)
}

/// Whether it does not count for a budget: it ended, is going, or never ran.
fn is_unguarded(pod: &Value) -> bool {
    is_over(pod) || pod["status"]["phase"] == "Pending"
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn selects(budget: &Value, pod: &Value) -> bool {
    let selector = &budget["spec"]["selector"];
    if selector.is_null() {
        return false;
    }
    let labels = meta::labels(pod).cloned().unwrap_or_default();
    Selector::from_label_selector(selector).is_ok_and(|selector| selector.matches(&labels))
}

fn too_many(budget: &str) -> Status {
    let message = format!("The disruption budget {budget} is still being processed by the server.");
    Status::too_many_requests(REFUSED, 10).with_cause(cause::DISRUPTION_BUDGET, message, "")
}

fn check(budget: &Value) -> Result<(), Status> {
    let name = meta::name(budget);
    let status = &budget["status"];
    let count = |field: &str| status[field].as_i64().unwrap_or(0);
    if count("observedGeneration") < meta::generation(budget) {
        return Err(too_many(name));
    }
    let resource = GroupResource::new("policy", "poddisruptionbudget");
    let forbid = |why: &str, text: String| {
        Err(Status::forbidden(&resource, name, why).with_cause(cause::DISRUPTION_BUDGET, text, ""))
    };
    if count("disruptionsAllowed") < 0 {
        let why = "pdb disruptions allowed is negative";
        return forbid(why, format!("The disruption budget {name} does not allow evicting pods currently: {why}"));
    }
    if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > MOST_DISRUPTED) {
        return forbid(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            format!(
                "The disruption budget {name} does not allow evicting pods currently: \
                 too many pending evictions not confirmed by PDB controller"
            ),
        );
    }
    if count("disruptionsAllowed") > 0 {
        return Ok(());
    }
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let condition = conditions.into_iter().find(|c| c["type"] == "DisruptionAllowed" && c["status"] == "False");
    let text = |field: &str| condition.and_then(|c| c[field].as_str()).unwrap_or_default();
    let (current, desired) = (count("currentHealthy"), count("desiredHealthy"));
    let message = if !text("message").is_empty() && text("reason") == "SyncFailed" {
        let why = text("message");
        format!("The disruption budget {name} does not allow evicting pods currently because it failed sync: {why}")
    } else if current <= desired {
        format!("The disruption budget {name} needs {desired} healthy pods and has {current} currently")
    } else if !text("message").is_empty() {
        let (reason, why) = (text("reason"), text("message"));
        format!("The disruption budget {name} does not allow evicting pods currently ({reason}): {why}")
    } else {
        format!("The disruption budget {name} does not allow evicting pods currently")
    };
    Err(Status::too_many_requests(REFUSED, 0).with_cause(cause::DISRUPTION_BUDGET, message, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spent_budget_refuses_with_429() {
        let budget = json!({
            "metadata": {"name": "b", "generation": 1},
            "status": {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1},
        });
        let refused = check(&budget).unwrap_err();
        assert_eq!((refused.code, refused.message.as_str()), (429, REFUSED));
        let details = refused.details.unwrap();
        assert_eq!(details.causes[0].message, "The disruption budget b needs 1 healthy pods and has 1 currently");
    }

    #[test]
    fn only_running_pods_count() {
        assert!(is_unguarded(&json!({"status": {"phase": "Pending"}})));
        assert!(!is_unguarded(&json!({"status": {"phase": "Running"}})));
    }
}
