//! Entry point of the scheduler.

use std::process::ExitCode;

use trireme_scheduler::Config;

fn main() -> anyhow::Result<ExitCode> {
    let config: Config = trireme_service::parse()?;
    let common = config.common.clone();
    Ok(trireme_service::run_main("scheduler", common, |context| async move {
        Ok(trireme_scheduler::run(context, config).await?)
    }))
}
