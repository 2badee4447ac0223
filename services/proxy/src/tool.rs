//! Running a program of the system: its input is written while its output is read, and all of it has one time limit.

use std::io::{Error, ErrorKind};
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// How long a program may take; the largest tables load in a few seconds.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Runs a program to its end. One that takes longer than `limit` is killed.
///
/// # Errors
/// It can't be run, or took too long ([`ErrorKind::TimedOut`]). How it ended is in the output.
pub(crate) async fn run(program: &str, args: &[&str], input: &str, limit: Duration) -> Result<Output, Error> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let stdin = child.stdin.take();
    let write = async move {
        if let Some(mut stdin) = stdin {
            // One that fails early closes the pipe; what it says then is in its output.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
    };
    let both = async { tokio::join!(write, child.wait_with_output()).1 };
    tokio::time::timeout(limit, both)
        .await
        .map_err(|_| Error::new(ErrorKind::TimedOut, format!("{program}: no answer within {limit:?}")))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn more_than_a_pipe_holds_goes_in_and_out_at_once() {
        let input = "x".repeat(1 << 20);
        let output = run("cat", &[], &input, LIMIT).await.unwrap();
        assert_eq!(output.stdout.len(), input.len());
    }

    #[tokio::test]
    async fn one_that_reads_nothing_and_does_not_end_is_given_up() {
        let input = "x".repeat(1 << 20);
        let error = run("sleep", &["1000"], &input, Duration::from_millis(100)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(error.to_string().contains("sleep: no answer"), "{error}");
    }
}
