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
const REMOTE: [&str; 5] =
    ["v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io", "channel.k8s.io", "base64.channel.k8s.io"];
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

/// The subprotocol that is agreed on: the client's first one that is known here, or none at all if it named none.
/// Whoever knows none of ours is refused before anything stands, with nothing but a 403, as Go's server has it.
fn agreed(request: &HttpRequest, known: &[&str]) -> Result<String, HttpResponse> {
    let offered = request.headers().get_all(SEC_WEBSOCKET_PROTOCOL).filter_map(|value| value.to_str().ok());
    let mut offered =
        offered.flat_map(|value| value.split(',')).map(str::trim).filter(|one| !one.is_empty()).peekable();
    if offered.peek().is_none() {
        return Ok(String::new());
    }
    offered.find(|one| known.contains(one)).map(str::to_owned).ok_or_else(|| HttpResponse::Forbidden().finish())
}

/// Refuses an exec or attach that has no streams, before anybody looks for its Pod. A command is not asked for: as with
/// upstream it is the runtime that misses one.
pub(super) fn check(request: &HttpRequest) -> Result<(), HttpResponse> {
    if Wanted::of(request.query_string()).channels.any() {
        return Ok(());
    }
    Err(problem(400, "you must specify at least 1 of stdin, stdout, stderr"))
}

/// Refuses a port-forward over channels that does not name its ports. A tunnel names them later.
pub(super) fn check_ports(request: &HttpRequest) -> Result<(), HttpResponse> {
    let tunnels = agreed(request, &FORWARD).is_ok_and(|protocol| is_tunnel(&protocol));
    if tunnels || !wants_websocket(request) {
        return Ok(());
    }
    ports(request.query_string()).map(drop).map_err(|why| problem(400, why))
}

fn is_tunnel(protocol: &str) -> bool {
    protocol.starts_with("SPDY/")
}

/// The ports of a query; what is wrong with them in upstream's words.
fn ports(query: &str) -> Result<Vec<u16>, String> {
    let mut ports = Vec::new();
    let mut named = url::form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == "port").peekable();
    if named.peek().is_none() {
        return Err("query parameter \"port\" is required".into());
    }
    for (_, list) in named {
        if list.is_empty() {
            return Err("query parameter \"port\" cannot be empty".into());
        }
        for port in list.split(',') {
            match port.parse::<u16>() {
                Ok(0) => return Err(format!("port \"{list}\" must be > 0")),
                Ok(port) => ports.push(port),
                Err(error) => {
                    let why = match error.kind() {
                        std::num::IntErrorKind::PosOverflow => "value out of range",
                        _ => "invalid syntax",
                    };
                    let parsing = format!("strconv.ParseUint: parsing \"{port}\": {why}");
                    return Err(format!("unable to parse \"{list}\" as a port: {parsing}"));
                }
            }
        }
    }
    Ok(ports)
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
    let Wanted { command, channels } = Wanted::of(request.query_string());
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
    let protocol = match agreed(request, &REMOTE) {
        Ok(protocol) => protocol,
        Err(refused) => return refused,
    };
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
    let protocol = match agreed(request, &FORWARD) {
        Ok(protocol) => protocol,
        Err(refused) => return refused,
    };
    // Those of a tunnel, if it names any here, are only a hint to the runtime.
    let ports = ports(request.query_string()).unwrap_or_default();
    let call =
        pb::PortForwardRequest { pod_sandbox_id: sandbox, port: ports.iter().map(|port| i32::from(*port)).collect() };
    let url = match cri.port_forward(call).await {
        Ok(url) => url,
        Err(error) => return problem(500, error.to_string()),
    };
    let upgraded = match spdy::upgrade(&url, &RUNTIME_FORWARD).await {
        Ok(upgraded) => upgraded,
        Err(error) => return problem(500, error.to_string()),
    };
    let (answer, session, messages) = match accept(request, body, &FORWARD) {
        Ok(accepted) => accepted,
        Err(error) => return problem(400, format!("websocket: {error}")),
    };
    if is_tunnel(&protocol) {
        actix_web::rt::spawn(forward::tunnel(session, messages, upgraded));
    } else {
        actix_web::rt::spawn(forward::channels(session, messages, Codec::of(&protocol), upgraded, ports));
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
        let api = Wanted::of("stdin=true&stdout=true&stderr=true");
        assert_eq!(api.channels, Channels { tty: false, ..all });
    }

    #[test]
    fn ports_of_a_query() {
        assert_eq!(ports("port=80,81&port=5"), Ok(vec![80, 81, 5]));
        let wrong = [
            ("", "query parameter \"port\" is required"),
            ("port=", "query parameter \"port\" cannot be empty"),
            ("port=0", "port \"0\" must be > 0"),
            ("port=1,x", "unable to parse \"1,x\" as a port: strconv.ParseUint: parsing \"x\": invalid syntax"),
            (
                "port=65536",
                "unable to parse \"65536\" as a port: strconv.ParseUint: parsing \"65536\": value out of range",
            ),
        ];
        for (query, why) in wrong {
            assert_eq!(ports(query), Err(why.to_owned()));
        }
    }

    fn offering(protocols: &[&str]) -> HttpRequest {
        let mut request = actix_web::test::TestRequest::default();
        for protocol in protocols {
            request = request.append_header((SEC_WEBSOCKET_PROTOCOL, *protocol));
        }
        request.to_http_request()
    }

    #[test]
    fn who_speaks_none_of_ours_is_forbidden() {
        let agreed = |protocols: &[&str]| agreed(&offering(protocols), &REMOTE).map_err(|answer| answer.status());
        assert_eq!(agreed(&[]), Ok(String::new()), "the protocol without a name is upstream's too");
        assert_eq!(agreed(&["foo, v4.channel.k8s.io", "v5.channel.k8s.io"]), Ok("v4.channel.k8s.io".into()));
        assert_eq!(agreed(&["base64.channel.k8s.io"]), Ok("base64.channel.k8s.io".into()));
        for unknown in ["foo", "foo, bar", "V4.channel.k8s.io"] {
            assert_eq!(agreed(&[unknown]), Err(actix_web::http::StatusCode::FORBIDDEN), "{unknown}");
        }
    }

    #[test]
    fn who_wants_no_stream_is_told_so() {
        let check = |query: &str| {
            let uri = format!("/exec/n/p/c?command=ls&{query}");
            let request = actix_web::test::TestRequest::with_uri(&uri).to_http_request();
            check(&request).map_err(|answer| answer.status().as_u16())
        };
        assert_eq!(check("output=1"), Ok(()));
        for query in ["", "tty=1", "tty=1&error=1", "output=0"] {
            assert_eq!(check(query), Err(400), "{query}");
        }
    }
}
