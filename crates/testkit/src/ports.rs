//! Ports for processes that must be told theirs before they start.

use std::fs::{self, File};
use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};

use anyhow::bail;

/// Below the range that the kernel gives to outgoing connections: one of those cannot take the port of a process that is
/// down for a moment. (`trireme up` gives ports from 20000 to 29000.)
const FIRST: u16 = 10_000;
const COUNT: u16 = 9_000;

/// Keeps the ports of this process from others that run tests; given back when the process ends.
static HELD: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// A TCP port of 127.0.0.1 that is this process's until it ends, whether something listens there or not.
///
/// # Errors
/// There is none, or the folder of the locks cannot be written.
pub fn reserve() -> anyhow::Result<u16> {
    let folder = std::env::temp_dir().join("trireme-test-ports");
    fs::create_dir_all(&folder)?;
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let start = u16::try_from(std::process::id() % u32::from(COUNT))?;
    for step in 0..COUNT {
        let port = FIRST + (start + step) % COUNT;
        let lock = File::options().create(true).append(true).open(folder.join(port.to_string()))?;
        if lock.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            held.push(lock);
            return Ok(port);
        }
    }
    bail!("no free port from {FIRST} to {}", FIRST + COUNT)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_port_is_given_once() -> anyhow::Result<()> {
        let (one, other) = (super::reserve()?, super::reserve()?);
        assert_ne!(one, other);
        drop((std::net::TcpListener::bind(("127.0.0.1", one))?, std::net::TcpListener::bind(("127.0.0.1", other))?));
        Ok(())
    }
}
