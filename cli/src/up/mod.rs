//! `trireme up`: starts what is not running yet, waits until it serves, and says what runs where.
//!
//! Order: checks that can refuse, then names, ports and certificates (all kept from the last time), then the user's flags,
//! then the kernel's bridge and namespaces, then every process at once, since each waits for what it needs by itself; then
//! waiting, image import, and the examples.

mod api;
mod examples;
mod images;
mod node;
mod options;
mod place;
mod ports;
mod preflight;
mod screen;
mod services;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow, bail};
use trireme_pki::Pki;

use self::{node::Node, options::Part, ports::Ports, screen::Screen, services::Plan};
pub(crate) use self::{node::cleanups, options::Options};
use crate::{
    host, lock,
    process::{self, Process},
    program, ready, shell,
    state::{Instance, State},
};

/// How long a service may take until it serves.
const PATIENCE: Duration = Duration::from_secs(60);
/// The version of `instance.json`.
const VERSION: u32 = 1;

/// Brings an instance up.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    bring_up(options).map_err(|error| match left_running(&options.state_dir) {
        Some(hint) => anyhow!("{error:#}\n{hint}"),
        None => error,
    })
}

fn bring_up(options: &Options) -> anyhow::Result<()> {
    let begun = Instant::now();
    let parts = options.parts();
    let existing = State::existing(&options.state_dir);
    let known = existing.as_ref().map(State::instance).transpose()?.flatten();
    let nodes = known.as_ref().map_or(0, |known| known.nodes.len()).max(options.nodes.into());
    let on_node = nodes > 0 && preflight::on_node(&parts);
    preflight::check(&parts, nodes)?;
    preflight::store(&parts, options, existing.as_ref())?;
    let programs = programs()?;
    let archives = match on_node && parts.contains(&Part::Kubelet) {
        true => images::archives(&preflight::images(options, &programs))?,
        false => Vec::new(),
    };
    let whole = options.only.is_empty() && nodes > 0;
    let examples = if whole { examples::wanted(options, known.as_ref())? } else { None };
    // One provider for every TLS connection of this process; a second install is refused and harmless.
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let state = State::open(&options.state_dir)?;
    let _lock = lock::take(state.root())?;
    // Networks and the host's own are shared out one after another, until what takes them shows.
    let machine = on_node.then(|| lock::take(Path::new("/run/trireme"))).transpose()?;
    let mut instance = instance(&state, options, on_node, Path::new(place::HOLDER))?;
    let names = services::port_names(instance.store_members, instance.nodes.keys().copied());
    let ports = Ports::choose(&state, &names, options)?;
    let pki = Pki::open(&state.pki())?;
    let plan = Plan {
        state: &state,
        instance: &instance,
        ports: &ports,
        pki: &pki,
        programs,
        otlp: options.otlp.as_deref(),
        // One that runs goes on to be used, whichever parts are asked for now.
        nats: process::pid(&state, "nats")?.is_some()
            || parts.contains(&Part::Nats) && program::find("nats-server").is_some(),
    };
    pki.issue(&services::apiserver_identity(&instance))?;
    crate::pki::control_plane(&pki, &[instance.host_address().to_string()])?;
    let server = plan.server(std::net::Ipv4Addr::LOCALHOST)?;
    crate::pki::admin(&pki, &server)?.write(&state.kubeconfig())?;
    let processes = processes(&plan, &parts, options)?;
    preflight::flags(&processes, &plan.programs, options)?;
    if !instance.nodes.is_empty() {
        host::ensure_bridge(&instance)?;
        for (n, _) in instance.nodes.iter().filter(|(_, shares)| !**shares) {
            host::ensure_namespace(&instance, *n)?;
        }
    }

    let screen = Screen::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        start(&state, &processes, &screen).await?;
        drop(machine);
        wait(&state, &processes, &screen).await?;
        if parts.contains(&Part::Kubelet) {
            for n in instance.nodes.keys() {
                let node = Node::new(&plan, *n);
                screen.step(&format!("images of {}", node.name()), images::import(&node.socket(), &archives))?;
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
    if let Some(folder) = examples {
        screen.step("examples", examples::apply(&state.kubeconfig(), &folder))?;
    }
    let place = if options.only.is_empty() { place::summary(&instance) } else { String::new() };
    screen.summary(&state, &processes, &server, &place, begun.elapsed())?;
    if whole && !instance.was_up {
        instance.was_up = true;
        state.write_instance(&instance)?;
    }
    Ok(())
}

/// What a failed `up` leaves behind, and how to end it.
fn left_running(folder: &Path) -> Option<String> {
    let count = State::existing(folder).and_then(|state| process::count(&state).ok()).filter(|count| *count > 0)?;
    let down = match folder == Path::new(options::STATE_DIR) {
        true => "trireme down".to_owned(),
        false => format!("trireme down --state-dir {}", shell::quoted(folder)),
    };
    let (keep, them) = if count == 1 { ("service keeps", "it") } else { ("services keep", "them") };
    Some(format!("{count} {keep} running; `{down}` stops {them}"))
}

/// What the instance was, with what the command line adds to it. `holder` says who has this machine's network.
fn instance(state: &State, options: &Options, on_node: bool, holder: &Path) -> anyhow::Result<Instance> {
    let known = state.instance()?;
    let store_members = match (&known, options.store_members) {
        (Some(known), Some(wanted)) if known.store_members != wanted => {
            bail!("this instance has {} store members: use another --state-dir for {wanted}", known.store_members)
        }
        (Some(known), _) => known.store_members,
        (None, wanted) => wanted.unwrap_or(1),
    };
    let mut nodes: BTreeMap<u8, bool> = known.as_ref().map(|k| k.nodes.clone()).unwrap_or_default();
    if on_node {
        let shares = nodes.get(&1) != Some(&false) && place::take_host_network(state, holder)?;
        for n in 1..=options.nodes {
            nodes.entry(n).or_insert(n == 1 && shares);
        }
        // Another instance may have taken it while this one was down; `down` left nothing of the node there.
        if !shares && !process::runs_any(state)? {
            nodes.entry(1).and_modify(|shares| *shares = false);
        }
    }
    let was_up = known.as_ref().is_some_and(|known| known.was_up);
    let id = state.id();
    let network = match known {
        Some(known) => known.network,
        None => free_network(&id)?,
    };
    let instance = Instance { version: VERSION, id, network, store_members, nodes, was_up };
    state.write_instance(&instance)?;
    Ok(instance)
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

/// Starts everything that does not run, and anew what runs with other flags or of another build. Nothing is held up for
/// what it needs, but for kubelets, which refuse a runtime that does not answer.
async fn start(state: &State, processes: &[Process], screen: &Screen) -> anyhow::Result<()> {
    let changed: Vec<_> = processes.iter().filter_map(|p| Some((&p.name, p.changed(state)?))).collect();
    process::stop(state, &changed.iter().map(|(name, _)| (*name).clone()).collect::<Vec<_>>())?;
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
    for (name, why) in changed {
        screen.say(&format!("{name}: restarted, {why}"));
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

#[cfg(test)]
mod tests {
    use super::options::options;
    use super::*;
    use crate::process::Ready;

    fn sleeper(name: &str) -> Process {
        Process {
            name: name.to_owned(),
            program: "/bin/sleep".into(),
            arguments: vec!["600".to_owned()],
            environment: vec![],
            namespace: None,
            ready: Ready::Tcp(1),
        }
    }

    fn stop_all(state: &State) {
        process::stop(state, &process::names(state).unwrap()).unwrap();
    }

    #[test]
    fn what_a_failed_up_leaves_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("my state");
        assert_eq!(left_running(&root), None);
        let state = State::open(&root).unwrap();
        assert_eq!(left_running(&root), None);
        for (name, said) in [("a", "1 service keeps running; "), ("b", "2 services keep running; ")] {
            sleeper(name).start(&state).unwrap();
            let left = left_running(&root).unwrap();
            assert!(left.starts_with(said) && left.contains(&format!("--state-dir '{}'", root.display())), "{left}");
        }
        stop_all(&state);
        assert_eq!(left_running(&root), None);
    }

    /// One instance at a time, and only one that has nodes.
    #[test]
    fn this_machines_network_is_taken_by_who_needs_it() {
        let folder = tempfile::tempdir().unwrap();
        let holder = folder.path().join("host-network");
        let [a, b] = ["a", "b"].map(|name| State::open(&folder.path().join(name)).unwrap());
        let up = |state: &State, nodes: &str| {
            let options = options(&[&format!("--nodes={nodes}")]);
            instance(state, &options, nodes != "0", &holder).unwrap().nodes
        };
        assert_eq!(up(&a, "0"), [].into());
        assert!(!holder.exists());
        assert_eq!(up(&a, "2"), [(1, true), (2, false)].into());
        sleeper("kubelet-1").start(&a).unwrap();
        assert_eq!(up(&b, "1"), [(1, false)].into(), "a has it");
        assert_eq!(up(&a, "1"), [(1, true), (2, false)].into());
        stop_all(&a);
        std::fs::remove_dir_all(b.root()).unwrap();
        let b = State::open(b.root()).unwrap();
        assert_eq!(up(&b, "1"), [(1, true)].into(), "a is down");
        sleeper("kubelet-1").start(&b).unwrap();
        assert_eq!(up(&a, "1"), [(1, false), (2, false)].into(), "b took it while a was down");
        stop_all(&b);
        assert_eq!(up(&b, "1"), [(1, true)].into());
        assert_eq!(up(&a, "1"), [(1, false), (2, false)].into(), "containers may live in the node's own");
    }
}
