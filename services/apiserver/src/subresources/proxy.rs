//! `nodes/proxy`, `pods/proxy`, `services/proxy`: a request goes on to what the object stands for.

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use http::{HeaderMap, HeaderValue, Method};
use http_body_util::BodyStream;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};
use serde_json::Value;
use trireme_machinery::gvk::GroupResource;
use trireme_machinery::status::Status;

use super::Subresources;
use super::kubelet::{Location, full, is_global_unicast};
use crate::auth::user::quoted;
use crate::pipeline::{Answer, Body, Context, RawAnswer, Request, RequestInfo};

/// Headers that end at each hop.
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

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

impl Subresources {
    pub(super) async fn proxy(&self, _context: &Context, request: &Request) -> Result<Answer, Status> {
        let info = &request.info;
        let location = self.backend(request).await?;
        let method = match info.verb.as_str() {
            "create" => Method::POST,
            "update" => Method::PUT,
            "patch" => Method::PATCH,
            "delete" | "deletecollection" => Method::DELETE,
            _ => Method::GET,
        };
        let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&request.query).finish();
        let path = path(info);
        let path = if query.is_empty() { path } else { format!("{path}?{query}") };
        let mut headers = HeaderMap::new();
        for (name, text) in
            [(http::header::CONTENT_TYPE, &request.content_type), (http::header::ACCEPT, &request.accept)]
        {
            if let Ok(value) = HeaderValue::from_str(text)
                && !text.is_empty()
            {
                headers.insert(name, value);
            }
        }
        let answer =
            self.inner.kubelets.send(&location, method, &path, headers, full(request.body.clone()), true).await?;
        let (parts, body) = answer.into_parts();
        let text = |value: &HeaderValue| value.to_str().unwrap_or_default().to_owned();
        let content_type = parts.headers.get(http::header::CONTENT_TYPE).map(text).unwrap_or_default();
        let skipped = |name: &str| HOP_BY_HOP.contains(&name) || name == "content-type" || name == "content-length";
        let headers = parts.headers.iter().filter(|(name, _)| !skipped(name.as_str()));
        let headers = headers.map(|(name, value)| (name.to_string(), text(value))).collect();
        let stream = BodyStream::new(body)
            .try_filter_map(|frame| async { Ok::<Option<Bytes>, hyper::Error>(frame.into_data().ok()) })
            .map(|chunk| chunk.map_err(std::io::Error::other));
        Ok(Answer::Raw(RawAnswer {
            code: parts.status.as_u16(),
            content_type,
            headers,
            body: Body::Stream(Box::pin(stream)),
        }))
    }

    async fn backend(&self, request: &Request) -> Result<Location, Status> {
        let info = &request.info;
        let (scheme, name, port) = split(&info.name);
        match info.resource.as_str() {
            "nodes" => {
                let mut location = self.inner.kubelets.locate(name).await?;
                if let Some(port) = port {
                    location.port = port
                        .parse()
                        .map_err(|_| Status::bad_request(format!("invalid node request {}", quoted(&info.name))))?;
                    location.tls = scheme == "https";
                }
                location.foreign = true;
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
                Ok(Location { host: host.to_owned(), port, tls: scheme == "https", foreign: true })
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
                return Ok(Location { host, port, tls: scheme == "https", foreign: true });
            }
        }
        let resource = GroupResource::new("", "services");
        tracing::debug!(%resource, namespace, name, "nothing is ready behind the Service");
        Err(Status::service_unavailable(format!("no endpoints available for service {}", quoted(name))))
    }
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
}
