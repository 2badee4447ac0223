//! The process around [`trireme_network`].

use std::process::ExitCode;

use trireme_network::Args;
use trireme_service::Harness;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args: Args = match trireme_service::parse() {
        Ok(args) => args,
        Err(error) => return trireme_service::complain("network", &error.into()),
    };
    if let Err(error) = args.check() {
        return trireme_service::complain("network", &error.into());
    }
    let harness = Harness::new("network", args.common().clone()).instance(args.node_name());
    harness.run(|context| trireme_network::run(args, context))
}
