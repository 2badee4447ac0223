//! exec, attach and port-forward: from a client's WebSocket to the runtime's SPDY streams.

use super::spdy::{self, Frame, Frames, Streams};
use super::websocket::{Codec, Input};
use crate::cri::Cri;
use actix_web::http::header::{SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use actix_web::{HttpRequest, HttpResponse, web};
use actix_ws::{AggregatedMessageStream, CloseCode, CloseReason, Session};
use futures::StreamExt as _;
use std::collections::HashMap;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use trireme_proto::runtime::v1 as pb;

/// Of clients, the newest first.
const REMOTE: [&str; 4] = ["v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io", "channel.k8s.io"];
const FORWARD: [&str; 3] = ["SPDY/3.1+portforward.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io"];
/// Of runtimes.
const RUNTIME: [&str; 1] = ["v4.channel.k8s.io"];
const RUNTIME_FORWARD: [&str; 1] = ["portforward.k8s.io"];
/// A message that a client may send.
const MESSAGE: usize = 32 << 20;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;

/// Which streams are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Wanted {
    command: Vec<String>,
    stdin: bool,
    stdout: bool,
    stderr: bool,
    tty: bool,
    ports: Vec<u16>,
}

impl Wanted {
    /// Reads a query: of the kubelet's API (`input=1`), or of the API server's (`stdin=true`).
    fn of(query: &str) -> Self {
        let mut wanted = Self::default();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            let yes = matches!(&*value, "1" | "true");
            match &*name {
                "command" => wanted.command.push(value.into_owned()),
                "input" | "stdin" => wanted.stdin = yes,
                "output" | "stdout" => wanted.stdout = yes,
                "error" | "stderr" => wanted.stderr = yes,
                "tty" => wanted.tty = yes,
                "port" | "ports" => wanted.ports.extend(value.split(',').filter_map(|port| port.parse::<u16>().ok())),
                _ => {}
            }
        }
        // A terminal has one output.
        wanted.stderr &= !wanted.tty;
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
    let wanted = Wanted::of(request.query_string());
    if !(wanted.stdin || wanted.stdout || wanted.stderr) {
        return problem(400, "you must specify at least 1 of stdin, stdout, stderr");
    }
    let call = pb::ExecRequest {
        container_id: id,
        cmd: wanted.command.clone(),
        tty: wanted.tty,
        stdin: wanted.stdin,
        stdout: wanted.stdout,
        stderr: wanted.stderr,
    };
    match cri.exec(call).await {
        Ok(url) => channels(request, body, &url, wanted).await,
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
    let mut wanted = Wanted::of(request.query_string());
    wanted.tty = tty;
    wanted.stderr &= !tty;
    if !(wanted.stdin || wanted.stdout || wanted.stderr) {
        return problem(400, "you must specify at least 1 of stdin, stdout, stderr");
    }
    let call = pb::AttachRequest {
        container_id: id,
        stdin: wanted.stdin,
        tty: wanted.tty,
        stdout: wanted.stdout,
        stderr: wanted.stderr,
    };
    match cri.attach(call).await {
        Ok(url) => channels(request, body, &url, wanted).await,
        Err(error) => problem(500, error.to_string()),
    }
}

async fn channels(request: &HttpRequest, body: web::Payload, url: &str, wanted: Wanted) -> HttpResponse {
    if !wants_websocket(request) {
        return problem(400, "Upgrade request required: this kubelet takes WebSocket");
    }
    let protocol = agreed(request, &REMOTE).unwrap_or_default();
    let upgraded = match spdy::upgrade(url, &RUNTIME).await {
        Ok(upgraded) => upgraded,
        Err(error) => return problem(500, error.to_string()),
    };
    let (frames, mut streams) = upgraded.split();
    let opened = match open(&mut streams, &wanted).await {
        Ok(opened) => opened,
        Err(error) => return problem(500, error.to_string()),
    };
    let (answer, session, messages) = match accept(request, body, &REMOTE) {
        Ok(accepted) => accepted,
        Err(error) => return problem(400, format!("websocket: {error}")),
    };
    actix_web::rt::spawn(bridge(session, messages, Codec::of(&protocol), frames, streams, opened));
    answer
}

/// Streams by channel, in the order in which runtimes await them.
async fn open(streams: &mut Streams, wanted: &Wanted) -> std::io::Result<HashMap<u8, u32>> {
    let all = [
        (ERROR, "error", true),
        (STDIN, "stdin", wanted.stdin),
        (STDOUT, "stdout", wanted.stdout),
        (STDERR, "stderr", wanted.stderr),
        (RESIZE, "resize", wanted.tty),
    ];
    let mut opened = HashMap::new();
    for (channel, name, _) in all.into_iter().filter(|(_, _, wanted)| *wanted) {
        opened.insert(channel, streams.open(&[("streamtype", name)]).await?);
    }
    Ok(opened)
}

/// Carries both ways until the command has ended, or either side is gone.
async fn bridge(
    mut session: Session,
    mut messages: AggregatedMessageStream,
    codec: Codec,
    mut frames: Frames,
    mut streams: Streams,
    opened: HashMap<u8, u32>,
) {
    let by_stream: HashMap<u32, u8> = opened.iter().map(|(channel, stream)| (*stream, *channel)).collect();
    let mut awaited: Vec<u8> =
        opened.keys().copied().filter(|channel| matches!(*channel, STDOUT | STDERR | ERROR)).collect();
    let outcome: std::io::Result<()> = async {
        while !awaited.is_empty() {
            tokio::select! {
                message = messages.next() => match message {
                    Some(Ok(message)) => {
                        if let actix_ws::AggregatedMessage::Ping(data) = &message {
                            let _ = session.pong(data).await;
                        }
                        match codec.decode(message) {
                            Input::Data { channel, data } if matches!(channel, STDIN | RESIZE) => {
                                if let Some(stream) = opened.get(&channel) {
                                    streams.data(*stream, &data, false).await?;
                                }
                            }
                            Input::End { channel } => {
                                if let Some(stream) = opened.get(&channel) {
                                    streams.data(*stream, &[], true).await?;
                                }
                            }
                            Input::Closed => return Ok(()),
                            _ => {}
                        }
                    }
                    _ => return Ok(()),
                },
                frame = frames.next() => match frame? {
                    Some(Frame::Data { stream, data, fin }) => {
                        let Some(channel) = by_stream.get(&stream) else { continue };
                        if !data.is_empty() && !codec.send(&mut session, *channel, &data).await {
                            return Ok(());
                        }
                        if fin {
                            awaited.retain(|known| known != channel);
                        }
                    }
                    Some(Frame::Reset { stream }) => {
                        let channel = by_stream.get(&stream).copied();
                        awaited.retain(|known| Some(*known) != channel);
                    }
                    Some(Frame::Ping { id }) => streams.pong(id).await?,
                    Some(Frame::Other) => {}
                    Some(Frame::GoAway) | None => return Ok(()),
                },
            }
        }
        Ok(())
    }
    .await;
    if let Err(error) = outcome {
        tracing::debug!(%error, "a stream to the runtime broke");
    }
    streams.close().await;
    // The client may be gone already.
    let _ = session.close(Some(CloseReason { code: CloseCode::Normal, description: None })).await;
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
        actix_web::rt::spawn(tunnel(session, messages, upgraded));
    } else {
        actix_web::rt::spawn(forward(session, messages, Codec::of(&protocol), upgraded, wanted.ports));
    }
    answer
}

/// SPDY inside of WebSocket: the bytes are the runtime's business.
async fn tunnel(mut session: Session, mut messages: AggregatedMessageStream, upgraded: spdy::Upgraded) {
    let (mut read, mut write) = tokio::io::split(upgraded.stream);
    let mut early = upgraded.early;
    let mut buffer = bytes::BytesMut::with_capacity(32 << 10);
    loop {
        if !early.is_empty() && session.binary(std::mem::take(&mut early)).await.is_err() {
            break;
        }
        tokio::select! {
            message = messages.next() => match message {
                Some(Ok(actix_ws::AggregatedMessage::Binary(data))) => {
                    if write.write_all(&data).await.is_err() { break }
                }
                Some(Ok(actix_ws::AggregatedMessage::Ping(data))) => {
                    if session.pong(&data).await.is_err() { break }
                }
                Some(Ok(actix_ws::AggregatedMessage::Close(_))) | Some(Err(_)) | None => break,
                Some(Ok(_)) => {}
            },
            read = read.read_buf(&mut buffer) => match read {
                Ok(0) | Err(_) => break,
                Ok(_) => {
                    if session.binary(buffer.split().freeze()).await.is_err() { break }
                }
            },
        }
    }
    let _ = write.shutdown().await;
    let _ = session.close(Some(CloseReason { code: CloseCode::Normal, description: None })).await;
}

/// Two channels a port, data and error; each begins with the port's number.
async fn forward(
    mut session: Session,
    mut messages: AggregatedMessageStream,
    codec: Codec,
    upgraded: spdy::Upgraded,
    ports: Vec<u16>,
) {
    let (mut frames, mut streams) = upgraded.split();
    let mut by_stream: HashMap<u32, u8> = HashMap::new();
    let mut by_channel: HashMap<u8, u32> = HashMap::new();
    let outcome: std::io::Result<()> = async {
        for (index, port) in ports.iter().take(100).enumerate() {
            let (data, error) = ((index * 2) as u8, (index * 2 + 1) as u8);
            let (number, id) = (port.to_string(), index.to_string());
            for (channel, kind) in [(error, "error"), (data, "data")] {
                let headers = [("streamtype", kind), ("port", number.as_str()), ("requestid", id.as_str())];
                let stream = streams.open(&headers).await?;
                by_stream.insert(stream, channel);
                by_channel.insert(channel, stream);
                if kind == "error" {
                    streams.data(stream, &[], true).await?;
                }
                codec.send(&mut session, channel, &port.to_le_bytes()).await;
            }
        }
        loop {
            tokio::select! {
                message = messages.next() => match message {
                    Some(Ok(message)) => match codec.decode(message) {
                        Input::Data { channel, data } if channel % 2 == 0 => {
                            if let Some(stream) = by_channel.get(&channel) {
                                streams.data(*stream, &data, false).await?;
                            }
                        }
                        Input::Closed => return Ok(()),
                        _ => {}
                    },
                    _ => return Ok(()),
                },
                frame = frames.next() => match frame? {
                    Some(Frame::Data { stream, data, fin }) => {
                        let Some(channel) = by_stream.get(&stream).copied() else { continue };
                        if !data.is_empty() && !codec.send(&mut session, channel, &data).await {
                            return Ok(());
                        }
                        if fin {
                            by_stream.remove(&stream);
                            // Without a data channel there is nothing left to carry.
                            if !by_stream.values().any(|channel| channel % 2 == 0) {
                                return Ok(());
                            }
                        }
                    }
                    Some(Frame::Ping { id }) => streams.pong(id).await?,
                    Some(Frame::GoAway) | None => return Ok(()),
                    Some(Frame::Reset { .. } | Frame::Other) => {}
                },
            }
        }
    }
    .await;
    if let Err(error) = outcome {
        tracing::debug!(%error, "a forwarded connection broke");
    }
    streams.close().await;
    let _ = session.close(Some(CloseReason { code: CloseCode::Normal, description: None })).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_of_both_kinds() {
        let kubelet = Wanted::of("command=sh&command=-c&input=1&output=1&error=1&tty=1");
        assert_eq!(kubelet.command, ["sh", "-c"]);
        assert!(kubelet.stdin && kubelet.stdout && kubelet.tty && !kubelet.stderr);
        let api = Wanted::of("stdin=true&stdout=true&stderr=true&ports=80,81");
        assert!(api.stdin && api.stderr && !api.tty);
        assert_eq!(api.ports, [80, 81]);
    }
}
