//! What the machine has.

use crate::config::Config;
use crate::error::{Error, Result};
use crate::host::{Allocatable, Machine};
use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};
use trireme_machinery::quantity::Quantity;

/// Looks at the machine.
pub fn discover(config: &Config) -> Result<Machine> {
    let memory = meminfo("MemTotal")?;
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let milli_cpu = i64::try_from(cpus).unwrap_or(1) * 1000;
    let storage = nix::sys::statvfs::statvfs(&config.root_dir)
        .map(|stat| i64::try_from(stat.blocks() * stat.fragment_size()).unwrap_or(i64::MAX))
        .map_err(|errno| Error::io("measure", &config.root_dir, errno.into()))?;
    let mut reserved: BTreeMap<&str, i64> = BTreeMap::new();
    for (name, amount) in &config.reserved {
        let total = match name.as_str() {
            "memory" => Some(memory),
            "ephemeral-storage" => Some(storage),
            _ => None,
        };
        let amount = amount_of(amount, total, name == "cpu")
            .ok_or_else(|| Error::Config(format!("reserved {name}: \"{amount}\" is not a quantity")))?;
        *reserved.entry(name.as_str()).or_default() += amount;
    }
    let left = |name: &str, total: i64| (total - reserved.get(name).copied().unwrap_or_default()).max(0);
    let allocatable = Allocatable {
        milli_cpu: left("cpu", milli_cpu),
        memory: left("memory", memory),
        storage: left("ephemeral-storage", storage),
        pods: config.max_pods,
    };
    Ok(Machine { ips: addresses(config)?, milli_cpu, memory, storage, allocatable })
}

/// A quantity, or a percentage of the whole if there can be one.
fn amount_of(text: &str, total: Option<i64>, milli: bool) -> Option<i64> {
    if let Some(percent) = text.strip_suffix('%') {
        let percent: f64 = percent.parse().ok()?;
        return Some((total? as f64 * percent / 100.0) as i64);
    }
    let quantity = Quantity::parse(text).ok()?;
    Some(if milli { quantity.milli_value() } else { quantity.value() })
}

/// A line of /proc/meminfo, in bytes.
pub(super) fn meminfo(name: &str) -> Result<i64> {
    let file = "/proc/meminfo";
    let text = std::fs::read_to_string(file).map_err(|error| Error::io("read", file, error))?;
    text.lines()
        .find_map(|line| {
            line.strip_prefix(name)?.strip_prefix(':')?.trim().strip_suffix("kB")?.trim().parse::<i64>().ok()
        })
        .map(|kib| kib * 1024)
        .ok_or_else(|| Error::Config(format!("{file} has no {name}")))
}

/// The address others reach this node at: as it was said, else that of the way out, else the first that is not loopback.
fn addresses(config: &Config) -> Result<Vec<String>> {
    if let Some(said) = &config.node_ip {
        return said
            .split(',')
            .map(|text| match text.trim().parse::<IpAddr>() {
                Ok(ip) => Ok(ip.to_string()),
                Err(_) => Err(Error::Config(format!("--node-ip={text} is not an IP address"))),
            })
            .collect();
    }
    // Connecting a datagram socket sends nothing: it only asks which address would be used.
    let way_out = UdpSocket::bind("0.0.0.0:0")
        .and_then(|socket| socket.connect("203.0.113.1:9").and_then(|()| socket.local_addr()))
        .map(|address| address.ip());
    if let Ok(ip) = way_out
        && !ip.is_loopback()
        && !ip.is_unspecified()
    {
        return Ok(vec![ip.to_string()]);
    }
    let interfaces = nix::ifaddrs::getifaddrs().map_err(|errno| Error::Config(format!("no addresses: {errno}")))?;
    let found = interfaces
        .filter_map(|interface| Some(interface.address?.as_sockaddr_in()?.ip()))
        .find(|ip| !ip.is_loopback() && !ip.is_link_local());
    match found {
        Some(ip) => Ok(vec![ip.to_string()]),
        None => {
            tracing::warn!("the node has no address but loopback; name one with --node-ip");
            Ok(vec!["127.0.0.1".into()])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_what_it_is_a_share_of() {
        assert_eq!(amount_of("10%", Some(200), false), Some(20));
        assert_eq!(amount_of("10%", None, true), None, "a share of CPUs is none of the disk's bytes");
        assert_eq!(amount_of("1500m", None, true), Some(1500));
        assert_eq!(amount_of("1Ki", Some(5), false), Some(1024));
    }
}
