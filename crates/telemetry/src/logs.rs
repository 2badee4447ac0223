//! Log lines on standard error: text for people, JSON for machines, both with the ids of the current span.

use std::fmt;

use serde::ser::{SerializeMap, Serializer};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::TraceParent;
use opentelemetry::trace::TraceContextExt;

/// One event, one line.
pub(crate) enum Format {
    Text,
    Json { service: String },
}

#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, serde_json::Value)>,
}

impl<S, N> FormatEvent<S, N> for Format
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        // Entering a span makes it OpenTelemetry's current one as well.
        let span =
            opentelemetry::Context::map_current(|context| TraceParent::from_context(context.span().span_context()));
        let now = jiff::Timestamp::now();
        let meta = event.metadata();
        match self {
            Self::Text => {
                write!(out, "{now:.3} {:>5} {}: {}", meta.level().as_str(), meta.target(), fields.message)?;
                for (key, value) in &fields.others {
                    match value.as_str() {
                        Some(text) if !text.contains([' ', '"', '=']) => write!(out, " {key}={text}")?,
                        _ => write!(out, " {key}={value}")?,
                    }
                }
                if let Some(span) = span {
                    write!(out, " trace_id={} span_id={}", span.trace_id(), span.span_id())?;
                }
                writeln!(out)
            }
            Self::Json { service } => {
                let mut line = Vec::with_capacity(256);
                json_line(&mut line, service, &now, meta, &fields, span).map_err(|_| fmt::Error)?;
                writeln!(out, "{}", String::from_utf8_lossy(&line))
            }
        }
    }
}

fn json_line(
    line: &mut Vec<u8>,
    service: &str,
    now: &jiff::Timestamp,
    meta: &tracing::Metadata<'_>,
    fields: &Fields,
    span: Option<TraceParent>,
) -> serde_json::Result<()> {
    let mut writer = serde_json::Serializer::new(line);
    let mut map = writer.serialize_map(None)?;
    map.serialize_entry("ts", &format_args!("{now:.6}").to_string())?;
    map.serialize_entry("level", &meta.level().as_str().to_ascii_lowercase())?;
    map.serialize_entry("service", service)?;
    map.serialize_entry("target", meta.target())?;
    map.serialize_entry("msg", &fields.message)?;
    if let Some(span) = span {
        map.serialize_entry("trace_id", &span.trace_id().to_string())?;
        map.serialize_entry("span_id", &span.span_id().to_string())?;
    }
    for (key, value) in &fields.others {
        map.serialize_entry(key, value)?;
    }
    map.end()
}

// === impl Fields ===

impl Fields {
    fn put(&mut self, field: &Field, value: serde_json::Value) {
        if field.name() == "message" {
            self.message = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        } else {
            self.others.push((field.name(), value));
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        let mut text = value.to_string();
        let mut source = value.source();
        while let Some(cause) = source {
            // Many errors already print their source.
            let cause_text = cause.to_string();
            if !text.contains(&cause_text) {
                text.push_str(": ");
                text.push_str(&cause_text);
            }
            source = cause.source();
        }
        self.put(field, text.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }
}
