//! Entry point of the API server.

use std::process::ExitCode;

use trireme_apiserver::config::Config;

#[allow(clippy::print_stderr, reason = "flags are read before there are logs")]
fn main() -> ExitCode {
    let config = match trireme_service::parse::<Config>() {
        Ok(config) => config,
        Err(error) => {
            eprintln!("apiserver: {error}");
            return ExitCode::FAILURE;
        }
    };
    trireme_service::run_main("apiserver", config.common.clone(), |context| {
        trireme_apiserver::server::run(config, context)
    })
}
