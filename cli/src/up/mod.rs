//! `trireme up`: starts what is not running yet, waits until it serves, and says what runs where.
//!
//! Order: checks that can refuse, then names, ports and certificates (all kept from the last time), then the kernel's
//! bridge and namespaces, then every process at once, since each waits for what it needs by itself; then waiting, image
//! import, and the examples.

mod api;
mod examples;
mod images;
mod node;
mod options;
mod ports;
mod preflight;
mod screen;
mod services;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use trireme_pki::Pki;

use self::{node::Node, options::Part, ports::Ports, screen::Screen, services::Plan};
pub(crate) use self::{node::cleanups, options::Options};
use crate::{
    host, lock,
    process::{self, Process},
    ready,
    state::{Instance, State},
};

/// How long a service may take until it serves.
const PATIENCE: Duration = Duration::from_secs(60);
/// The version of `instance.json`.
const VERSION: u32 = 1;

/// Brings an instance up.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let begun = Instant::now();
    let parts = options.parts();
    preflight::check(&parts, options.nodes)?;
    // One provider for every TLS connection of this process; a second install is refused and harmless.
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let state = State::open(&options.state_dir)?;
    let _lock = lock::take(state.root())?;
    // Networks and the host's own are shared out one after another, until what takes them shows.
    let on_node = [Part::Kubelet, Part::Proxy, Part::Network].iter().any(|p| parts.contains(p)) && options.nodes > 0;
    let machine = on_node.then(|| lock::take(Path::new("/run/trireme"))).transpose()?;
    let instance = instance(&state, options, &parts)?;
    let names = services::port_names(instance.store_members, instance.nodes.keys().copied());
    let ports = Ports::choose(&state, &names, options)?;
    let pki = Pki::open(&state.pki())?;
    let plan = Plan {
        state: &state,
        instance: &instance,
        ports: &ports,
        pki: &pki,
        programs: programs()?,
        otlp: options.otlp.as_deref(),
        nats: parts.contains(&Part::Nats) && preflight::find("nats-server").is_some(),
    };
    if !instance.nodes.is_empty() {
        host::ensure_bridge(&instance)?;
        for (n, _) in instance.nodes.iter().filter(|(_, shares)| !**shares) {
            host::ensure_namespace(&instance, *n)?;
        }
    }
    pki.issue(&services::apiserver_identity(&instance))?;
    crate::pki::control_plane(&pki, &[instance.host_address().to_string()])?;
    let server = plan.server(std::net::Ipv4Addr::LOCALHOST)?;
    crate::pki::admin(&pki, &server)?.write(&state.kubeconfig())?;

    let processes = processes(&plan, &parts, options)?;
    let screen = Screen::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        start(&state, &processes).await?;
        drop(machine);
        wait(&state, &processes, &screen).await?;
        if parts.contains(&Part::Kubelet) {
            for n in instance.nodes.keys() {
                let node = Node::new(&plan, *n);
                screen.step(
                    &format!("images of {}", node.name()),
                    images::import(&node.socket(), &images_folder(options)?),
                )?;
            }
            if parts.contains(&Part::Apiserver) {
                let api = api::Api::new(&ports, &pki)?;
                for n in instance.nodes.keys() {
                    let name = Node::new(&plan, *n).name();
                    screen.step_async(&format!("{name} Ready"), api.node_ready(&name, PATIENCE)).await?;
                }
            }
        }
        anyhow::Ok(())
    })?;
    let whole = options.only.is_empty() && !instance.nodes.is_empty();
    if whole && !options.no_examples {
        let folder = options.examples.clone().unwrap_or_else(|| PathBuf::from("examples"));
        screen.step("examples", examples::apply(&state.kubeconfig(), &folder))?;
    }
    screen.summary(&state, &processes, &server, begun.elapsed())
}

/// What the instance was, with what the command line adds to it.
fn instance(state: &State, options: &Options, parts: &BTreeSet<Part>) -> anyhow::Result<Instance> {
    let known = state.instance()?;
    let store_members = match (&known, options.store_members) {
        (Some(known), Some(wanted)) if known.store_members != wanted => {
            bail!("this instance has {} store members: use another --state-dir for {wanted}", known.store_members)
        }
        (Some(known), _) => known.store_members,
        (None, wanted) => wanted.unwrap_or(1),
    };
    let on_node = [Part::Kubelet, Part::Proxy, Part::Network].iter().any(|p| parts.contains(p));
    let mut nodes: BTreeMap<u8, bool> = known.as_ref().map(|k| k.nodes.clone()).unwrap_or_default();
    if on_node {
        let shares = host_network_is_ours(state)?;
        for n in 1..=options.nodes {
            nodes.entry(n).or_insert(n == 1 && shares);
        }
    }
    let id = state.id();
    let network = match known {
        Some(known) => known.network,
        None => free_network(&id)?,
    };
    let instance = Instance { version: VERSION, id, network, store_members, nodes };
    state.write_instance(&instance)?;
    Ok(instance)
}

/// Whether a node of this instance may share this machine's network: one instance at a time does.
fn host_network_is_ours(state: &State) -> anyhow::Result<bool> {
    let holder = Path::new("/run/trireme/host-network");
    if let Ok(other) = std::fs::read_to_string(holder)
        && Path::new(&other) != state.root()
        && let Some(other) = State::existing(Path::new(&other))
        && process::runs_any(&other)?
    {
        return Ok(false);
    }
    std::fs::create_dir_all("/run/trireme").context("/run/trireme")?;
    std::fs::write(holder, state.root().as_os_str().as_encoded_bytes()).context("/run/trireme/host-network")?;
    Ok(true)
}

/// A /24 of 10.200.0.0/13 that no interface lies in, the first one tried chosen by the instance's id.
fn free_network(id: &str) -> anyhow::Result<[u8; 3]> {
    let taken = host::addresses().unwrap_or_default();
    let start = u32::from_str_radix(id, 16).unwrap_or_default();
    for offset in 0..2048 {
        let [.., b, c] = (start.wrapping_add(offset) % 2048).to_be_bytes();
        let network = [10, 200 + b, c];
        if !taken.contains(&format!(" 10.{}.{c}.", network[1])) {
            return Ok(network);
        }
    }
    bail!("every network of 10.200.0.0/13 is taken on this machine")
}

fn processes(plan: &Plan<'_>, parts: &BTreeSet<Part>, options: &Options) -> anyhow::Result<Vec<Process>> {
    let has = |part| parts.contains(&part);
    let mut processes = Vec::new();
    if plan.nats {
        processes.push(plan.nats()?);
    }
    if has(Part::Store) {
        for n in 1..=plan.instance.store_members {
            processes.push(plan.store(n)?);
        }
    }
    if has(Part::Apiserver) {
        processes.push(plan.apiserver()?);
    }
    for n in plan.instance.nodes.keys() {
        let node = Node::new(plan, *n);
        if has(Part::Kubelet) {
            processes.push(node.containerd()?);
        }
        if has(Part::Network) {
            processes.push(node.network()?);
        }
        if has(Part::Kubelet) {
            processes.push(node.kubelet()?);
        }
        if has(Part::Proxy) {
            processes.push(node.proxy()?);
        }
    }
    if has(Part::Controllers) {
        processes.push(plan.controllers()?);
    }
    if has(Part::Scheduler) {
        processes.push(plan.scheduler()?);
    }
    for setting in &options.set {
        let mut known = false;
        for process in processes.iter_mut().filter(|p| service(&p.name) == setting.service) {
            setting.apply(&mut process.arguments);
            known = true;
        }
        if !known {
            bail!("--set {}.{}: no service named {} is started", setting.service, setting.flag, setting.service);
        }
    }
    Ok(processes)
}

/// The service of a process: its name without the number.
fn service(process: &str) -> &str {
    process.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('-')
}

/// Starts everything that does not run. Nothing is held up for what it needs, but for kubelets, which refuse a runtime
/// that does not answer.
async fn start(state: &State, processes: &[Process]) -> anyhow::Result<()> {
    let (kubelets, others): (Vec<&Process>, Vec<&Process>) =
        processes.iter().partition(|p| service(&p.name) == "kubelet");
    for process in &others {
        process.start(state)?;
    }
    for runtime in others.iter().filter(|p| service(&p.name) == "containerd") {
        ready::wait(runtime, &others, state, PATIENCE).await?;
    }
    for kubelet in kubelets {
        kubelet.start(state)?;
    }
    Ok(())
}

/// Waits until everything serves.
async fn wait(state: &State, processes: &[Process], screen: &Screen) -> anyhow::Result<()> {
    let all: Vec<&Process> = processes.iter().collect();
    for process in processes {
        screen.step_async(&process.name, ready::wait(process, &all, state, PATIENCE)).await?;
    }
    Ok(())
}

/// The folder of our programs: where this one is.
pub(crate) fn programs() -> anyhow::Result<PathBuf> {
    let this = std::env::current_exe().context("cannot tell where this program is")?;
    this.parent().map(Path::to_owned).context("this program is in no folder")
}

fn images_folder(options: &Options) -> anyhow::Result<PathBuf> {
    match &options.images {
        Some(folder) => Ok(folder.clone()),
        None => Ok(programs()?.parent().map_or_else(PathBuf::new, |p| p.join("images"))),
    }
}
