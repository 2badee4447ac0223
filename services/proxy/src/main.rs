//! The process around [`trireme_proxy`].

use std::process::ExitCode;

use trireme_proxy::Args;
use trireme_service::Harness;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args: Args = match trireme_service::parse() {
        Ok(args) => args,
        Err(error) => return trireme_service::complain("proxy", &error.into()),
    };
    if let Err(error) = args.check() {
        return trireme_service::complain("proxy", &error.into());
    }
    let harness = Harness::new("proxy", args.common().clone()).instance(args.node_name());
    harness.run(|context| trireme_proxy::run(args, context))
}
