//! Audit: one event for each request that is answered.

use std::path::Path;

use serde_json::{Map, Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use trireme_machinery::status::Status;
use trireme_machinery::time;

use super::{Answer, Context, Request};
use crate::error::Error;

/// How many events may wait for the disk; more are dropped and counted.
const QUEUE: usize = 4096;

/// Where audit events go.
pub struct Audit {
    lines: mpsc::Sender<Vec<u8>>,
}

// === impl Audit ===

impl Audit {
    /// Events as lines of a file (`-`: standard output), and the writer's loop to be run.
    pub async fn to_file(path: &Path) -> Result<(Self, impl Future<Output = ()> + Send + 'static), Error> {
        let mut out: Box<dyn tokio::io::AsyncWrite + Send + Unpin> = if path == Path::new("-") {
            Box::new(tokio::io::stdout())
        } else {
            let opened = tokio::fs::OpenOptions::new().create(true).append(true).open(path).await;
            Box::new(opened.map_err(|source| Error::Read { path: path.to_owned(), source })?)
        };
        let (lines, mut inbox) = mpsc::channel::<Vec<u8>>(QUEUE);
        let writer = async move {
            let mut batch = Vec::new();
            while inbox.recv_many(&mut batch, QUEUE).await > 0 {
                let text: Vec<u8> = batch.drain(..).flatten().collect();
                if let Err(error) = out.write_all(&text).await {
                    tracing::error!(%error, "audit events can't be written");
                }
                let _ = out.flush().await;
            }
        };
        Ok((Self { lines }, writer))
    }

    /// Records an answered request at the level of its metadata.
    pub(crate) fn record(&self, context: &Context, request: &Request, outcome: &Result<Answer, Status>, code: u16) {
        let mut line = event(context, request, outcome, code).to_string().into_bytes();
        line.push(b'\n');
        if self.lines.try_send(line).is_err() {
            metrics::counter!("apiserver_audit_error_total").increment(1);
        }
    }
}

fn event(context: &Context, request: &Request, outcome: &Result<Answer, Status>, code: u16) -> Value {
    let info = &context.info;
    let annotations: Map<String, Value> =
        context.annotations().into_iter().map(|(key, value)| (key, Value::String(value))).collect();
    let mut event = json!({
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": context.audit_id,
        "stage": "ResponseComplete",
        "requestURI": uri(request),
        "verb": info.verb,
        "user": context.user,
        "sourceIPs": context.source.map(|source| vec![source.to_string()]).unwrap_or_default(),
        "userAgent": context.user_agent,
        "responseStatus": {"metadata": {}, "code": code},
        "requestReceivedTimestamp": time::format_micro(context.now),
        "stageTimestamp": time::format_micro(jiff::Timestamp::now()),
        "annotations": annotations,
    });
    if info.is_resource {
        let mut object = json!({"resource": info.resource, "apiVersion": info.version});
        for (key, value) in [
            ("namespace", &info.namespace),
            ("name", &info.name),
            ("apiGroup", &info.group),
            ("subresource", &info.subresource),
        ] {
            if !value.is_empty() {
                object[key] = Value::String(value.clone());
            }
        }
        event["objectRef"] = object;
    }
    if let Err(status) = outcome {
        event["responseStatus"]["status"] = json!("Failure");
        event["responseStatus"]["reason"] = json!(status.reason);
        event["responseStatus"]["message"] = json!(status.message);
    }
    if let Some(trace) = context.trace {
        event["annotations"]["trireme.dev/trace"] = json!(trace.trace_id().to_string());
    }
    event
}

fn uri(request: &Request) -> String {
    if request.query.is_empty() {
        return request.info.path.clone();
    }
    format!("{}?{}", request.info.path, request.query_string())
}
