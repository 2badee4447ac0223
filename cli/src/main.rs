//! `trireme`: brings a cluster up on this machine, stops it, makes its keys and certificates.
//!
//! ```text
//! trireme up    every service as its own process, a kubeconfig, the examples
//! trireme down  stops them; the next `up` finds everything as it was
//! trireme pki   the keys and certificates alone
//! ```
//!
//! Everything of one instance lies in its state directory (`state.rs`); names that the kernel keeps for all (bridges,
//! network namespaces, tables, cgroups) carry the instance's id.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool speaks to its user")]

mod bus;
mod cgroup;
mod cri;
mod down;
mod host;
mod lock;
mod pki;
mod process;
mod program;
mod ready;
mod shell;
mod state;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A Kubernetes-compatible cluster on this machine.
#[derive(Parser)]
#[command(name = "trireme", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Starts what is not running yet; running it twice is harmless.
    Up(up::Options),
    /// Stops every process of an instance and takes its network and mounts away; data stays.
    Down(down::Options),
    /// Makes the keys and certificates of a cluster.
    Pki(pki::Options),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Up(options) => up::run(&options),
        Command::Down(options) => down::run(&options),
        Command::Pki(options) => pki::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("trireme: {e:#}");
            ExitCode::FAILURE
        }
    }
}
