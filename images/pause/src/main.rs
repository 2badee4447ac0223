//! The pause container: process 1 of a Pod's sandbox.
//!
//! It holds the sandbox's namespaces open, reaps orphans where the Pod shares its process namespace, and ends at once
//! on SIGINT or SIGTERM, which process 1 would otherwise ignore.

use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use signal_hook::{
    consts::{SIGCHLD, SIGINT, SIGTERM},
    iterator::Signals,
};

fn main() -> std::io::Result<()> {
    let mut signals = Signals::new([SIGCHLD, SIGINT, SIGTERM])?;
    for signal in signals.forever() {
        if signal != SIGCHLD {
            break;
        }
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            if status == WaitStatus::StillAlive {
                break;
            }
        }
    }
    Ok(())
}
