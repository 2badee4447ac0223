//! The quality of service that a Pod's requests and limits come to.

use serde_json::Value;
use trireme_machinery::quantity::Quantity;

use crate::cells;

/// `Guaranteed`, `Burstable` or `BestEffort`.
pub(crate) fn class(pod: &Value) -> &'static str {
    let own = cells::at(pod, "spec.resources");
    if ["requests", "limits"].iter().any(|kind| own[kind].as_object().is_some_and(|r| !r.is_empty())) {
        return of_requirements(own);
    }
    let containers = ["spec.initContainers", "spec.containers"].into_iter().flat_map(|list| cells::list(pod, list));
    let mut classes = containers.map(|c| of_requirements(&c["resources"]));
    let Some(first) = classes.next() else { return "BestEffort" };
    if first == "Burstable" || classes.any(|class| class != first) { "Burstable" } else { first }
}

/// The class of what one container, or the Pod as a whole, asks for.
fn of_requirements(resources: &Value) -> &'static str {
    let amount = |kind: &str, resource: &str| -> Option<Quantity> {
        let quantity = Quantity::parse(resources[kind][resource].as_str()?).ok()?;
        (!quantity.is_zero() && !quantity.is_negative()).then_some(quantity)
    };
    let mut guaranteed = true;
    let mut anything = false;
    for resource in ["cpu", "memory"] {
        let (request, limit) = (amount("requests", resource), amount("limits", resource));
        anything |= request.is_some() || limit.is_some();
        guaranteed &= limit.is_some() && request == limit;
    }
    match (anything, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(resources: &Value) -> Value {
        json!({"spec": {"containers": [{"name": "c", "resources": resources}]}})
    }

    #[test]
    fn requests_and_limits_make_the_class() {
        assert_eq!(class(&pod(&json!({}))), "BestEffort");
        assert_eq!(class(&pod(&json!({"requests": {"cpu": "1"}}))), "Burstable");
        let both = json!({"cpu": "1", "memory": "1Gi"});
        assert_eq!(class(&pod(&json!({"requests": both, "limits": both}))), "Guaranteed");
    }
}
