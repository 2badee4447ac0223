//! The process around [`trireme_network`].

use std::process::ExitCode;

use trireme_network::Args;
use trireme_service::Harness;

fn main() -> ExitCode {
    let args: Args = match trireme_service::parse() {
        Ok(args) => args,
        Err(error) => return trireme_service::complain("network", &error.into()),
    };
    let node = match args.check().and_then(|()| args.node_name()) {
        Ok(node) => node,
        Err(error) => return trireme_service::complain("network", &error.into()),
    };
    let harness = Harness::new("network", args.common().clone()).instance(node);
    harness.run(|context| trireme_network::run(args, context))
}
