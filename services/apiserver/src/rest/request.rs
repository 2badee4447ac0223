//! From HTTP to a request of the pipeline.

use actix_web::HttpRequest;
use actix_web::http::Method;
use actix_web::http::header::{self, HeaderMap};
use actix_web::web::Payload;
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use percent_encoding::percent_decode_str;
use trireme_machinery::status::Status;

use super::server::Peer;
use crate::auth::Credentials;
use crate::pipeline::options::flag;
use crate::pipeline::{Engine, Request, RequestInfo};

/// How large a body may be.
const MAX_BODY: usize = 3 << 20;

/// Everything but the body.
pub(super) fn read_head(http: &HttpRequest, engine: &Engine) -> Request {
    let headers = http.headers();
    let query: Vec<(String, String)> =
        url::form_urlencoded::parse(http.query_string().as_bytes()).into_owned().collect();
    let path = percent_decode_str(http.path()).decode_utf8_lossy().into_owned();
    let peer = http.conn_data::<Peer>();
    let mut request = Request {
        query,
        content_type: text(headers, header::CONTENT_TYPE.as_str()),
        accept: accepted(headers),
        credentials: credentials(http, peer, engine),
        user_agent: text(headers, header::USER_AGENT.as_str()),
        source: peer.and_then(|peer| peer.address).map(|address| address.ip()),
        audit_id: headers.get("audit-id").and_then(|value| value.to_str().ok()).map(str::to_owned),
        if_none_match: headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok()).map(str::to_owned),
        traceparent: trireme_telemetry::http::extract_actix(headers),
        session: headers.get("kubectl-session").and_then(|value| value.to_str().ok()).map(str::to_owned),
        ..Request::default()
    };
    let watching = flag(&request, "watch").unwrap_or(false);
    let pinned = request.pinned_name();
    request.info = RequestInfo::parse(http.method().as_str(), &path, watching, pinned.as_deref());
    // A proxy's backend may be asked what no object is.
    if *http.method() == Method::HEAD && request.info.is_resource && request.info.subresource != "proxy" {
        request.info.verb = "head".to_owned();
    }
    request
}

/// The body, if it is not too large.
pub(super) async fn read_body(http: &HttpRequest, payload: &mut Payload) -> Result<Bytes, Status> {
    let too_large = || Status::request_entity_too_large(format!("limit is {MAX_BODY}"));
    let announced =
        http.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > MAX_BODY) {
        return Err(too_large());
    }
    let mut body = BytesMut::with_capacity(announced.unwrap_or(0));
    while let Some(chunk) = payload.next().await {
        let chunk = chunk.map_err(|error| Status::bad_request(format!("the body ended early: {error}")))?;
        if body.len() + chunk.len() > MAX_BODY {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// Whether the connection should become a WebSocket.
pub(crate) fn wants_websocket(http: &HttpRequest) -> bool {
    let lower = |name| text(http.headers(), name).to_ascii_lowercase();
    lower("connection").contains("upgrade") && lower("upgrade") == "websocket"
}

fn credentials(http: &HttpRequest, peer: Option<&Peer>, engine: &Engine) -> Credentials {
    let headers = http.headers();
    Credentials {
        certificates: peer.map(|peer| peer.certificates.to_vec()).unwrap_or_default(),
        authorization: headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).map(str::to_owned),
        headers: headers
            .iter()
            .filter(|(name, _)| engine.reads_header(name.as_str()))
            .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect(),
    }
}

fn accepted(headers: &HeaderMap) -> String {
    let all: Vec<&str> = headers.get_all(header::ACCEPT).filter_map(|value| value.to_str().ok()).collect();
    all.join(",")
}

fn text(headers: &HeaderMap, name: &str) -> String {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}
