//! What kubectl says against Trireme is what it says against Kubernetes.
//!
//! `sessions/*.session` were recorded once from kubectl 1.37 against Kubernetes 1.37.2 with the same images; what must
//! differ from run to run (addresses, ages, generated names, digests) is replaced by words on both sides. A session is
//! run in order, in a namespace of its own:
//!
//! ```text
//! $ kubectl get pods            a command, what it printed (`! ` before standard error), `[exit 1]` unless 0
//! ~ kubectl get pods            the same, run until it prints this
//! < FILE                        standard input of the next command
//! ```
//!
//! `TRIREME_RECORD=KUBECONFIG` records them anew against that cluster.

use std::{fmt::Write as _, path::Path, process::Command, time::Duration};

use anyhow::{Context as _, bail};
use regex::Regex;
use trireme_testkit::{Cluster, Options, poll};

use crate::support::LONG;

#[test]
fn sessions_read_as_on_kubernetes() -> anyhow::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/sessions");
    let mut files: Vec<_> = std::fs::read_dir(&folder)?.filter_map(|e| e.ok().map(|e| e.path())).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "session"));
    files.sort();
    anyhow::ensure!(!files.is_empty(), "no sessions in {}", folder.display());
    if let Some(kubeconfig) = std::env::var_os("TRIREME_RECORD") {
        for file in files {
            let session = std::fs::read_to_string(&file)?;
            std::fs::write(&file, run(Path::new(&kubeconfig), &folder, &session, Mode::Record)?)?;
        }
        return Ok(());
    }
    let cluster = Cluster::up(Options::default())?;
    let mut differences = String::new();
    for file in files {
        let session = std::fs::read_to_string(&file)?;
        let got = run(&cluster.kubeconfig(), &folder, &session, Mode::Replay)?;
        for (wanted, got) in blocks(&session).zip(blocks(&got)) {
            if wanted != got {
                writeln!(differences, "{}\n--- Kubernetes\n{wanted}+++ here\n{got}", file.display())?;
            }
        }
    }
    anyhow::ensure!(differences.is_empty(), "{differences}");
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Record,
    Replay,
}

/// The commands of a session, each with what it printed.
fn blocks(session: &str) -> impl Iterator<Item = String> {
    let mut blocks: Vec<String> = Vec::new();
    for line in session.lines().filter(|l| !l.starts_with('#')) {
        if line.starts_with("$ ") || line.starts_with("~ ") || line.starts_with("< ") {
            let follows_input = blocks.last().is_some_and(|b| b.starts_with("< ") && b.lines().count() == 1);
            if !follows_input {
                blocks.push(String::new());
            }
        }
        if let Some(block) = blocks.last_mut() {
            block.push_str(line);
            block.push('\n');
        }
    }
    blocks.into_iter()
}

/// Runs a session; gives it back with what was printed now.
fn run(kubeconfig: &Path, folder: &Path, session: &str, mode: Mode) -> anyhow::Result<String> {
    let mut out: String = session.lines().take_while(|l| l.starts_with('#')).fold(String::new(), |s, l| s + l + "\n");
    let normal = Normal::new()?;
    for block in blocks(session) {
        let mut lines = block.lines();
        let mut line = lines.next().context("an empty block")?;
        let mut input = String::new();
        if let Some(file) = line.strip_prefix("< ") {
            input = std::fs::read_to_string(folder.join(file)).with_context(|| file.to_owned())?;
            writeln!(out, "{line}")?;
            line = lines.next().context("no command after <")?;
        }
        let (until, command) = (line.starts_with("~ "), line.get(2..).unwrap_or_default());
        let wanted: String = lines.fold(String::new(), |s, l| s + l + "\n");
        let once = || -> anyhow::Result<String> { Ok(normal.apply(&shell(kubeconfig, command, &input)?)) };
        let printed = match (until, mode) {
            (false, _) => once()?,
            (true, Mode::Replay) => {
                let mut last = String::new();
                let same = poll::until(command, LONG, || {
                    last = once()?;
                    if last == wanted { Ok(()) } else { bail!("{last}") }
                });
                if same.is_ok() { wanted } else { last }
            }
            // What a cluster at rest prints: the same thing twice, two seconds apart.
            (true, Mode::Record) => poll::until(command, LONG, || {
                let first = once()?;
                std::thread::sleep(Duration::from_secs(2));
                let second = once()?;
                if first == second { Ok(second) } else { bail!("{second}") }
            })?,
        };
        write!(out, "{line}\n{printed}")?;
    }
    Ok(out)
}

fn shell(kubeconfig: &Path, command: &str, input: &str) -> anyhow::Result<String> {
    let home = tempfile::tempdir()?;
    let file = home.path().join("input");
    std::fs::write(&file, input)?;
    let tools = std::env::var("HOME").unwrap_or_default() + "/.cache/trireme/venv/bin";
    let output = Command::new("timeout")
        .args(["60", "sh", "-c", command])
        .env("KUBECONFIG", kubeconfig)
        .env("HOME", home.path())
        .env("PATH", format!("{tools}:{}", std::env::var("PATH").unwrap_or_default()))
        .stdin(std::fs::File::open(&file)?)
        .output()?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push_str("\u{21b5}\n");
    }
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        writeln!(text, "! {line}")?;
    }
    if let Some(code) = output.status.code().filter(|c| *c != 0) {
        writeln!(text, "[exit {code}]")?;
    }
    Ok(text)
}

/// Replaces what must differ from run to run.
struct Normal(Vec<(Regex, &'static str)>);

impl Normal {
    fn new() -> anyhow::Result<Self> {
        let rules = [
            (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uid>"),
            (r"(sha256:|containerd://)[0-9a-f]{64}", "<digest>"),
            (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
            (r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<date>"),
            (r"\b(web|api)-[0-9a-z]{8,10}-[0-9a-z]{5}\b", "$1-<hash>-<id>"),
            (r"\b(web|api)-[0-9a-z]{8,10}\b", "$1-<hash>"),
            (r"pod-template-hash=[0-9a-z]+", "pod-template-hash=<hash>"),
            (r"kube-api-access-[0-9a-z]{5}", "kube-api-access-<id>"),
            (r"\b10\.\d+\.\d+\.\d+\b", "<ip>"),
            (r"resourceVersion: ?.\d+.", "resourceVersion: <rv>"),
            (r"\(x\d+ over [0-9hms]+\)", ""),
            (r"(\s)(\d+[smhd]){1,2}(\s|$)", "$1<age>$3"),
            (r"(?m)[ \t]+", " "),
            (r"(?m) $", ""),
        ];
        rules.iter().map(|(r, to)| Ok((Regex::new(r)?, *to))).collect::<anyhow::Result<Vec<_>>>().map(Self)
    }

    fn apply(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (rule, to)| rule.replace_all(&text, *to).into_owned())
    }
}
