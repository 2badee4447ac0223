//! One probe, once.

use super::http::{self, Target};
use crate::cri::Cri;
use crate::error::Error;
use crate::pod::expand::expand;
use k8s_openapi::api::core::v1::{Container, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::time::Duration;
use tokio::net::TcpStream;

/// Why a probe did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The container said no.
    Failed(String),
    /// The question could not be asked.
    Errored(String),
}

/// What is to be done to ask.
#[derive(Debug, Clone)]
pub enum Check {
    /// Run a command in the container.
    Exec(Vec<String>),
    /// GET.
    Http(Target),
    /// Connect.
    Tcp(String, u16),
    /// grpc.health.v1.Health/Check.
    Grpc(String, u16, String),
}

impl Check {
    /// Reads a probe's handler; `ip` is the Pod's.
    pub fn of(probe: &Probe, container: &Container, ip: &str) -> Result<Self, Failure> {
        let errored = |error: Error| Failure::Errored(error.to_string());
        if let Some(exec) = &probe.exec {
            let literal = |name: &str| {
                let mut all = container.env.iter().flatten().filter(|variable| variable.name == name);
                all.next_back().and_then(|variable| variable.value.clone())
            };
            return Ok(Self::Exec(exec.command.iter().flatten().map(|word| expand(word, literal)).collect()));
        }
        if let Some(get) = &probe.http_get {
            return Target::of(get, container, ip).map(Self::Http).map_err(errored);
        }
        if let Some(tcp) = &probe.tcp_socket {
            let host = tcp.host.as_deref().filter(|host| !host.is_empty()).unwrap_or(ip).to_owned();
            return Ok(Self::Tcp(host, port(&tcp.port, container).map_err(errored)?));
        }
        if let Some(grpc) = &probe.grpc {
            let port = u16::try_from(grpc.port).map_err(|_| Failure::Errored(format!("invalid port {}", grpc.port)))?;
            return Ok(Self::Grpc(ip.to_owned(), port, grpc.service.clone().unwrap_or_default()));
        }
        Err(Failure::Errored(format!("missing probe handler for {}", container.name)))
    }

    /// Asks.
    pub async fn run(&self, cri: &Cri, container_id: &str, timeout: Duration) -> Result<(), Failure> {
        match self {
            Self::Exec(command) => exec(cri, container_id, command, timeout).await,
            Self::Http(target) => http::probe(target, timeout).await,
            Self::Tcp(host, port) => tcp(host, *port, timeout).await,
            Self::Grpc(host, port, service) => grpc(host, *port, service, timeout).await,
        }
    }
}

/// A port by number, or by the name it has in the container's ports.
pub(crate) fn port(port: &IntOrString, container: &Container) -> Result<u16, Error> {
    let invalid = |port: &dyn std::fmt::Display| Error::Pod(format!("invalid port number: {port}"));
    match port {
        IntOrString::Int(number) => u16::try_from(*number).ok().filter(|port| *port > 0).ok_or_else(|| invalid(number)),
        IntOrString::String(name) => match name.parse::<u16>() {
            Ok(number) => Ok(number),
            Err(_) => container
                .ports
                .iter()
                .flatten()
                .find(|port| port.name.as_ref() == Some(name))
                .and_then(|port| u16::try_from(port.container_port).ok())
                .ok_or_else(|| Error::Pod(format!("couldn't find port: {name} in {}", container.name))),
        },
    }
}

async fn exec(cri: &Cri, id: &str, command: &[String], timeout: Duration) -> Result<(), Failure> {
    match cri.exec_sync(id, command, timeout).await {
        Ok(answer) if answer.exit_code == 0 => Ok(()),
        Ok(answer) => {
            let mut output = String::from_utf8_lossy(&answer.stdout).into_owned();
            output.push_str(&String::from_utf8_lossy(&answer.stderr));
            Err(Failure::Failed(output.chars().take(10 << 10).collect()))
        }
        Err(Error::Cri { status, .. }) if status.code() == tonic::Code::DeadlineExceeded => {
            let words = command.join(" ");
            Err(Failure::Failed(format!("command timed out: \"{words}\" timed out after {}s", timeout.as_secs())))
        }
        Err(error) => Err(Failure::Errored(error.to_string())),
    }
}

async fn tcp(host: &str, port: u16, timeout: Duration) -> Result<(), Failure> {
    connect(host, port, timeout).await.map(|_| ()).map_err(Failure::Failed)
}

/// Connects, and says what went wrong in the words of Go's dialer, which users know.
pub(super) async fn connect(host: &str, port: u16, timeout: Duration) -> Result<TcpStream, String> {
    let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    match tokio::time::timeout(timeout, TcpStream::connect((host, port))).await {
        Err(_) => Err(format!("dial tcp {address}: i/o timeout")),
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(match error.kind() {
            std::io::ErrorKind::ConnectionRefused => format!("dial tcp {address}: connect: connection refused"),
            std::io::ErrorKind::HostUnreachable => format!("dial tcp {address}: connect: no route to host"),
            std::io::ErrorKind::NetworkUnreachable => format!("dial tcp {address}: connect: network is unreachable"),
            _ => format!("dial tcp {address}: {error}"),
        }),
    }
}

async fn grpc(host: &str, port: u16, service: &str, timeout: Duration) -> Result<(), Failure> {
    use tonic_health::pb::health_check_response::ServingStatus;
    use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
    let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let ask = async {
        let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{address}"))
            .map_err(|error| Failure::Errored(error.to_string()))?;
        let channel = endpoint
            .connect()
            .await
            .map_err(|error| Failure::Failed(format!("error: health rpc probe failed: connection error: {error}")))?;
        let request = HealthCheckRequest { service: service.to_owned() };
        let answer = HealthClient::new(channel).check(request).await.map_err(|status| {
            Failure::Failed(match status.code() {
                tonic::Code::Unimplemented => {
                    format!(
                        "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {}",
                        status.message()
                    )
                }
                _ => format!("error: health rpc probe failed: {status}"),
            })
        })?;
        match answer.into_inner().status() {
            ServingStatus::Serving => Ok(()),
            other => Err(Failure::Failed(format!("service unhealthy (responded with \"{}\")", other.as_str_name()))),
        }
    };
    let late = || {
        Failure::Failed(format!(
            "timeout: failed to connect service \"{address}\" within {timeout:?}: context deadline exceeded"
        ))
    };
    tokio::time::timeout(timeout, ask).await.unwrap_or_else(|_| Err(late()))
}
