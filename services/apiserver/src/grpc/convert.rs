//! Between the messages of the door and the pipeline's own.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use tonic::metadata::MetadataMap;
use tonic::{Code, Extensions};
use trireme_kinds::Kind;
use trireme_machinery::meta;
use trireme_machinery::status::Status;
use trireme_proto::resources::v1 as api;
use trireme_service::tls::ConnectInfo;
use trireme_telemetry::{Hop, TraceParent};

use crate::auth::Credentials;
use crate::pipeline::{Engine, ObjectBody, Request, RequestInfo, Stored, answer};
use crate::storage::causes;

/// Everything about a call that is not in its message.
#[derive(Debug, Clone, Default)]
pub(super) struct Caller {
    credentials: Credentials,
    user_agent: String,
    source: Option<std::net::IpAddr>,
    traceparent: Option<TraceParent>,
    session: Option<String>,
}

// === impl Caller ===

impl Caller {
    pub(super) fn of(metadata: &MetadataMap, extensions: &Extensions, engine: &Engine) -> Self {
        let text = |name: &str| metadata.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let connection = extensions.get::<ConnectInfo>();
        let headers = metadata.clone().into_headers();
        Self {
            credentials: Credentials {
                certificates: connection.map(|info| info.chain.to_vec()).unwrap_or_default(),
                authorization: text("authorization"),
                headers: headers
                    .iter()
                    .filter(|(name, _)| engine.reads_header(name.as_str()))
                    .map(|(name, value)| {
                        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
                    })
                    .collect(),
            },
            user_agent: text("user-agent").unwrap_or_default(),
            source: connection.and_then(|info| info.remote).map(|remote| remote.ip()),
            traceparent: text("traceparent").and_then(|text| TraceParent::parse(&text)),
            session: text("kubectl-session"),
        }
    }

    /// The pipeline's request for a message of the door.
    pub(super) fn request(&self, message: api::Request) -> Result<Request, Status> {
        let mut info = RequestInfo::resource(&message.verb, &message.group, &message.version, &message.resource);
        info.namespace = message.namespace;
        info.name = message.name;
        info.subresource = message.subresource;
        if info.resource == "namespaces" && info.group.is_empty() && !info.name.is_empty() {
            info.namespace.clone_from(&info.name);
        }
        info.path = info.canonical_path();
        let mut request = Request {
            content_type: message.content_type,
            credentials: self.credentials.clone(),
            user_agent: self.user_agent.clone(),
            source: self.source,
            traceparent: self.traceparent,
            session: self.session.clone(),
            fence: message.fence,
            body: message.body,
            ..Request::default()
        };
        let options: Value = if message.options.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&message.options)
                .map_err(|error| Status::bad_request(format!("the options are not JSON: {error}")))?
        };
        if info.verb == "delete" && request.body.is_empty() && !options.is_null() {
            // A delete's options are an object with structure: the body it has at the REST door.
            request.body = message.options;
            request.content_type = "application/json".to_owned();
            request.query = query(&options).into_iter().filter(|(name, _)| name == "timeout").collect();
        } else {
            request.query = query(&options);
        }
        if info.name.is_empty() && matches!(info.verb.as_str(), "list" | "watch" | "deletecollection") {
            info.name = request.pinned_name().unwrap_or_default();
        }
        request.info = info;
        Ok(request)
    }
}

/// Options as the query that says the same.
fn query(options: &Value) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for (name, value) in options.as_object().into_iter().flatten() {
        let mut push = |value: &Value| match value {
            Value::String(text) => out.push((name.clone(), text.clone())),
            Value::Bool(_) | Value::Number(_) => out.push((name.clone(), value.to_string())),
            _ => {}
        };
        match value {
            _ if matches!(name.as_str(), "kind" | "apiVersion") => {}
            Value::Array(items) => items.iter().for_each(&mut push),
            other => push(other),
        }
    }
    out
}

/// An object for the wire: as the cache has it, or converted.
pub(super) fn item(kind: &Kind, stored: &Arc<Stored>) -> api::Item {
    api::Item { object: answer(kind, stored.clone()).encode(), revision: stored.revision, cause: cause(stored) }
}

/// A version's cause, as it is handed to watchers.
pub(super) fn cause(stored: &Stored) -> Option<api::Cause> {
    let cause = stored.cause.as_deref()?.over(Hop::Watch);
    (!cause.is_empty()).then(|| causes::to_door(&cause))
}

/// The body, revision and cause of an answered object.
pub(super) fn object(body: &ObjectBody) -> (Bytes, i64, Option<api::Cause>) {
    match body {
        ObjectBody::Stored(stored) => (stored.encode(), stored.revision, cause(stored)),
        ObjectBody::Value(value) => (value.to_string().into(), i64::try_from(meta::revision(value)).unwrap_or(0), None),
    }
}

/// A refusal, with Kubernetes' Status in its details.
pub(super) fn refusal(status: &Status) -> tonic::Status {
    let code = match status.code {
        400 | 415 | 422 => Code::InvalidArgument,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::NotFound,
        405 | 406 => Code::Unimplemented,
        409 if status.is_already_exists() => Code::AlreadyExists,
        409 => Code::Aborted,
        410 => Code::OutOfRange,
        413 | 429 => Code::ResourceExhausted,
        503 => Code::Unavailable,
        504 => Code::DeadlineExceeded,
        _ => Code::Internal,
    };
    // Metadata is text of one line; the whole message is in the details.
    let message: String = status.message.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect();
    tonic::Status::with_details(code, message, serde_json::to_vec(status).unwrap_or_default().into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_become_a_query() {
        let options =
            json!({"kind": "ListOptions", "limit": 5, "labelSelector": "a=b", "dryRun": ["All"], "watch": true});
        let mut pairs = query(&options);
        pairs.sort();
        let pairs: Vec<_> = pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("dryRun", "All"), ("labelSelector", "a=b"), ("limit", "5"), ("watch", "true")]);
    }

    #[test]
    fn a_refusal_carries_the_status() {
        let status = Status::bad_request("no\nway");
        let refused = refusal(&status);
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert_eq!(refused.message(), "no way");
        assert_eq!(serde_json::from_slice::<Status>(refused.details()).unwrap(), status);
    }
}
