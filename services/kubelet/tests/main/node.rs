//! A node for a test: containerd with its own folders and Pod network, and the kubelet's own program.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};
use trireme_kubelet::cri::Cri;

/// Waits for what `look` finds; panics with what was awaited after the deadline.
pub(crate) async fn until<T, F>(what: &str, seconds: u64, mut look: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let deadline = Instant::now() + Duration::from_secs(seconds);
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {seconds} s: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub(crate) struct Node {
    dir: tempfile::TempDir,
    containerd: Child,
    kubelet: Option<Child>,
    pub(crate) id: String,
    /// Of `/healthz` for everybody; none by default.
    pub(crate) healthz_port: u16,
}

const CNI: &str = "/usr/lib/cni";

impl Node {
    /// Starts containerd and imports the images of `cargo xtask images`.
    pub(crate) async fn start() -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let id = format!("tk{}-{number}", std::process::id());
        let dir = tempfile::Builder::new().prefix("kubelet-").tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for folder in ["cni", "manifests", "logs"] {
            std::fs::create_dir_all(path(folder)).unwrap();
        }
        let third = (std::process::id() % 200) as u16 + number;
        let network = serde_json::json!({"cniVersion": "0.4.0", "name": id, "plugins": [{
            "type": "ptp",
            "ipam": {"type": "host-local", "dataDir": path("ipam"), "ranges": [[{"subnet": format!("10.253.{}.0/24", third % 256)}]]},
        }]});
        std::fs::write(path("cni/10-test.conflist"), network.to_string()).unwrap();
        let config = format!(
            r#"version = 2
root = "{root}"
state = "{state}"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
address = "{socket}"
[ttrpc]
address = "{socket}.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "trireme.local/pause:1"
disable_apparmor = true
restrict_oom_score_adj = true
stream_server_address = "127.0.0.1"
stream_server_port = "0"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{CNI}"
conf_dir = "{cni}"
"#,
            root = path("root").display(),
            state = path("state").display(),
            socket = path("containerd.sock").display(),
            cni = path("cni").display(),
        );
        std::fs::write(path("containerd.toml"), config).unwrap();
        let log = std::fs::File::create(path("containerd.log")).unwrap();
        let containerd = Command::new("containerd")
            .arg("--config")
            .arg(path("containerd.toml"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("containerd is installed");
        let node = Self { dir, containerd, kubelet: None, id, healthz_port: 0 };
        until("containerd serves CRI", 20, || async { Cri::connect(&node.endpoint()).await.ok() }).await;
        for image in ["pause", "echo"] {
            let archive = target().join("images").join(format!("{image}.tar"));
            assert!(archive.exists(), "{} is missing: run `cargo xtask images`", archive.display());
            let imported = node.ctr(&["images", "import", &archive.to_string_lossy()]);
            assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
        }
        node
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("unix://{}", self.path("containerd.sock").display())
    }

    pub(crate) fn ctr(&self, arguments: &[&str]) -> std::process::Output {
        let socket = self.path("containerd.sock");
        Command::new("ctr").arg("-a").arg(socket).args(["-n", "k8s.io"]).args(arguments).output().unwrap()
    }

    /// Starts the kubelet's program, without a kubeconfig.
    pub(crate) fn start_kubelet(&mut self) {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.path("kubelet.log")).unwrap();
        let flag = |name: &str, value: &Path| format!("--{name}={}", value.display());
        let child = Command::new(env!("CARGO_BIN_EXE_trireme-kubelet"))
            .args([
                "--hostname-override=node".to_owned(),
                "--node-ip=127.0.0.1".to_owned(),
                "--address=127.0.0.1".to_owned(),
                "--port=0".to_owned(),
                format!("--healthz-port={}", self.healthz_port),
                "-v=4".to_owned(),
                format!("--container-runtime-endpoint={}", self.endpoint()),
                format!("--cgroup-root={}", self.id),
                flag("root-dir", &self.path("kubelet")),
                flag("pod-log-dir", &self.path("logs")),
                flag("pod-manifest-path", &self.path("manifests")),
            ])
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.kubelet = Some(child);
    }

    /// Ends the kubelet, in order or not.
    pub(crate) fn stop_kubelet(&mut self, signal: Signal) {
        if let Some(mut child) = self.kubelet.take() {
            let _ = kill(Pid::from_raw(child.id() as i32), signal);
            let _ = child.wait();
        }
    }

    /// Writes a manifest of a static Pod.
    pub(crate) fn put(&self, name: &str, manifest: &serde_json::Value) {
        let written = self.path(&format!("{name}.tmp"));
        std::fs::write(&written, manifest.to_string()).unwrap();
        std::fs::rename(written, self.path("manifests").join(format!("{name}.yaml"))).unwrap();
    }

    pub(crate) fn remove(&self, name: &str) {
        std::fs::remove_file(self.path("manifests").join(format!("{name}.yaml"))).unwrap();
    }

    pub(crate) fn kubelet_log(&self) -> String {
        std::fs::read_to_string(self.path("kubelet.log")).unwrap_or_default()
    }

    /// The port that the kubelet chose.
    pub(crate) async fn port(&self) -> u16 {
        until("the kubelet serves", 20, || async {
            let log = self.kubelet_log();
            let line = log.lines().rev().find(|line| line.contains("serving"))?.to_owned();
            line.split("port=").nth(1)?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        })
        .await
    }

    fn clean(&mut self) {
        // While the kubelet runs it takes its Pods down itself, network and all.
        if self.kubelet.is_some() {
            let _ = std::fs::remove_dir_all(self.path("manifests"));
            let deadline = Instant::now() + Duration::from_secs(15);
            while Instant::now() < deadline && !self.ctr(&["containers", "ls", "-q"]).stdout.is_empty() {
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        self.stop_kubelet(Signal::SIGTERM);
        let listed = self.ctr(&["tasks", "ls", "-q"]);
        for task in String::from_utf8_lossy(&listed.stdout).lines() {
            self.ctr(&["tasks", "kill", "-s", "SIGKILL", "-a", task]);
            self.ctr(&["tasks", "rm", "-f", task]);
        }
        let _ = kill(Pid::from_raw(self.containerd.id() as i32), Signal::SIGTERM);
        let _ = self.containerd.wait();
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mut ours: Vec<&str> = mounts
            .lines()
            .filter_map(|line| line.split(' ').nth(1))
            .filter(|point| Path::new(point).starts_with(self.dir.path()))
            .collect();
        ours.sort_by_key(|point| std::cmp::Reverse(point.len()));
        for point in ours {
            let _ = nix::mount::umount2(point, nix::mount::MntFlags::MNT_DETACH);
        }
        remove_cgroups(Path::new("/sys/fs/cgroup"), &self.id, 2);
    }
}

fn remove_cgroups(dir: &Path, id: &str, depth: usize) {
    fn remove(dir: &Path) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                remove(&entry.path());
            }
        }
        let _ = std::fs::remove_dir(dir);
    }
    remove(&dir.join(id));
    if depth > 0 {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) && entry.path().join("tasks").exists() && depth == 2 {
                remove_cgroups(&entry.path(), id, 0);
            }
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the kubelet's log\n{}", self.kubelet_log());
        }
        self.clean();
    }
}

/// The target folder that `cargo xtask images` wrote to.
fn target() -> PathBuf {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_trireme-kubelet"));
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let mut candidates = program.ancestors().map(Path::to_owned).chain([default.clone()]);
    candidates.find(|dir| dir.join("images").is_dir()).unwrap_or(default)
}
