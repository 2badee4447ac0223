//! The store as a process.
use std::process::ExitCode;

use trireme_store::Config;

fn main() -> ExitCode {
    let config: Config = match trireme_service::parse() {
        Ok(config) => config,
        Err(error) => {
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "store: {error}");
            return ExitCode::FAILURE;
        }
    };
    let harness = trireme_service::Harness::new("store", config.common.clone()).instance(config.name.clone());
    harness.run(|context| async move { Ok(trireme_store::run(config, context).await?) })
}
