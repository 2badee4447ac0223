//! The process around a service: this test program starts itself as one.

use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use trireme_service::tasks::OnPanic;
use trireme_service::{CommonArgs, Context, Harness};

const CHILD: &str = "TRIREME_SERVICE_TEST";
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts a child of one kind; it has written `ready` when it runs.
fn start(kind: &str, ready: &std::path::Path) -> Child {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process::child", "--ignored", "--nocapture"])
        .env(CHILD, format!("{kind}:{}", ready.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !ready.exists() {
        assert!(begun.elapsed() < PATIENCE, "{kind} does not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

/// How long the child took to end; its own assertions must have held.
fn end(mut child: Child) -> Duration {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            return begun.elapsed();
        }
        if begun.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("the child does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
#[ignore = "is the child of the other tests"]
fn child() {
    let Ok(child) = std::env::var(CHILD) else { return };
    let (kind, ready) = child.split_once(':').unwrap();
    let (kind, ready) = (kind.to_owned(), ready.to_owned());
    // A stubborn service is given up after this long; a second signal is faster.
    let limit = if kind == "impatient" { 60 } else { 1 };
    let args = CommonArgs { shutdown_timeout: Duration::from_secs(limit), ..CommonArgs::default() };
    let fails = matches!(kind.as_str(), "failing" | "panicking");
    let code = Harness::new("test", args).run(|context: Context| async move {
        std::fs::write(&ready, "").unwrap();
        match kind.as_str() {
            "orderly" => {
                // Both kinds of thread must work: actix needs the main thread's system, tonic the workers.
                actix_rt::spawn(async {}).await.unwrap();
                tokio::spawn(async {}).await.unwrap();
                context.shutdown.cancelled().await;
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
        let child = start("orderly", &dir.path().join(name));
        signal(&child, name);
        assert!(end(child) < Duration::from_secs(5));
    }
}

#[test]
fn one_that_does_not_end_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let child = start("stubborn", &dir.path().join("ready"));
    signal(&child, "-TERM");
    assert!(end(child) >= Duration::from_millis(900));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let child = start("impatient", &dir.path().join("ready"));
    // Signals of a kind that arrive together are one, so there are two kinds.
    signal(&child, "-TERM");
    signal(&child, "-INT");
    assert!(end(child) < PATIENCE);
}

#[test]
fn a_failure_is_told_by_the_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    for kind in ["failing", "panicking"] {
        end(start(kind, &dir.path().join(kind)));
    }
}
