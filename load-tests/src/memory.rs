//! What each service holds when nothing happens.

use std::time::Duration;

use anyhow::Context as _;
use trireme_testkit::Cluster;

/// How long nothing happens before it is looked.
const IDLE: Duration = Duration::from_secs(30);

/// Prints resident memory a process (proc(5): `smaps_rollup`), and how much of it is no file's.
pub(crate) fn measure(cluster: &Cluster) -> anyhow::Result<()> {
    std::thread::sleep(IDLE);
    for process in cluster.processes()? {
        let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", cluster.pid(&process)?))?;
        let (resident, anonymous) = (kib(&rollup, "Rss:")?, kib(&rollup, "Anonymous:")?);
        println!("| idle memory of {process} | {:.1} MiB, {:.1} anonymous |", resident / 1024.0, anonymous / 1024.0);
    }
    Ok(())
}

fn kib(rollup: &str, name: &str) -> anyhow::Result<f64> {
    let line = rollup.lines().find_map(|l| l.strip_prefix(name)).context(name.to_owned())?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}
