//! The process around a service: this test program starts itself as one.

use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use trireme_service::tasks::OnPanic;
use trireme_service::{CommonArgs, Context, Harness};
use trireme_testkit::poll::{self, PATIENCE};

const CHILD: &str = "TRIREME_SERVICE_TEST";
/// How long a service may take to end before it is given up, if the test is about that.
const LIMIT: Duration = Duration::from_secs(1);

/// A process of this test program, killed when dropped.
struct Service(Child);

impl Service {
    /// Starts a child of one kind; it has written `ready` when it runs.
    fn start(kind: &str, ready: &Path) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "process::child", "--ignored", "--nocapture"])
            .env(CHILD, format!("{kind}:{}", ready.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        poll::until(kind, PATIENCE, || ready.exists().then_some(()).context("it does not start")).unwrap();
        Self(child)
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.0.id().to_string()]).status().unwrap().success());
    }

    /// Waits for its end; its own assertions must have held.
    fn end(mut self) {
        let status = poll::until("the child", PATIENCE, || self.0.try_wait()?.context("it does not end")).unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Of one that has ended there is nothing to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "is the child of the other tests"]
fn child() {
    let Ok(child) = std::env::var(CHILD) else { return };
    let (kind, ready) = child.split_once(':').unwrap();
    let (kind, ready) = (kind.to_owned(), ready.to_owned());
    // Only what is to be given up ever is while a test waits.
    let limit = if kind == "stubborn" { LIMIT } else { PATIENCE * 10 };
    let args = CommonArgs { shutdown_timeout: limit, ..CommonArgs::default() };
    let fails = matches!(kind.as_str(), "failing" | "panicking");
    let code = Harness::new("test", args).run(|context: Context| async move {
        std::fs::write(&ready, "").unwrap();
        match kind.as_str() {
            "orderly" => {
                // Both kinds of thread must work: actix needs the main thread's system, tonic the workers.
                actix_rt::spawn(async {}).await.unwrap();
                tokio::spawn(async {}).await.unwrap();
                context.shutdown.cancelled().await;
                std::fs::write(&ready, "in order").unwrap();
            }
            "failing" => anyhow::bail!("as asked"),
            "panicking" => {
                context.tasks.spawn("needed", OnPanic::Shutdown, async { panic!("as asked") });
                context.shutdown.cancelled().await;
            }
            _ => std::future::pending().await,
        }
        Ok(())
    });
    let expected = if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    assert_eq!(format!("{code:?}"), format!("{expected:?}"));
}

#[test]
fn a_signal_ends_it_in_order() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["-TERM", "-INT"] {
        let ready = dir.path().join(name);
        let child = Service::start("orderly", &ready);
        child.signal(name);
        child.end();
        assert_eq!(std::fs::read_to_string(ready).unwrap(), "in order");
    }
}

#[test]
fn one_that_does_not_end_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let child = Service::start("stubborn", &dir.path().join("ready"));
    let signalled = Instant::now();
    child.signal("-TERM");
    child.end();
    assert!(signalled.elapsed() >= LIMIT, "not before its time");
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let child = Service::start("impatient", &dir.path().join("ready"));
    // Signals of a kind that arrive together are one, so there are two kinds.
    child.signal("-TERM");
    child.signal("-INT");
    child.end();
}

#[test]
fn a_failure_is_told_by_the_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    for kind in ["failing", "panicking"] {
        Service::start(kind, &dir.path().join(kind)).end();
    }
}
