//! A real nats-server.

use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Stdio};

use trireme_testkit::{poll, ports};

/// A nats-server process on a port of its own, which it keeps over restarts.
pub(crate) struct Server {
    process: Option<Child>,
    port: u16,
}

impl Server {
    pub(crate) fn start() -> Self {
        let mut server = Self { process: None, port: ports::reserve().unwrap() };
        server.restart();
        poll::until("nats-server", poll::PATIENCE, || Ok(TcpStream::connect((Ipv4Addr::LOCALHOST, server.port))?))
            .unwrap();
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    pub(crate) fn restart(&mut self) {
        self.kill();
        let process = Command::new("nats-server")
            .args(["-a", "127.0.0.1", "-p", &self.port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.process = Some(process.unwrap());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
