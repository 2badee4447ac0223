//! Entry point.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let config = trireme_controllers::Config::parse();
    trireme_service::run_main("controllers", config.common.clone(), |context| trireme_controllers::run(config, context))
}
