//! Which port is whose: kept from one `up` to the next, chosen free otherwise.

use std::{
    collections::BTreeMap,
    net::TcpListener,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};

use super::options::Options;
use crate::{
    process::{self, POLL},
    state::State,
};

/// Kubernetes' port of the API server.
const API_PORT: u16 = 6443;
/// How long the port of a process that was killed may stay taken.
const RELEASE: Duration = Duration::from_secs(3);

/// The ports of an instance, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ports(BTreeMap<String, u16>);

impl Ports {
    /// The ports named, those that are known kept. `held` are the known ports whose process runs now.
    ///
    /// # Errors
    /// The port that was asked for the API server is another program's.
    pub(crate) fn choose(state: &State, names: &[String], options: &Options) -> anyhow::Result<Self> {
        let mut ports = state.ports()?;
        let runs = process::pid(state, "apiserver")?.is_some();
        let known = ports.get("apiserver").copied();
        let api = match options.api_port {
            Some(wanted) if runs && known != Some(wanted) => {
                bail!("the API server runs on port {}: stop it with `trireme down` first", known.unwrap_or(API_PORT))
            }
            Some(wanted) if runs || becomes_free(wanted) => wanted,
            Some(wanted) => bail!("port {wanted} is taken: choose another one with --api-port, or stop what uses it"),
            None => match known {
                Some(known) if runs || becomes_free(known) => known,
                Some(known) => bail!("port {known} of the API server is taken: stop what uses it, or give --api-port"),
                None if is_free(API_PORT) => API_PORT,
                None => free()?,
            },
        };
        ports.insert("apiserver".to_owned(), api);
        for name in names {
            if !ports.contains_key(name) {
                let mut port = free()?;
                while ports.values().any(|p| *p == port) {
                    port = free()?;
                }
                ports.insert(name.clone(), port);
            }
        }
        state.write_ports(&ports)?;
        Ok(Self(ports))
    }

    /// The port of that name; every name in use is in the table.
    pub(crate) fn get(&self, name: &str) -> anyhow::Result<u16> {
        self.0.get(name).copied().with_context(|| format!("no port was chosen for {name}"))
    }
}

/// Whether the port is free, or becomes so soon: a process that was killed keeps its sockets until its last thread ended.
fn becomes_free(port: u16) -> bool {
    let deadline = Instant::now() + RELEASE;
    while !is_free(port) {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(POLL);
    }
    true
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("0.0.0.0", port)).is_ok()
}

/// A port that nobody uses now, below the range that the kernel gives to outgoing connections.
fn free() -> anyhow::Result<u16> {
    use std::sync::atomic::{AtomicU16, Ordering};
    static NEXT: AtomicU16 = AtomicU16::new(0);
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 9_000;
    let start = u16::try_from(std::process::id() % u32::from(COUNT))?;
    for _ in 0..COUNT {
        let port = FIRST + (start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed))) % COUNT;
        if is_free(port) {
            return Ok(port);
        }
    }
    bail!("no free port from {FIRST} to {}", FIRST + COUNT)
}
