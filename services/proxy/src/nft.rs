//! The nft command: transactions, listings, and word of changes by others.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::{Error, tool};

/// Runs a script as one transaction.
///
/// # Errors
/// When nft can't be run or refuses the script; then nothing of it is done.
pub async fn transaction(script: &str) -> Result<(), Error> {
    run(&["-f", "-"], script).await.map(drop)
}

/// The table as the kernel has it, without what packets change in it (counters, and sets that packets fill).
///
/// # Errors
/// When there is no such table, or nft can't be run.
pub async fn listing(table: &str) -> Result<String, Error> {
    let text = run(&["--stateless", "list", "table", "ip", table], "").await?;
    Ok(without_dynamic_elements(&text))
}

/// Whether nft works here.
///
/// # Errors
/// When it does not.
pub async fn probe() -> Result<(), Error> {
    run(&["list", "tables"], "").await.map(drop)
}

async fn run(args: &[&str], input: &str) -> Result<String, Error> {
    let output = tool::run("nft", args, input, tool::LIMIT).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::TimedOut => Error::Nft(error.to_string()),
        _ => Error::NoNft(error),
    })?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(Error::Nft(shortened(&String::from_utf8_lossy(&output.stderr))))
    }
}

/// nft repeats the offending line, which may be very long.
fn shortened(text: &str) -> String {
    let mut lines = text.lines().take(4).map(|line| line.chars().take(300).collect::<String>());
    let first = lines.next().unwrap_or_else(|| "no reason given".to_owned());
    lines.fold(first, |all, line| format!("{all} | {}", line.trim()))
}

fn without_dynamic_elements(listing: &str) -> String {
    let mut out = String::with_capacity(listing.len());
    let (mut in_dynamic, mut in_elements) = (false, false);
    for line in listing.lines() {
        let word = line.trim_start();
        if word.starts_with("set ") || word.starts_with("map ") || word.starts_with("chain ") {
            (in_dynamic, in_elements) = (false, false);
        }
        in_dynamic |= word.starts_with("flags") && word.contains("dynamic");
        in_elements |= word.starts_with("elements = {");
        if !(in_dynamic && in_elements) {
            out.push_str(line);
            out.push('\n');
        }
        in_elements &= !word.contains('}');
    }
    out
}

/// Tells of every transaction that touches our table, ours and others'.
#[derive(Debug)]
pub struct Monitor {
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
    // Killed when this is dropped.
    _child: Child,
    touched: bool,
    table: String,
}

/// A transaction that the monitor saw, or the end of its sight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A transaction touched our table.
    Transaction,
    /// Some may have gone unseen.
    Lost,
}

impl Monitor {
    /// Starts watching.
    ///
    /// # Errors
    /// When nft can't be run.
    pub fn start(table: &str) -> Result<Self, Error> {
        let mut child = Command::new("nft")
            .args(["monitor"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(Error::NoNft)?;
        let stdout = child.stdout.take().ok_or_else(|| Error::Nft("no output of nft monitor".to_owned()))?;
        Ok(Self { lines: BufReader::new(stdout).lines(), _child: child, touched: false, table: table.to_owned() })
    }

    /// The next thing seen. Cancel-safe.
    pub async fn next(&mut self) -> Seen {
        loop {
            let line = match self.lines.next_line().await {
                Ok(Some(line)) => line,
                Ok(None) | Err(_) => return Seen::Lost,
            };
            if line.starts_with("# ERROR") {
                return Seen::Lost;
            }
            if line.starts_with("# new generation") {
                if std::mem::take(&mut self.touched) {
                    return Seen::Transaction;
                }
            } else {
                self.touched |= touches(&line, &self.table);
            }
        }
    }
}

/// `add rule ip kube-proxy …`, but not `add element ip kube-proxy affinity-…`, which packets do.
fn touches(line: &str, table: &str) -> bool {
    let mut words = line.split_whitespace();
    let (Some(_), Some(kind)) = (words.next(), words.next()) else { return false };
    let (Some("ip"), Some(of)) = (words.next(), words.next()) else { return false };
    of == table && !(kind == "element" && words.next().is_some_and(|set| set.starts_with("affinity-")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_lines_touch_the_table() {
        assert!(touches("delete table ip kube-proxy", "kube-proxy"));
        assert!(touches("add rule ip kube-proxy services ip daddr 1.2.3.4 drop", "kube-proxy"));
        assert!(touches("delete element ip kube-proxy cluster-ips { 10.96.0.1 }", "kube-proxy"));
        assert!(!touches("add table ip kube-proxy-two", "kube-proxy"));
        assert!(!touches("add element ip kube-proxy affinity-1 { 10.0.0.1 }", "kube-proxy"));
        assert!(!touches("add rule inet kube-proxy x drop", "kube-proxy"));
        assert!(!touches("}", "kube-proxy"));
    }

    #[test]
    fn what_packets_fill_is_left_out() {
        let listing = "table ip t {\n\tset affinity-x {\n\t\ttype ipv4_addr\n\t\tsize 65535\n\t\tflags dynamic,timeout\n\
                       \t\telements = { 10.0.0.1 timeout 3h,\n\t\t\t     10.0.0.2 timeout 3h }\n\t}\n\
                       \tset cluster-ips {\n\t\ttype ipv4_addr\n\t\telements = { 10.96.0.1 }\n\t}\n}\n";
        let kept = without_dynamic_elements(listing);
        assert!(!kept.contains("10.0.0."), "{kept}");
        assert!(kept.contains("10.96.0.1") && kept.contains("flags dynamic"), "{kept}");
    }
}
