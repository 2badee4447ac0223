//! A small HTTP server that answers with its Pod's name, the path and the headers; the workload of examples and tests.
//!
//! | path | does |
//! |---|---|
//! | anything else | 200, who answers and what was asked |
//! | `/readyz` | 200, or 503 while unready; not logged, as no probe is |
//! | `/fail?code=N` | answers with that status (500 by default) |
//! | `/exit?code=N` | answers, then ends the process with that code (1 by default) |
//! | `/stall?seconds=N` | answers after that time (30 by default) |
//! | `/unready`, `/ready` | turns `/readyz` |
//!
//! `ECHO_PORT` (8080), `ECHO_UNREADY=1`, `ECHO_EXIT=N` (ends at once with that code). Since the image holds nothing but
//! this program, it is also the tool for `kubectl exec`: `/echo env`, `/echo cat FILE…`, `/echo ls DIR`,
//! `/echo stdin` (copies standard input to standard output), `/echo sleep SECONDS`, `/echo get URL-without-scheme`.
#![allow(clippy::print_stdout, reason = "a container's log is its standard output")]

mod server;
mod tools;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let result = match arguments.next().as_deref() {
        None | Some("serve") => server::serve(),
        Some(tool) => tools::run(tool, &arguments.collect::<Vec<_>>()).map(|()| 0),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(e) => {
            println!("echo: {e}");
            ExitCode::FAILURE
        }
    }
}
