//! Replays the golden records: what the real API server and the real etcd answered.
//!
//! The records lie outside the repository (`$TRIREME_GOLDEN`, by default `../shared/golden`); the ledgers of what
//! matches are committed and only grow.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};

use crate::{
    build, ledger, paths,
    run::{command, run as execute},
};

/// More than this many lost at once is no accident of the record.
const MOST_AGAIN: usize = 40;

/// What to replay.
#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// Writes what is new into the ledgers.
    #[arg(long)]
    update: bool,
    /// Only these groups of exchanges, by the start of their file names (`01`, `03-verbs`).
    #[arg(long, value_delimiter = ',')]
    groups: Vec<String>,
    /// Only the records of the API server, or only those of the store.
    #[arg(long)]
    only: Option<What>,
    /// Prints the first differences of each group.
    #[arg(long, default_value_t = 0)]
    fail: usize,
    /// Writes every difference of the exchanges there, as JSON lines.
    #[arg(long)]
    report: Option<PathBuf>,
}

/// Which of the records.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    Exchanges,
    Store,
}

/// A cluster of store and API server alone, stopped when dropped.
struct Part {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Part {
    fn start(only: &str, members: u8) -> anyhow::Result<Self> {
        let part = Self { folder: tempfile::tempdir()?, program: build::TESTED.folder().join("trireme") };
        if !part.program.exists() {
            bail!("nothing is built: run `cargo xtask build --dev` first");
        }
        execute(
            command(&part.program)
                .args(["up", "--only", only, "--no-examples", "--store-members", &members.to_string(), "--state-dir"])
                .arg(part.state())
                .stdout(Stdio::null()),
        )?;
        Ok(part)
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }
}

impl Options {
    /// What the gate replays: every group that is served. Cases of 10 (custom resources) and some of 09 (policies in CEL)
    /// would wait 20 s each for what is not established yet.
    pub(crate) fn gate() -> Self {
        let groups = ["01", "02", "03", "04", "05", "06", "07", "08", "11", "12"];
        Self { groups: groups.map(str::to_owned).into(), ..Self::default() }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Err(e) =
            execute(command(&self.program).args(["down", "--state-dir"]).arg(self.state()).stdout(Stdio::null()))
        {
            eprintln!("golden: {e:#}");
        }
    }
}

/// Replays, prints matched/total a group, and checks the ledgers.
///
/// # Errors
/// No records where they should be, something that does not start, or a ledger that shrank.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let Some(records) = paths::golden() else {
        bail!("no golden records: set TRIREME_GOLDEN to their folder (by default ../shared/golden)");
    };
    if options.only != Some(What::Store) {
        exchanges(&records, options)?;
    }
    if options.only != Some(What::Exchanges) {
        for members in [1, 3] {
            store(&records, options, members)?;
        }
    }
    Ok(())
}

fn exchanges(records: &Path, options: &Options) -> anyhow::Result<()> {
    let files = files(&records.join("exchanges"), "jsonl", &options.groups)?;
    let part = Part::start("store,apiserver", 1)?;
    let passed = part.folder.path().join("passed");
    let replay = |only: Option<&str>| {
        let mut replay = command(paths::tool("python3"));
        replay.arg(records.join("golden.py")).arg("replay").arg("--kubeconfig").arg(part.state().join("kubeconfig"));
        replay.arg("--passed").arg(&passed).args(["--fail", &options.fail.to_string()]);
        if let Some(only) = only {
            replay.args(["--only", only]);
        } else if let Some(report) = &options.report {
            replay.arg("--report").arg(report);
        }
        // Its exit code says whether everything matched; the ledger says whether enough did.
        replay.args(&files).status().context("golden.py")?;
        lines(&passed)
    };
    let matched = again("exchanges", replay(None)?, Some(&ids(&files)?), |lost| replay(Some(lost)))?;
    check("exchanges", &matched, options)
}

fn store(records: &Path, options: &Options, members: u8) -> anyhow::Result<()> {
    let part = Part::start("store", members)?;
    let pki = part.state().join("pki");
    let endpoint = leader(&part.state(), members)?;
    let passed = part.folder.path().join("passed");
    let replay = |only: Option<&str>| {
        let mut replay = command(paths::tool("python3"));
        replay.arg(records.join("store/store.py")).arg("replay").arg("--endpoint").arg(&endpoint);
        replay.arg("--ca").arg(pki.join("store-ca.crt")).arg("--cert").arg(pki.join("operator.crt"));
        replay.arg("--key").arg(pki.join("operator.key")).arg("--passed").arg(&passed);
        if let Some(only) = only {
            replay.args(["--only", only]);
        }
        replay.arg(records.join("store/cases")).status().context("store.py")?;
        lines(&passed)
    };
    let name = format!("store-{members}");
    let matched = again(&name, replay(None)?, None, |lost| replay(Some(lost)))?;
    check(&name, &matched, options)
}

/// What of the ledger did not match is replayed once more, alone: the record itself differs in one of a thousand from
/// run to run. A rule that broke fails again.
fn again(
    name: &str,
    mut matched: BTreeSet<String>,
    replayed: Option<&BTreeSet<String>>,
    replay: impl FnOnce(&str) -> anyhow::Result<BTreeSet<String>>,
) -> anyhow::Result<BTreeSet<String>> {
    let known = ledger::read(&ledger_file(name))?;
    // What was left out this time is neither lost nor found.
    matched.extend(known.iter().filter(|id| replayed.is_some_and(|r| !r.contains(*id))).cloned());
    let lost: Vec<String> = known.difference(&matched).map(|id| escaped(id)).collect();
    if !lost.is_empty() && lost.len() <= MOST_AGAIN {
        matched.extend(replay(&format!("^({})$", lost.join("|")))?);
    }
    Ok(matched)
}

/// A case's id as a regular expression that matches it alone.
fn escaped(id: &str) -> String {
    id.chars().flat_map(|c| (!c.is_alphanumeric() && c.is_ascii()).then_some('\\').into_iter().chain([c])).collect()
}

fn ledger_file(name: &str) -> PathBuf {
    paths::root().join("tests/golden").join(format!("{name}.ledger"))
}

/// The client address of the member that leads, by its own metrics.
fn leader(state: &Path, members: u8) -> anyhow::Result<String> {
    let file = state.join("ports.json");
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let ports: serde_json::Value = serde_json::from_str(&text)?;
    let port = |name: &str| ports[name].as_u64().with_context(|| format!("ports.json names no {name}"));
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline {
        for n in 1..=members {
            let name = if n == 1 { "store".to_owned() } else { format!("store-{n}") };
            if leads(port(&format!("{name}-health"))?) {
                return Ok(format!("127.0.0.1:{}", port(&name)?));
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    bail!("no store member leads")
}

fn leads(health_port: u64) -> bool {
    let metrics = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{health_port}"))?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    metrics().is_ok_and(|m| m.lines().any(|l| l.starts_with("etcd_server_is_leader") && l.ends_with(" 1")))
}

fn check(name: &str, matched: &BTreeSet<String>, options: &Options) -> anyhow::Result<()> {
    ledger::check(&ledger_file(name), matched, options.update)
}

/// The ids of the cases in these files.
fn ids(files: &[PathBuf]) -> anyhow::Result<BTreeSet<String>> {
    let mut ids = BTreeSet::new();
    for file in files {
        for line in fs::read_to_string(file).with_context(|| file.display().to_string())?.lines() {
            let case: serde_json::Value = serde_json::from_str(line).with_context(|| file.display().to_string())?;
            ids.extend(case["id"].as_str().map(str::to_owned));
        }
    }
    Ok(ids)
}

fn lines(file: &Path) -> anyhow::Result<BTreeSet<String>> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn files(folder: &Path, extension: &str, groups: &[String]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .with_context(|| folder.display().to_string())?
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| path.extension().is_some_and(|e| e == extension))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            groups.is_empty() || groups.iter().any(|g| name.starts_with(g.as_str()))
        })
        .collect();
    files.sort();
    if files.is_empty() {
        bail!("no records in {} for {}", folder.display(), groups.join(","));
    }
    Ok(files)
}
