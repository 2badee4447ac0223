//! `ipFamilies` and `ipFamilyPolicy`: what a Service says of address families, completed by what the cluster has.

use std::net::IpAddr;

use serde_json::{Value, json};
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::gvk::GroupVersionKind;
use trireme_machinery::meta;
use trireme_machinery::path::Path;
use trireme_machinery::status::Status;

use super::AddressRange;
use super::spec::{cluster_ips, has_cluster_ip, is_headless, set_cluster_ips};

const SINGLE: &str = "SingleStack";
const REQUIRE: &str = "RequireDualStack";
const PREFER: &str = "PreferDualStack";

/// The families of a Service.
pub(super) fn of(service: &Value) -> Vec<String> {
    let families = service["spec"]["ipFamilies"].as_array().into_iter().flatten();
    families.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn policy(service: &Value) -> &str {
    service["spec"]["ipFamilyPolicy"].as_str().unwrap_or_default()
}

fn other(family: &str) -> &'static str {
    if family == "IPv4" { "IPv6" } else { "IPv4" }
}

fn has_selector(service: &Value) -> bool {
    service["spec"]["selector"].as_object().is_some_and(|selector| !selector.is_empty())
}

/// Completes families and policy, and refuses what the cluster or the Service's own addresses contradict.
pub(super) fn settle(service: &mut Value, old: Option<&Value>, ranges: &[AddressRange]) -> Result<(), Status> {
    if !has_cluster_ip(service) || old.is_some_and(|old| prefers_as_before(service, old)) {
        return Ok(());
    }
    let selectorless = service["spec"]["clusterIP"] == "None" && !has_selector(service);
    if policy(service).is_empty() {
        let before = old.map(policy).unwrap_or_default().to_owned();
        let default = if selectorless { REQUIRE } else { SINGLE };
        service["spec"]["ipFamilyPolicy"] = json!(if before.is_empty() { default } else { &before });
    }
    // Addresses and families that are wrong in themselves are the validation's to refuse.
    if !well_formed(service) {
        return Ok(());
    }
    let mut errors = ErrorList::new();
    if let Some(old) = old {
        reduce(service, old, &mut errors);
    }
    let chosen = policy(service).to_owned();
    let policy_path = Path::new("spec").child("ipFamilyPolicy");
    if chosen == SINGLE {
        let demand =
            |what| format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
        if cluster_ips(service).len() == 2 {
            errors.push(field::invalid(&policy_path, &chosen, demand("cluster IPs")));
        }
        if of(service).len() == 2 {
            errors.push(field::invalid(&policy_path, &chosen, demand("IP families")));
        }
    }
    let configured = |family: &str| ranges.iter().any(|range| range.family() == family);
    let mut families = of(service);
    let ips = cluster_ips(service);
    for (index, ip) in ips.iter().enumerate().take_while(|(_, ip)| *ip != "None") {
        let family = match ip.parse() {
            Ok(IpAddr::V4(_)) => "IPv4",
            _ => "IPv6",
        };
        if index < families.len() {
            continue;
        }
        if configured(family) {
            families.push(family.to_owned());
        } else {
            let path = Path::new("spec").child("clusterIPs").index(index);
            errors.push(field::invalid(&path, &ips, format!("{family} is not configured on this cluster")));
        }
    }
    refuse(service, std::mem::take(&mut errors))?;

    let default = ranges.first().map_or("IPv4", AddressRange::family);
    if selectorless {
        if families.is_empty() {
            families.push(default.to_owned());
        }
        if families.len() < 2 && chosen != SINGLE {
            families.push(other(&families[0]).to_owned());
        }
        service["spec"]["ipFamilies"] = json!(families);
        return Ok(());
    }
    if chosen == REQUIRE && ranges.len() < 2 {
        errors.push(field::invalid(&policy_path, &chosen, "this cluster is not configured for dual-stack services"));
    }
    for (index, family) in families.iter().enumerate().filter(|(_, family)| !configured(family)) {
        let path = Path::new("spec").child("ipFamilies").index(index);
        errors.push(field::invalid(&path, family, "not configured on this cluster"));
    }
    refuse(service, errors)?;
    if families.is_empty() {
        families.push(default.to_owned());
    }
    if chosen != SINGLE && families.len() == 1 && ranges.len() == 2 {
        families.push(other(&families[0]).to_owned());
    }
    service["spec"]["ipFamilies"] = json!(families);
    Ok(())
}

/// A Service that prefers two stacks and names what it had stays as it is, whatever the cluster has by now.
fn prefers_as_before(new: &Value, old: &Value) -> bool {
    let same_type = new["spec"]["type"] == old["spec"]["type"];
    let old_policy = policy(old);
    same_type
        && policy(new) == PREFER
        && (old_policy.is_empty() || old_policy == PREFER)
        && cluster_ips(new) == cluster_ips(old)
        && of(new) == of(old)
}

/// On update: to one stack means to give the second up; anything else means to keep it.
fn reduce(service: &mut Value, old: &Value, errors: &mut ErrorList) {
    let (ips, families) = (cluster_ips(service), of(service));
    let (old_ips, old_families) = (cluster_ips(old), of(old));
    if policy(service) == SINGLE {
        if ips == old_ips && ips.len() > 1 {
            set_cluster_ips(service, &ips[..1]);
        }
        if families == old_families && families.len() > 1 {
            service["spec"]["ipFamilies"] = json!(families[..1]);
        }
        return;
    }
    let path = Path::new("spec").child("ipFamilyPolicy");
    let chosen = policy(service).to_owned();
    let mut keep = |what: &str| {
        errors.push(field::invalid(&path, &chosen, format!("must be 'SingleStack' to release the secondary {what}")));
    };
    if !ips.is_empty() && ips.len() < old_ips.len() && is_single_or_none(&ips) {
        keep("cluster IP");
    }
    if !families.is_empty() && families.len() < old_families.len() {
        keep("IP family");
    }
}

fn is_single_or_none(ips: &[String]) -> bool {
    ips.iter().all(|ip| !ip.is_empty())
}

fn well_formed(service: &Value) -> bool {
    let (ips, families) = (cluster_ips(service), of(service));
    let first = service["spec"]["clusterIP"].as_str().unwrap_or_default();
    let known = |family: &String| family == "IPv4" || family == "IPv6";
    let agree = |(ip, family): (&String, &String)| match ip.parse::<IpAddr>() {
        Ok(ip) => ip.is_ipv4() == (family == "IPv4"),
        Err(_) => ip == "None",
    };
    let policy_known = matches!(policy(service), SINGLE | PREFER | REQUIRE);
    policy_known
        && ips.len() <= 2
        && families.len() <= 2
        && ips.first().map_or("", String::as_str) == first
        && families.iter().all(known)
        && ips.iter().all(|ip| ip == "None" || ip.parse::<IpAddr>().is_ok())
        && (is_headless(service) || ips.iter().zip(&families).all(agree))
        && (families.len() < 2 || families[0] != families[1])
}

fn refuse(service: &Value, errors: ErrorList) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupVersionKind::new("", "v1", "Service"), meta::name(service), errors))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(spec: Value) -> Value {
        let mut service = json!({"metadata": {"name": "web"}, "spec": spec});
        settle(&mut service, None, &[AddressRange::parse("10.96.0.0/16").unwrap()]).unwrap();
        service["spec"].clone()
    }

    #[test]
    fn one_stack_is_the_default() {
        let spec = settled(json!({"type": "ClusterIP", "selector": {"a": "b"}}));
        assert_eq!((&spec["ipFamilies"], &spec["ipFamilyPolicy"]), (&json!(["IPv4"]), &json!(SINGLE)));
    }

    #[test]
    fn headless_without_selector_has_both() {
        let spec = settled(json!({"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"]}));
        assert_eq!((&spec["ipFamilies"], &spec["ipFamilyPolicy"]), (&json!(["IPv4", "IPv6"]), &json!(REQUIRE)));
    }

    #[test]
    fn a_family_must_be_configured() {
        let mut service = json!({"metadata": {"name": "web"}, "spec": {"type": "ClusterIP", "ipFamilies": ["IPv6"]}});
        let error = settle(&mut service, None, &[AddressRange::parse("10.96.0.0/16").unwrap()]).unwrap_err();
        assert_eq!(
            error.message,
            "Service \"web\" is invalid: spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster"
        );
    }
}
