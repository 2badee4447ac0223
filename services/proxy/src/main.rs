//! The process around [`trireme_proxy`].

use std::process::ExitCode;

use trireme_proxy::Args;
use trireme_service::Harness;

fn main() -> ExitCode {
    let args: Args = match trireme_service::parse() {
        Ok(args) => args,
        Err(error) => return trireme_service::complain("proxy", &error.into()),
    };
    let node = match args.check().and_then(|()| args.node_name()) {
        Ok(node) => node,
        Err(error) => return trireme_service::complain("proxy", &error.into()),
    };
    let harness = Harness::new("proxy", args.common().clone()).instance(node);
    harness.run(|context| trireme_proxy::run(args, context))
}
