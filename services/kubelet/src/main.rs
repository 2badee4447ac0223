//! Entry point of the kubelet.

use std::process::ExitCode;
use trireme_kubelet::{Config, Flags};
use trireme_service::Harness;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let flags: Flags = trireme_service::parse()?;
    let config = Config::resolve(&flags)?;
    let harness = Harness::new("kubelet", flags.common).instance(config.node_name.clone());
    Ok(harness.run(|context| async move { Ok(trireme_kubelet::run(context, config).await?) }))
}
