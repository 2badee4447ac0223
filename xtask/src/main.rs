//! `cargo xtask …`: every command a developer or CI runs.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool speaks to its user")]

mod build;
mod facts;
mod figures;
mod golden;
mod images;
mod ledger;
mod lint;
mod paths;
mod run;
mod setup;
mod test;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Every command a developer or CI runs.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Installs what the project needs by apt and pip; running it again changes nothing.
    Setup,
    /// Builds every service and the `trireme` command.
    Build {
        /// Without optimisation.
        #[arg(long)]
        dev: bool,
    },
    /// Sets up, builds, and runs `trireme up` with the arguments given (`--help` shows which there are).
    #[command(disable_help_flag = true)]
    Up {
        /// Handed to `trireme up`, but for `--no-build`, which leaves setup and build out.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Builds the OCI archives of the pause and echo images and prints where they are.
    Images,
    /// Lints, unit tests, tests of the whole, and the golden records: what CI runs.
    Test,
    /// Formatting, clippy, licences and house rules.
    Lint,
    /// The tests of the whole with real kubectl and containerd.
    E2e {
        /// Handed to the test runner (a filter).
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Replays the golden records and holds them against the committed ledgers.
    Golden(golden::Options),
    /// Measures the release build on this machine: memory, times to ready, the time of a Pod (root, containerd).
    Figures,
    /// Makes the table of facts of the built-in kinds anew from the Go modules of Kubernetes.
    Facts,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Up { arguments } => return up::run(&arguments),
        Command::Setup => setup::run(),
        Command::Build { dev } => build::services(if dev { build::Profile::Dev } else { build::Profile::Release }),
        Command::Images => images::run().map(|files| files.iter().for_each(|f| println!("{}", f.display()))),
        Command::Test => test::all(),
        Command::Lint => lint::run(),
        Command::E2e { arguments } => test::e2e(&arguments),
        Command::Golden(options) => golden::run(&options),
        Command::Figures => figures::run(),
        Command::Facts => facts::run(),
    }
    .map(|()| ExitCode::SUCCESS)
}
