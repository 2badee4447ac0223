//! The README's two commands on a bare machine: a fresh Debian root in its own mount, PID, host name and network
//! namespaces, with git's clone and Rust added and nothing else.
//!
//! It downloads, compiles everything for release, and takes about half an hour on two cores, so the gate leaves it
//! out: `cargo xtask e2e --run-ignored only bare`. `$TRIREME_BARE_TARGET` names a folder of this machine that becomes the
//! clone's target folder, so that the next run compiles less.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "half an hour should say what it does")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;
use trireme_testkit::poll;

use crate::support::is_ready;

/// What Debian's own packages `rustc` and `cargo` bring along: a linker, and the certificates of the crate registry.
const WITH_RUST: &str = "gcc,libc6-dev,ca-certificates";
/// What any machine on this network has: its name servers, the certificates it trusts, where its packages come from.
const OF_THE_HOST: [&str; 3] = ["/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt", "/etc/pip.conf"];
/// The machine's addresses: ours, its own, the network.
const NETWORK: [&str; 3] = ["10.254.77.1", "10.254.77.2", "10.254.77.0/24"];
const NAMESPACE: &str = "trireme-bare";
const LINK: &str = "tri-bare";

#[test]
#[ignore = "compiles everything for release on a machine made for it: half an hour, and needs the network"]
fn two_commands_on_a_bare_machine() -> anyhow::Result<()> {
    let mut machine = Machine::new()?;
    let outcome = check(&mut machine);
    if outcome.is_err() {
        eprintln!("{}", machine.run("tail -n 20 trireme/.trireme/logs/*.log")?);
    }
    outcome
}

fn check(machine: &mut Machine) -> anyhow::Result<()> {
    let said = machine.run("cd ~/trireme && cargo xtask up")?;
    println!("{said}");
    // What it tells its user to type.
    let export = |name: &str| said.lines().map(str::trim).find(|l| l.starts_with(&format!("export {name}=")));
    let exports = [export("PATH"), export("KUBECONFIG"), export("CONTAINERD_ADDRESS")];
    let exports: Vec<&str> = exports.into_iter().map(|e| e.context("no such line")).collect::<Result<_, _>>()?;
    machine.shell = exports.join("; ");

    let nodes = machine.json("kubectl get nodes -o json")?;
    assert!(nodes.len() == 1 && nodes.iter().all(is_ready), "{nodes:?}");
    let pods = poll::until("the example's Pods", Duration::from_secs(60), || {
        let pods = machine.json("kubectl get pods -A -o json")?;
        if pods.len() != 2 || !pods.iter().all(is_ready) {
            bail!("{}", machine.run("kubectl get pods -A")?);
        }
        Ok(pods)
    })?;
    println!("{}", machine.run("kubectl get nodes,pods -A")?);

    let tasks = machine.run("ctr -n k8s.io tasks ls")?;
    for pod in &pods {
        let id = pod["status"]["containerStatuses"][0]["containerID"].as_str().context("containerID")?;
        let id = id.strip_prefix("containerd://").context("containerd://")?;
        assert!(tasks.lines().any(|l| l.starts_with(id) && l.contains("RUNNING")), "{id} in:\n{tasks}");
    }

    let address = machine.run("kubectl get service web -o jsonpath='{.spec.clusterIP}'")?;
    let ask = format!("exec 3<>/dev/tcp/{address}/80 && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3");
    poll::until("an answer from both Pods", Duration::from_secs(30), || {
        let answers: String = (0..16).map(|_| machine.run(&ask)).collect::<anyhow::Result<_>>()?;
        let silent = pods.iter().filter_map(|p| p["metadata"]["name"].as_str()).find(|name| !answers.contains(*name));
        silent.map_or(Ok(()), |name| bail!("{name} did not answer: {answers}"))
    })?;

    println!("{}", machine.run("cd ~/trireme && cargo xtask up")?);
    println!("{}", machine.run("cd ~/trireme && target/release/trireme down")?);
    // By their names: arguments hold the same words, of the shell that asks too.
    let left = machine.run("ps -eo stat=,comm= | grep -E '^[^Z]\\S* +(trireme-|containerd|nats-server)' || true")?;
    assert_eq!(left, "", "`down` stops it all");
    println!("{}", machine.run("cd ~/trireme && cargo xtask up --no-build")?);
    assert_eq!(
        machine.json("kubectl get pods -A -o json")?.iter().map(uid).collect::<Vec<_>>(),
        pods.iter().map(uid).collect::<Vec<_>>(),
        "the next `up` finds everything as it was"
    );
    machine.run("cd ~/trireme && target/release/trireme down").map(drop)
}

fn uid(object: &Value) -> Option<&str> {
    object["metadata"]["uid"].as_str()
}

/// A root of its own with a process that holds its namespaces. Dropped, everything in it is killed and removed.
struct Machine {
    root: tempfile::TempDir,
    init: Child,
    /// The same process as the host numbers it.
    pid: u32,
    /// What its user has typed into the shell before.
    shell: String,
}

impl Machine {
    fn new() -> anyhow::Result<Self> {
        let root = tempfile::Builder::new().prefix("trireme-bare-").tempdir()?;
        let path = root.path();
        host(Command::new("debootstrap").args(["--variant=minbase", "--include", WITH_RUST, "bookworm"]).arg(path))?;
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let clone = path.join("root/trireme");
        host(Command::new("git").args(["clone", "--quiet"]).arg(&repository).arg(&clone))?;
        let _ = fs::remove_file(path.join("etc/resolv.conf"));
        for file in OF_THE_HOST {
            if Path::new(file).exists() {
                fs::copy(file, path.join(file.trim_start_matches('/'))).context(file)?;
            }
        }
        let sysroot = PathBuf::from(host(Command::new("rustc").args(["--print", "sysroot"]))?.trim());
        fs::create_dir_all(path.join("opt/rust"))?;

        let target = std::env::var("TRIREME_BARE_TARGET").ok().map(|folder| {
            format!("mkdir -p {folder} $root/root/trireme/target; mount --bind {folder} $root/root/trireme/target;")
        });

        network()?;
        let script = format!(
            "set -e; root={root}; mount --bind $root $root; mount --bind {rust} $root/opt/rust; \
             mount -o remount,bind,ro $root/opt/rust; mount -t sysfs sysfs $root/sys; \
             mount --rbind /sys/fs/cgroup $root/sys/fs/cgroup; mount --rbind /dev $root/dev; \
             mount -t proc proc $root/proc; mount -t tmpfs tmpfs $root/run; mount -t tmpfs tmpfs $root/tmp; \
             {target} cd $root; pivot_root . .; umount -l .; hostname bare; touch /run/made; exec bash -c 'while :; do sleep 60; done'",
            root = path.display(),
            rust = sysroot.display(),
            target = target.unwrap_or_default(),
        );
        let init = Command::new("nsenter")
            .arg(format!("--net=/run/netns/{NAMESPACE}"))
            .args(["unshare", "--mount", "--pid", "--uts", "--fork", "--kill-child", "--propagation", "private"])
            .args(["sh", "-c", &script])
            .stdin(Stdio::null())
            .spawn()?;
        let mut machine = Self { root, pid: init.id(), init, shell: "true".to_owned() };
        machine.pid = poll::until("the machine's first process", Duration::from_secs(10), || machine.first_process())?;
        poll::until("the machine", Duration::from_secs(10), || machine.run("test -e /run/made").map(drop))?;
        Ok(machine)
    }

    /// `unshare` forks: its child is the machine's process 1.
    fn first_process(&self) -> anyhow::Result<u32> {
        let file = format!("/proc/{0}/task/{0}/children", self.init.id());
        let children = fs::read_to_string(&file)?;
        children.split_whitespace().next().with_context(|| format!("{file} is empty"))?.parse().map_err(Into::into)
    }

    /// What a command line of the machine's root prints.
    fn run(&self, line: &str) -> anyhow::Result<String> {
        let pid = self.pid.to_string();
        let path = "/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        let mut command = Command::new("nsenter");
        command.args(["--target", &pid, "--mount", "--pid", "--uts", "--net", "--root"]);
        command.args(["bash", "-c", &format!("cd /root; {}; {line}", self.shell)]).env_clear().current_dir("/");
        command.envs([("PATH", path), ("HOME", "/root")]);
        host(&mut command)
    }

    /// The items that a command line prints as a JSON list.
    fn json(&self, line: &str) -> anyhow::Result<Vec<Value>> {
        let list: Value = serde_json::from_str(&self.run(line)?)?;
        Ok(list["items"].as_array().context("not a list")?.clone())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.init.kill();
        let _ = self.init.wait();
        let _ = host(Command::new("ip").args(["link", "delete", LINK]));
        let _ = host(Command::new("ip").args(["netns", "delete", NAMESPACE]));
        let _ = host(Command::new("nft").args(["delete", "table", "ip", NAMESPACE]));
        eprintln!("{} is removed", self.root.path().display());
    }
}

/// The machine's network: one link to this host, which translates its addresses.
fn network() -> anyhow::Result<()> {
    let [ours, its, all] = NETWORK;
    let lines = format!(
        "set -e; ip netns add {NAMESPACE}; ip link add {LINK} type veth peer name eth0 netns {NAMESPACE}; \
         ip address add {ours}/24 dev {LINK}; ip link set {LINK} up; \
         ip -n {NAMESPACE} link set lo up; ip -n {NAMESPACE} address add {its}/24 dev eth0; \
         ip -n {NAMESPACE} link set eth0 up; ip -n {NAMESPACE} route add default via {ours}; \
         sysctl -qw net.ipv4.ip_forward=1; nft add table ip {NAMESPACE}; \
         nft 'add chain ip {NAMESPACE} out {{ type nat hook postrouting priority 100; }}'; \
         nft add rule ip {NAMESPACE} out ip saddr {all} masquerade"
    );
    host(Command::new("sh").args(["-c", &lines])).map(drop)
}

fn host(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{command:?}: {}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(text)
}
