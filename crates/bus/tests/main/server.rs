//! A real nats-server.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A nats-server process on a port of its own, which it keeps over restarts.
pub(crate) struct Server {
    process: Option<Child>,
    address: SocketAddr,
}

impl Server {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut process = command(&["-a", "127.0.0.1", "-p", "-1", "--ports_file_dir", dir.path().to_str().unwrap()]);
        let file = dir.path().join(format!("nats-server_{}.ports", process.id()));
        let deadline = Instant::now() + Duration::from_secs(10);
        let address = loop {
            // {"nats":["nats://127.0.0.1:40001"],…}
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            let found = text.split('"').find_map(|word| word.strip_prefix("nats://")?.parse().ok());
            if let Some(address) = found {
                break address;
            }
            if Instant::now() > deadline {
                let _ = process.kill();
                panic!("nats-server does not say where it listens: {text:?}");
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        Self { process: Some(process), address }
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    pub(crate) fn restart(&mut self) {
        self.kill();
        self.process = Some(command(&["-a", "127.0.0.1", "-p", &self.address.port().to_string()]));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn command(args: &[&str]) -> Child {
    Command::new("nats-server").args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}
