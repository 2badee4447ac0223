//! exec, attach and port-forward: from a client's WebSocket to the runtime's SPDY streams.

use super::bridge::{self, Channels, Client};
use super::websocket::Codec;
use super::{forward, spdy};
use crate::cri::Cri;
use actix_web::http::header::{SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use actix_web::{HttpRequest, HttpResponse, web};
use actix_ws::{AggregatedMessageStream, Session};
use trireme_proto::runtime::v1 as pb;

/// Of clients, the newest first.
const REMOTE: [&str; 4] = ["v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io", "channel.k8s.io"];
const FORWARD: [&str; 3] = ["SPDY/3.1+portforward.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io"];
/// Of runtimes.
const RUNTIME_FORWARD: [&str; 1] = ["portforward.k8s.io"];
/// A message that a client may send.
const MESSAGE: usize = 32 << 20;

/// What a query asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Wanted {
    command: Vec<String>,
    channels: Channels,
    ports: Vec<u16>,
}

impl Wanted {
    /// Reads a query: of the kubelet's API (`input=1`), or of the API server's (`stdin=true`).
    fn of(query: &str) -> Self {
        let mut wanted = Self::default();
        let channels = &mut wanted.channels;
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            let yes = matches!(&*value, "1" | "true");
            match &*name {
                "command" => wanted.command.push(value.into_owned()),
                "input" | "stdin" => channels.stdin = yes,
                "output" | "stdout" => channels.stdout = yes,
                "error" | "stderr" => channels.stderr = yes,
                "tty" => channels.tty = yes,
                "port" | "ports" => wanted.ports.extend(value.split(',').filter_map(|port| port.parse::<u16>().ok())),
                _ => {}
            }
        }
        // A terminal has one output.
        channels.stderr &= !channels.tty;
        wanted
    }
}

fn problem(code: u16, text: impl Into<String>) -> HttpResponse {
    let code =
        actix_web::http::StatusCode::from_u16(code).unwrap_or(actix_web::http::StatusCode::INTERNAL_SERVER_ERROR);
    HttpResponse::build(code).content_type("text/plain; charset=utf-8").body(text.into())
}

fn wants_websocket(request: &HttpRequest) -> bool {
    let upgrade = request.headers().get(UPGRADE).and_then(|value| value.to_str().ok());
    upgrade.is_some_and(|value| value.eq_ignore_ascii_case("websocket"))
}

/// The subprotocol that will be agreed on: the client's first one that is known here.
fn agreed(request: &HttpRequest, known: &[&str]) -> Option<String> {
    let offered = request.headers().get_all(SEC_WEBSOCKET_PROTOCOL).filter_map(|value| value.to_str().ok());
    offered.flat_map(|value| value.split(',')).map(str::trim).find(|one| known.contains(one)).map(str::to_owned)
}

/// Switches to WebSocket.
fn accept(
    request: &HttpRequest,
    body: web::Payload,
    known: &[&str],
) -> Result<(HttpResponse, Session, AggregatedMessageStream), actix_web::Error> {
    let (answer, session, messages) = actix_ws::handle_with_protocols(request, body, known)?;
    let messages = messages.max_frame_size(MESSAGE).aggregate_continuations().max_continuation_size(MESSAGE);
    Ok((answer, session, messages))
}

/// Runs a command in a container.
pub(super) async fn exec(cri: &Cri, request: &HttpRequest, body: web::Payload, id: String) -> HttpResponse {
    let Wanted { command, channels, .. } = Wanted::of(request.query_string());
    if !channels.any() {
        return problem(400, "you must specify at least 1 of stdin, stdout, stderr");
    }
    let call = pb::ExecRequest {
        container_id: id,
        cmd: command,
        tty: channels.tty,
        stdin: channels.stdin,
        stdout: channels.stdout,
        stderr: channels.stderr,
    };
    match cri.exec(call).await {
        Ok(url) => stream(request, body, url, channels).await,
        Err(error) => problem(500, error.to_string()),
    }
}

/// Connects to a container's own process.
pub(super) async fn attach(
    cri: &Cri,
    request: &HttpRequest,
    body: web::Payload,
    id: String,
    tty: bool,
) -> HttpResponse {
    let mut channels = Wanted::of(request.query_string()).channels;
    channels.tty = tty;
    channels.stderr &= !tty;
    if !channels.any() {
        return problem(400, "you must specify at least 1 of stdin, stdout, stderr");
    }
    let call = pb::AttachRequest {
        container_id: id,
        stdin: channels.stdin,
        tty: channels.tty,
        stdout: channels.stdout,
        stderr: channels.stderr,
    };
    match cri.attach(call).await {
        Ok(url) => stream(request, body, url, channels).await,
        Err(error) => problem(500, error.to_string()),
    }
}

/// Switches to WebSocket, and only then turns to the runtime: what goes wrong there the client reads on its channel of
/// errors.
async fn stream(request: &HttpRequest, body: web::Payload, url: String, channels: Channels) -> HttpResponse {
    if !wants_websocket(request) {
        return problem(400, "Upgrade request required: this kubelet takes WebSocket");
    }
    let protocol = agreed(request, &REMOTE).unwrap_or_default();
    let (answer, session, messages) = match accept(request, body, &REMOTE) {
        Ok(accepted) => accepted,
        Err(error) => return problem(400, format!("websocket: {error}")),
    };
    let translated = protocol == REMOTE[0];
    let client = Client { session, messages, codec: Codec::of(&protocol), translated };
    actix_web::rt::spawn(bridge::run(client, url, channels));
    answer
}

/// Connections to ports of a Pod.
pub(super) async fn port_forward(
    cri: &Cri,
    request: &HttpRequest,
    body: web::Payload,
    sandbox: String,
) -> HttpResponse {
    if !wants_websocket(request) {
        return problem(400, "Upgrade request required: this kubelet takes WebSocket");
    }
    let wanted = Wanted::of(request.query_string());
    let call = pb::PortForwardRequest {
        pod_sandbox_id: sandbox,
        port: wanted.ports.iter().map(|port| i32::from(*port)).collect(),
    };
    let url = match cri.port_forward(call).await {
        Ok(url) => url,
        Err(error) => return problem(500, error.to_string()),
    };
    let upgraded = match spdy::upgrade(&url, &RUNTIME_FORWARD).await {
        Ok(upgraded) => upgraded,
        Err(error) => return problem(500, error.to_string()),
    };
    let protocol = agreed(request, &FORWARD).unwrap_or_default();
    let tunnels = protocol.starts_with("SPDY/");
    if !tunnels && wanted.ports.is_empty() {
        return problem(400, "query parameter \"port\" is required");
    }
    let (answer, session, messages) = match accept(request, body, &FORWARD) {
        Ok(accepted) => accepted,
        Err(error) => return problem(400, format!("websocket: {error}")),
    };
    if tunnels {
        actix_web::rt::spawn(forward::tunnel(session, messages, upgraded));
    } else {
        actix_web::rt::spawn(forward::channels(session, messages, Codec::of(&protocol), upgraded, wanted.ports));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_of_both_kinds() {
        let kubelet = Wanted::of("command=sh&command=-c&input=1&output=1&error=1&tty=1");
        assert_eq!(kubelet.command, ["sh", "-c"]);
        let all = Channels { stdin: true, stdout: true, stderr: true, tty: true };
        assert_eq!(kubelet.channels, Channels { stderr: false, ..all }, "a terminal has one output");
        let api = Wanted::of("stdin=true&stdout=true&stderr=true&ports=80,81");
        assert_eq!(api.channels, Channels { tty: false, ..all });
        assert_eq!(api.ports, [80, 81]);
    }
}
