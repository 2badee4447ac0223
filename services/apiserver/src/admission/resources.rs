//! Amounts of resources: of a container, of a Pod, of a namespace.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use trireme_machinery::quantity::Quantity;

use super::pod::items;

/// Amounts by name.
pub type Resources = BTreeMap<String, Quantity>;

/// Reads a map of quantities; what can't be read is left out (validation refuses it).
#[must_use]
pub fn read(map: &Value) -> Resources {
    let entries = map.as_object().into_iter().flatten();
    entries.filter_map(|(name, amount)| Some((name.clone(), parse(amount)?))).collect()
}

/// Reads one quantity.
#[must_use]
pub fn parse(amount: &Value) -> Option<Quantity> {
    match amount {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

/// A map of quantities as an object has it.
#[must_use]
pub fn write(resources: &Resources) -> Value {
    Value::Object(
        resources.iter().map(|(name, amount)| (name.clone(), Value::String(amount.to_string()))).collect::<Map<_, _>>(),
    )
}

/// Adds amounts.
pub fn add(total: &mut Resources, more: &Resources) {
    for (name, amount) in more {
        let sum = total.get(name).map_or_else(|| amount.clone(), |known| known.add(amount));
        total.insert(name.clone(), sum);
    }
}

fn maximum(total: &mut Resources, other: &Resources) {
    for (name, amount) in other {
        match total.get(name) {
            Some(known) if known >= amount => {}
            _ => _ = total.insert(name.clone(), amount.clone()),
        }
    }
}

/// What a Pod asks for (`requests` or `limits`): the sum of its containers, or what initialising takes, if that is more.
/// Init containers that go on running count as both.
#[must_use]
pub fn of_pod(spec: &Value, which: &str) -> Resources {
    let of = |container: &Value| read(&container["resources"][which]);
    let mut total = Resources::new();
    for container in items(&spec["containers"]) {
        add(&mut total, &of(container));
    }
    let (mut sidecars, mut initial) = (Resources::new(), Resources::new());
    for container in items(&spec["initContainers"]) {
        let own = of(container);
        let mut at_once = sidecars.clone();
        add(&mut at_once, &own);
        if container["restartPolicy"] == "Always" {
            add(&mut total, &own);
            sidecars = at_once.clone();
        }
        maximum(&mut initial, &at_once);
    }
    maximum(&mut total, &initial);
    for (name, amount) in read(&spec["resources"][which]) {
        total.insert(name, amount);
    }
    total
}

/// The same with the overhead of its runtime.
#[must_use]
pub fn of_pod_with_overhead(spec: &Value, which: &str) -> Resources {
    let mut total = of_pod(spec, which);
    for (name, amount) in read(&spec["overhead"]) {
        // An overhead makes no limit where there is none.
        if which == "requests" || total.contains_key(&name) {
            let sum = total.get(&name).map_or_else(|| amount.clone(), |known| known.add(&amount));
            total.insert(name, sum);
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn initialising_counts_if_it_is_more() {
        let cpu = |amount: &str| json!({"resources": {"requests": {"cpu": amount}}});
        let mut sidecar = cpu("100m");
        sidecar["restartPolicy"] = json!("Always");
        let spec = json!({"containers": [cpu("200m"), cpu("300m")], "initContainers": [sidecar, cpu("1")]});
        assert_eq!(of_pod(&spec, "requests")["cpu"].to_string(), "1100m");
        let small = json!({"containers": [cpu("200m")], "initContainers": [cpu("100m")]});
        assert_eq!(of_pod(&small, "requests")["cpu"].to_string(), "200m");
    }
}
