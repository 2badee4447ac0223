//! What the user sees: progress while it works, then what runs where.

use std::{future::Future, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    process::{self, Process, Ready},
    shell,
    state::State,
};

/// The terminal, or a log if there is none.
pub(crate) struct Screen {
    bar: ProgressBar,
}

impl Screen {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { bar }
    }

    /// Says what is done; `result` is what became of it.
    pub(crate) fn step<T>(&self, what: &str, result: anyhow::Result<T>) -> anyhow::Result<T> {
        if result.is_err() {
            // Why is the command's last word.
            self.bar.println(format!("  failed  {what}"));
            self.bar.finish_and_clear();
        } else {
            self.bar.println(format!("  ready   {what}"));
        }
        result
    }

    /// Says something that must be seen without a terminal too.
    pub(crate) fn say(&self, line: &str) {
        self.bar.suspend(|| println!("{line}"));
    }

    /// Says what is waited for while it is.
    pub(crate) async fn step_async<T>(
        &self,
        what: &str,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        self.bar.set_message(what.to_owned());
        self.step(what, work.await)
    }

    /// What runs where, where node 1 lives, and what to type next.
    pub(crate) fn summary(
        &self,
        state: &State,
        processes: &[Process],
        server: &str,
        place: &str,
        took: Duration,
    ) -> anyhow::Result<()> {
        self.bar.finish_and_clear();
        println!("{:<16} {:>8}  {:<28} LOG", "PROCESS", "PID", "HEALTH");
        for process in processes {
            let pid = process::pid(state, &process.name)?.map_or_else(|| "-".to_owned(), |p| p.to_string());
            let at = match &process.ready {
                Ready::Http(address, port) => format!("http://{address}:{port}"),
                Ready::Https(port, _) => format!("https://127.0.0.1:{port}"),
                Ready::Tcp(port) => format!("127.0.0.1:{port}"),
                Ready::Socket(path) => path.display().to_string(),
            };
            println!("{:<16} {pid:>8}  {at:<28} {}", process.name, state.log(&process.name).display());
        }
        println!("\nThe API server is at {server}. Everything took {:.1} s.", took.as_secs_f64());
        if !place.is_empty() {
            println!("{place}");
        }
        println!("Next:");
        println!("  export KUBECONFIG={}", shell::quoted(&state.kubeconfig()));
        println!("  kubectl get nodes,pods -A");
        if let Some(runtime) = processes.iter().find(|p| p.name.starts_with("containerd"))
            && let Ready::Socket(path) = &runtime.ready
        {
            println!("  export CONTAINERD_ADDRESS={}", shell::quoted(path));
            println!("  ctr -n k8s.io tasks ls");
        }
        Ok(())
    }
}
