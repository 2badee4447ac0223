//! `nodes/proxy`, `pods/proxy`, `services/proxy`: a request goes on to what the object stands for.
//!
//! What goes on is the request as it came, body and all as it comes, without what says who asks here; what comes back is
//! the answer as it is. Backends are no part of the cluster: nobody can vouch for their certificates, and they are shown
//! none of ours. Only a node's kubelet is, at its own port.

use std::cell::Cell;
use std::rc::Rc;

use actix_web::http::StatusCode;
use actix_web::web::Payload;
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use http_body_util::{BodyExt as _, BodyStream, StreamBody};
use hyper::body::{Frame, Incoming};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use trireme_machinery::gvk::GroupResource;
use trireme_machinery::status::Status;

use super::Subresources;
use super::connect::{join, refused};
use super::kubelet::{self, Kubelets, Location, empty, is_global_unicast};
use crate::auth::user::quoted;
use crate::pipeline::{Context, RequestInfo};
use crate::rest::{held, wants_websocket};

/// Headers that end at each hop.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// How the names of headers begin that say who asks. They are meant for us, and would be believed behind us.
const IDENTITY: [&str; 3] = ["authorization", "impersonate-", "x-remote-"];

/// What stands for something else in a path, and is encoded as upstream's is.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// What nobody has read of the request's body.
type Rest = Rc<Cell<Option<Payload>>>;

impl Subresources {
    /// Answers a request to a proxy.
    pub(super) async fn proxy(&self, context: &Context, asked: &HttpRequest, payload: Payload) -> HttpResponse {
        let rest: Rest = Rc::new(Cell::new(Some(payload)));
        let answered = match self.backend(&context.info).await {
            Ok(location) => {
                let reads = |header: &str| self.inner.authenticator.reads(header);
                forward(&self.inner.kubelets, &location, context, asked, &rest, reads).await
            }
            Err(status) => Err(status),
        };
        held(answered.unwrap_or_else(|status| refused(&status)), rest)
    }

    async fn backend(&self, info: &RequestInfo) -> Result<Location, Status> {
        let (scheme, name, port) = split(&info.name);
        match info.resource.as_str() {
            "nodes" => {
                let mut location = self.inner.kubelets.locate(name).await?;
                location.foreign = true;
                if let Some(port) = port {
                    let port = port
                        .parse()
                        .map_err(|_| Status::bad_request(format!("invalid node request {}", quoted(&info.name))))?;
                    // At its own port is the kubelet, whatever the scheme; at others is somebody else.
                    if port != location.port {
                        location = Location { port, tls: scheme == "https", stranger: true, ..location };
                    }
                }
                Ok(location)
            }
            "pods" => {
                let pod = self.inner.objects.get(&self.inner.pods, &info.namespace, name).await?.value();
                let host = pod["status"]["podIPs"][0]["ip"].as_str().unwrap_or_default();
                if !host.parse().is_ok_and(is_global_unicast) {
                    return Err(Status::bad_request("address not allowed"));
                }
                let first = pod.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten();
                let first = first.flat_map(|container| container["ports"].as_array().into_iter().flatten()).next();
                let port = match port {
                    Some(port) => port.parse().ok(),
                    None => {
                        first.and_then(|port| port["containerPort"].as_u64()).and_then(|port| u16::try_from(port).ok())
                    }
                };
                let port = port.unwrap_or(if scheme == "https" { 443 } else { 80 });
                Ok(Location { host: host.to_owned(), port, tls: scheme == "https", foreign: true, stranger: true })
            }
            _ => self.service(&info.namespace, scheme, name, port).await,
        }
    }

    /// The address of an endpoint that is a Pod of this namespace, which has that address: an EndpointSlice alone sends
    /// nobody anywhere.
    fn pod_behind(&self, namespace: &str, endpoint: &Value) -> Option<String> {
        let address = endpoint["addresses"][0].as_str()?;
        let target = &endpoint["targetRef"];
        if target["namespace"] != namespace {
            return None;
        }
        let pod = self.inner.objects.reader().get(&self.inner.pods, namespace, target["name"].as_str()?)?.value();
        let has = pod["status"]["podIPs"].as_array()?.iter().any(|ip| ip["ip"] == address);
        has.then(|| address.to_owned())
    }

    async fn service(&self, namespace: &str, scheme: &str, name: &str, port: Option<&str>) -> Result<Location, Status> {
        let missing = || Status::unknown_resource();
        let services = self.inner.registry.by_resource("", "v1", "services").ok_or_else(missing)?;
        let slices = self.inner.registry.by_resource("discovery.k8s.io", "v1", "endpointslices").ok_or_else(missing)?;
        // Only a number has to be looked up; a name is what the endpoints' port is named.
        let port_name = match port.unwrap_or_default().parse::<i64>() {
            Ok(number) => {
                let service = self.inner.objects.get(&services, namespace, name).await?.value();
                let ports = service["spec"]["ports"].as_array().into_iter().flatten();
                let Some(found) = ports.into_iter().find(|port| port["port"].as_i64() == Some(number)) else {
                    let why = format!("no service port {number} found for service {}", quoted(name));
                    return Err(Status::service_unavailable(why));
                };
                found["name"].as_str().unwrap_or_default().to_owned()
            }
            Err(_) => port.unwrap_or_default().to_owned(),
        };
        for slice in self.inner.objects.reader().list(&slices, Some(namespace)) {
            if slice.label("kubernetes.io/service-name") != Some(name) {
                continue;
            }
            let slice = slice.value();
            let ports = slice["ports"].as_array().into_iter().flatten();
            let port = ports.into_iter().find(|port| port["name"].as_str().unwrap_or_default() == port_name);
            let Some(port) = port.and_then(|port| port["port"].as_u64()).and_then(|port| u16::try_from(port).ok())
            else {
                continue;
            };
            let endpoints = slice["endpoints"].as_array().into_iter().flatten();
            let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != false);
            if let Some(host) = ready.filter_map(|endpoint| self.pod_behind(namespace, endpoint)).next() {
                return Ok(Location { host, port, tls: scheme == "https", foreign: true, stranger: true });
            }
        }
        let resource = GroupResource::new("", "services");
        tracing::debug!(%resource, namespace, name, "nothing is ready behind the Service");
        Err(Status::service_unavailable(format!("no endpoints available for service {}", quoted(name))))
    }
}

/// Sends the request on, and answers with what comes back.
async fn forward(
    kubelets: &Kubelets,
    location: &Location,
    context: &Context,
    asked: &HttpRequest,
    rest: &Rest,
    reads: impl Fn(&str) -> bool,
) -> Result<HttpResponse, Status> {
    let info = &context.info;
    let upgrade = wants_websocket(asked);
    let method = Method::from_bytes(asked.method().as_str().as_bytes())
        .map_err(|_| Status::bad_request(format!("invalid method {}", quoted(asked.method().as_str()))))?;
    let query = asked.query_string();
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    let is_read = matches!(method, Method::GET | Method::HEAD);
    if is_read && !upgrade && info.parts.len() <= 3 && !info.path.ends_with('/') {
        // Relative links of a page need a path that ends.
        let mut moved = HttpResponse::MovedPermanently();
        return Ok(moved.insert_header(("Location", format!("{}/{query}", asked.path()))).finish());
    }
    let mut headers = passed(asked, reads);
    let name = |name: &'static str| HeaderName::from_static(name);
    if let Ok(uri) = HeaderValue::from_str(asked.path()) {
        headers.insert(name("x-forwarded-uri"), uri);
    }
    if let Some(source) = context.source {
        let mut chain: Vec<&str> = Vec::new();
        let source = source.to_string();
        chain.extend(headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok()));
        chain.push(&source);
        if let Ok(chain) = HeaderValue::from_str(&chain.join(", ")) {
            headers.insert(name("x-forwarded-for"), chain);
        }
    }
    let body = if upgrade {
        headers.insert(http::header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(http::header::UPGRADE, HeaderValue::from_static("websocket"));
        empty()
    } else if has_body(asked) {
        pump(rest.clone())
    } else {
        empty()
    };
    let target = format!("{}{query}", path(info));
    let answer = kubelets.send(location, method, &target, headers, body, true).await.map_err(|status| {
        // The kubelets' words are others; what is not allowed stays so.
        match status.message.strip_prefix("error dialing backend: ") {
            Some(why) => Status::service_unavailable(format!("error trying to reach service: {why}")),
            None => status,
        }
    })?;
    if !upgrade {
        return Ok(answered(answer, location, context, asked));
    }
    match answer.status().as_u16() {
        101 => {
            let agreed = answer.headers().clone();
            let payload = rest.take().ok_or_else(|| Status::internal("the connection is gone"))?;
            let mut response = join(answer, payload).await?;
            copy(&agreed, &mut response);
            Ok(response)
        }
        code if code >= 400 => Ok(answered(answer, location, context, asked)),
        code => Err(Status::internal(format!("invalid upgrade response: status code {code}"))),
    }
}

/// The headers that go on.
fn passed(asked: &HttpRequest, reads: impl Fn(&str) -> bool) -> HeaderMap {
    let text = |value: &actix_web::http::header::HeaderValue| value.to_str().unwrap_or_default().to_ascii_lowercase();
    let named: Vec<String> = asked.headers().get_all("connection").map(text).collect();
    let named: Vec<&str> = named.iter().flat_map(|list| list.split(',')).map(str::trim).collect();
    let ends = |name: &str| {
        HOP_BY_HOP.contains(&name)
            || named.contains(&name)
            || IDENTITY.iter().any(|prefix| name.starts_with(prefix))
            || reads(name)
    };
    let mut headers = HeaderMap::new();
    for (name, value) in asked.headers().iter().filter(|(name, _)| !ends(name.as_str())) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name.as_str()), HeaderValue::from_bytes(value.as_bytes()))
        {
            headers.append(name, value);
        }
    }
    // HTTP/2 has the host elsewhere.
    if let Ok(host) = HeaderValue::from_str(asked.connection_info().host())
        && !headers.contains_key(http::header::HOST)
    {
        headers.insert(http::header::HOST, host);
    }
    headers
}

/// Whether a body comes with the request.
fn has_body(asked: &HttpRequest) -> bool {
    let headers = asked.headers();
    if let Some(length) = headers.get("content-length") {
        return length.as_bytes() != b"0";
    }
    // HTTP/2 need not say so beforehand.
    let silent = asked.version() == actix_web::http::Version::HTTP_2
        && matches!(asked.method().as_str(), "POST" | "PUT" | "PATCH");
    silent || headers.contains_key("transfer-encoding")
}

/// The request's body, a piece at a time. What the backend does not want is left as the rest.
fn pump(rest: Rest) -> kubelet::Body {
    let (sender, pieces) = mpsc::channel(1);
    // The payload is bound to this thread.
    actix_web::rt::spawn(async move {
        let Some(mut payload) = rest.take() else { return };
        loop {
            let piece = tokio::select! {
                piece = payload.next() => piece,
                () = sender.closed() => break,
            };
            let Some(piece) = piece else { break };
            let broken = piece.is_err();
            let piece = piece.map(Frame::data).map_err(std::io::Error::other);
            if sender.send(piece).await.is_err() || broken {
                break;
            }
        }
        rest.set(Some(payload));
    });
    StreamBody::new(ReceiverStream::new(pieces)).boxed_unsync()
}

/// The backend's answer as ours.
fn answered(
    answer: http::Response<Incoming>,
    location: &Location,
    context: &Context,
    asked: &HttpRequest,
) -> HttpResponse {
    let (mut parts, body) = answer.into_parts();
    let moved = parts.headers.get(http::header::LOCATION).and_then(|value| value.to_str().ok()).and_then(|target| {
        let info = &context.info;
        let behind = info.parts.get(3..).unwrap_or_default().join("/");
        let prefix = info.path.trim_end_matches('/').strip_suffix(&behind).unwrap_or(&info.path);
        rewritten(target, &location.authority(), asked.connection_info().host(), prefix.trim_end_matches('/'))
    });
    if let Some(moved) = moved.and_then(|moved| HeaderValue::from_str(&moved).ok()) {
        parts.headers.insert(http::header::LOCATION, moved);
    }
    let code = StatusCode::from_u16(parts.status.as_u16()).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut response = HttpResponse::build(code);
    response.insert_header(("Audit-Id", context.audit_id.clone()));
    if !parts.headers.contains_key(http::header::CACHE_CONTROL) {
        response.insert_header(("Cache-Control", "no-cache, private"));
    }
    let length = parts.headers.get(http::header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if let Some(length) = length {
        response.no_chunking(length);
    }
    let pieces = BodyStream::new(body)
        .try_filter_map(|frame| async { Ok::<Option<Bytes>, hyper::Error>(frame.into_data().ok()) })
        .map(|piece| piece.map_err(std::io::Error::other));
    let mut response = response.streaming(pieces);
    copy(&parts.headers, &mut response);
    response
}

/// Adds the headers that a backend set, but for those of its connection.
fn copy<B>(from: &HeaderMap, to: &mut HttpResponse<B>) {
    use actix_web::http::header;
    let known: Vec<HeaderName> =
        from.keys().filter(|name| !to.headers().contains_key(name.as_str())).cloned().collect();
    for name in known.iter().filter(|name| !HOP_BY_HOP.contains(&name.as_str()) && *name != "content-length") {
        for value in from.get_all(name) {
            let name = header::HeaderName::from_bytes(name.as_str().as_bytes());
            if let (Ok(name), Ok(value)) = (name, header::HeaderValue::from_bytes(value.as_bytes())) {
                to.headers_mut().append(name, value);
            }
        }
    }
}

/// Where a redirection of the backend's leads through the proxy, if it would lead past it.
fn rewritten(target: &str, backend: &str, host: &str, prefix: &str) -> Option<String> {
    let behind = target.find("//").filter(|at| *at == 0 || target[..*at].ends_with(':')).map_or(0, |at| at + 2);
    let end = target[behind..].find(['/', '?', '#']).map_or(target.len(), |at| behind + at);
    let there = if behind == 0 { "" } else { &target[behind..end] };
    let (origin, path) = if behind == 0 { ("", target) } else { target.split_at(end) };
    let elsewhere = !there.is_empty() && there != backend && there != host;
    if elsewhere || !path.starts_with('/') {
        return None;
    }
    // Who names us by the name that the client used may go on doing so.
    let origin = if there == host { origin } else { "" };
    let through = if path.starts_with(prefix) { "" } else { prefix };
    Some(format!("{origin}{through}{path}"))
}

/// The path behind `/proxy` as the backend is asked for it, encoded anew.
fn path(info: &RequestInfo) -> String {
    let mut path = String::from("/");
    path.extend(percent_encoding::utf8_percent_encode(&info.parts.get(3..).unwrap_or_default().join("/"), PATH));
    if info.path.ends_with('/') && !path.ends_with('/') {
        path.push('/');
    }
    path
}

/// `name`, `name:port` or `scheme:name:port`.
fn split(id: &str) -> (&str, &str, Option<&str>) {
    let parts: Vec<&str> = id.split(':').collect();
    let given = |port: &'_ str| !port.is_empty();
    match parts.as_slice() {
        [name, port] => ("http", name, Some(*port).filter(|port| given(port))),
        [scheme, name, port] => {
            (if scheme.is_empty() { "http" } else { scheme }, name, Some(*port).filter(|port| given(port)))
        }
        _ => ("http", id, None),
    }
}

#[cfg(test)]
#[path = "proxy_tests.rs"]
mod over_connections;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_reach_the_backend_as_they_were_meant() {
        let behind = |path: &str| super::path(&RequestInfo::parse("GET", path, false, None));
        let pod = "/api/v1/namespaces/a/pods/p/proxy";
        assert_eq!(behind(pod), "/");
        assert_eq!(behind(&format!("{pod}/")), "/");
        assert_eq!(behind(&format!("{pod}/a/b")), "/a/b");
        assert_eq!(behind(&format!("{pod}/a/b/")), "/a/b/");
        assert_eq!(behind(&format!("{pod}/a b?c%/x;y=z")), "/a%20b%3Fc%25/x;y=z");
    }

    #[test]
    fn names_may_carry_scheme_and_port() {
        assert_eq!(split("web"), ("http", "web", None));
        assert_eq!(split("web:80"), ("http", "web", Some("80")));
        assert_eq!(split("https:web:tls"), ("https", "web", Some("tls")));
        assert_eq!(split("https:web:"), ("https", "web", None));
    }

    #[test]
    fn redirections_stay_behind_the_proxy() {
        let told = |target: &str| rewritten(target, "10.0.0.1:80", "api:6443", "/p/proxy");
        assert_eq!(told("/login?a=b").unwrap(), "/p/proxy/login?a=b");
        assert_eq!(told("http://10.0.0.1:80/login/").unwrap(), "/p/proxy/login/");
        assert_eq!(told("https://api:6443/login").unwrap(), "https://api:6443/p/proxy/login");
        assert_eq!(told("/p/proxy/login").unwrap(), "/p/proxy/login");
        for target in ["login", "?next", "http://example.com/login", "//example.com/", "http://10.0.0.1:80"] {
            assert_eq!(told(target), None, "{target}");
        }
    }
}
