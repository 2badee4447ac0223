use super::*;
use nix::mount::{MsFlags, mount};
use nix::sys::stat::Mode;
use std::fs;
use std::os::unix::fs::symlink;

/// A kubelet's folder, and beside it whatever else a node has.
struct Node {
    dir: tempfile::TempDir,
}

impl Node {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn folder(&self, name: &str) -> PathBuf {
        fs::create_dir_all(self.path(name)).unwrap();
        self.path(name)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        mounted::unmount_below(self.dir.path()).unwrap();
    }
}

fn bind(from: &Path, to: &Path) {
    mount(Some(from), to, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
}

fn mounts_at(path: &Path) -> usize {
    let all = fs::read_to_string("/proc/self/mountinfo").unwrap();
    all.lines().filter(|line| line.split(' ').nth(4) == path.to_str()).count()
}

fn read(path: PathBuf) -> String {
    fs::read_to_string(path).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn what_a_pod_only_mounts_outlives_it() {
    let node = Node::new();
    fs::write(node.folder("srv/x").join("data"), "kept").unwrap();
    // As on machines with a second disk.
    node.folder("data");
    symlink(node.path("data"), node.path("kubelet")).unwrap();
    let root = VolumeRoot::open(&node.path("kubelet")).unwrap();
    root.make_pod_dirs("u").unwrap();
    subpath::prepare(&node.path("srv"), "x", &node.path("kubelet/pods/u/volume-subpaths/v/c/0")).unwrap();
    let brought = node.folder("data/pods/u/volumes/kubernetes.io~empty-dir/e/in");
    bind(&node.path("srv"), &brought);
    root.tear_down("u").unwrap();
    assert_eq!(read(node.path("srv/x/data")), "kept");
    assert!(!node.path("data/pods/u").exists());
}

#[test]
fn what_is_mounted_while_all_is_removed_stays() {
    let node = Node::new();
    fs::write(node.folder("srv").join("data"), "kept").unwrap();
    bind(&node.path("srv"), &node.folder("pod/a/b"));
    symlink(node.path("srv"), node.path("pod/link")).unwrap();
    assert!(removal::remove(&node.path("pod")).is_err());
    mounted::unmount_below(&node.path("pod")).unwrap();
    removal::remove(&node.path("pod")).unwrap();
    assert_eq!(read(node.path("srv/data")), "kept");
    assert!(!node.path("pod").exists());
}

#[test]
fn the_depth_of_a_tree_is_no_obstacle() {
    let node = Node::new();
    let mut at = nix::fcntl::open(&node.folder("pod/deep"), nix::fcntl::OFlag::O_PATH, Mode::empty()).unwrap();
    for _ in 0..5000 {
        nix::sys::stat::mkdirat(&at, "d", Mode::S_IRWXU).unwrap();
        at = nix::fcntl::openat(&at, "d", nix::fcntl::OFlag::O_PATH, Mode::empty()).unwrap();
    }
    fs::write(node.path("pod/..removed-1"), "of the Pod").unwrap();
    removal::remove(&node.path("pod")).unwrap();
    assert!(!node.path("pod").exists());
}

#[test]
fn what_the_node_has_mounted_in_a_source_stays_mounted() {
    let node = Node::new();
    let srv = node.folder("srv");
    mount(Some("tmpfs"), &srv, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
    mount(None::<&str>, &srv, None::<&str>, MsFlags::MS_SHARED, None::<&str>).unwrap();
    let root = VolumeRoot::open(&node.path("kubelet")).unwrap();
    root.make_pod_dirs("u").unwrap();
    let place = subpath::prepare(&srv, "x", &root.pod_dir("u").join("volume-subpaths/v/c/0")).unwrap();
    let inner = node.folder("srv/x/disk");
    mount(Some("tmpfs"), &inner, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
    assert_eq!(mounts_at(&place.join("disk")), 1, "a bind mount shares what comes later");
    root.tear_down("u").unwrap();
    assert_eq!(mounts_at(&inner), 1);
}

#[test]
fn no_uid_leads_elsewhere() {
    let node = Node::new();
    let root = VolumeRoot::open(&node.path("kubelet")).unwrap();
    root.make_pod_dirs("u").unwrap();
    for uid in ["", ".", "..", "../pods", "/tmp"] {
        root.tear_down(uid).unwrap();
    }
    assert!(root.pod_dir("u").exists());
}

#[test]
fn a_sub_path_stays_in_its_volume() {
    let node = Node::new();
    let volume = node.folder("volume");
    node.folder("other");
    symlink("/etc", volume.join("out")).unwrap();
    symlink("../other", volume.join("beside")).unwrap();
    symlink("missing", volume.join("nowhere")).unwrap();
    for (n, sub) in ["out/passwd", "beside", "beside/x", "nowhere/x", "../other", "/etc"].into_iter().enumerate() {
        assert!(subpath::prepare(&volume, sub, &node.path(&format!("place/{n}"))).is_err(), "{sub}");
    }
    assert_eq!(fs::read_dir(node.path("other")).unwrap().count(), 0);
    fs::set_permissions(&volume, fs::Permissions::from_mode(0o2777)).unwrap();
    let place = subpath::prepare(&volume, "in/side", &node.path("place/in")).unwrap();
    assert_eq!(mode(&volume.join("in/side")), 0o2777, "as its volume");
    fs::write(volume.join("in/side/f"), "seen").unwrap();
    assert_eq!(read(place.join("f")), "seen");
}

#[test]
fn a_file_that_was_renamed_keeps_its_content() {
    let node = Node::new();
    let (volume, place) = (node.folder("volume"), node.path("place/0"));
    fs::write(volume.join("app.log"), "old").unwrap();
    subpath::prepare(&volume, "app.log", &place).unwrap();
    fs::rename(volume.join("app.log"), volume.join("app.log.1")).unwrap();
    fs::write(volume.join("app.log"), "new").unwrap();
    for _ in 0..3 {
        subpath::prepare(&volume, "app.log", &place).unwrap();
    }
    assert_eq!(read(volume.join("app.log.1")), "old");
    assert_eq!(read(place.clone()), "new");
    assert_eq!(mounts_at(&place), 1);
    // Now it is a folder, and then a file again.
    fs::remove_file(volume.join("app.log")).unwrap();
    fs::write(node.folder("volume/app.log").join("f"), "within").unwrap();
    subpath::prepare(&volume, "app.log", &place).unwrap();
    assert_eq!(read(place.join("f")), "within");
    fs::rename(volume.join("app.log"), volume.join("folder")).unwrap();
    fs::write(volume.join("app.log"), "file").unwrap();
    subpath::prepare(&volume, "app.log", &place).unwrap();
    assert_eq!((read(place.clone()), mounts_at(&place)), ("file".into(), 1));
    assert_eq!(read(volume.join("folder/f")), "within");
}

#[test]
fn a_sub_path_may_be_a_socket_or_a_pipe() {
    let node = Node::new();
    let volume = node.folder("volume");
    let _socket = std::os::unix::net::UnixListener::bind(volume.join("socket")).unwrap();
    nix::unistd::mkfifo(&volume.join("pipe"), Mode::S_IRWXU).unwrap();
    for name in ["socket", "pipe"] {
        let place = node.path("place").join(name);
        for _ in 0..2 {
            subpath::prepare(&volume, name, &place).unwrap();
        }
        let ino = |path: &Path| fs::symlink_metadata(path).unwrap().ino();
        assert_eq!((ino(&place), mounts_at(&place)), (ino(&volume.join(name)), 1));
    }
    // Another pipe by the same name: nobody waits for its other end.
    fs::rename(volume.join("pipe"), volume.join("old")).unwrap();
    nix::unistd::mkfifo(&volume.join("pipe"), Mode::S_IRWXU).unwrap();
    subpath::prepare(&volume, "pipe", &node.path("place/pipe")).unwrap();
}

#[test]
fn nobody_else_gets_into_a_pods_folder() {
    let node = Node::new();
    let old = node.folder("kubelet/pods/u/volumes");
    for folder in ["kubelet/pods", "kubelet/pods/u", "kubelet/pods/u/volumes"] {
        fs::set_permissions(node.path(folder), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let root = VolumeRoot::open(&node.path("kubelet")).unwrap();
    root.make_pod_dirs("u").unwrap();
    let fresh = VolumeRoot::open(&node.path("new/kubelet")).unwrap();
    fresh.make_pod_dirs("w").unwrap();
    let mut all = vec![node.path("kubelet/pods"), root.pod_dir("u"), old];
    all.extend([node.path("new/kubelet"), node.path("new/kubelet/pods"), fresh.pod_dir("w")]);
    all.extend(["volumes", "plugins", "containers"].map(|name| fresh.pod_dir("w").join(name)));
    for path in all {
        assert_eq!(mode(&path) & 0o027, 0, "{}", path.display());
    }
}
