//! Setting a process up for traces, metrics and logs.

use std::str::FromStr;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::WithExportConfig as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::ids::Ids;
use crate::spans::Recent;
use crate::{logs, metrics_page, sampling};

/// How often finished spans are sent.
const SEND_EVERY: Duration = Duration::from_millis(500);
/// How long one sending may take.
const SEND_TIMEOUT: Duration = Duration::from_secs(3);
/// How many finished spans wait to be sent; more are dropped.
const QUEUE: usize = 8192;
/// How long a shutdown waits for the last spans to be sent.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);
/// Overrides the log filter, in `tracing`'s directives.
const LOG_ENV: &str = "TRIREME_LOG";

/// What can go wrong here.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The collector's address cannot be used.
    #[error("OTLP endpoint {endpoint:?}: {reason}")]
    Endpoint {
        /// As it was given.
        endpoint: String,
        /// Why not.
        reason: String,
    },
    /// The log level is none.
    #[error("log level {0:?}: {1}")]
    LogLevel(String, String),
    /// Another subscriber is in place.
    #[error("telemetry is already set up in this process")]
    AlreadySet,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(format!("unknown log format {other:?}: text or json")),
        }
    }
}

/// What a process says about itself and where its telemetry goes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `service.name`: apiserver, store, controllers, scheduler, kubelet, proxy, network.
    pub service: String,
    /// `service.instance.id`: a node's or replica's name.
    pub instance: String,
    /// The collector's OTLP gRPC address (`http://127.0.0.1:4317`); none: spans are not sent.
    pub otlp_endpoint: Option<String>,
    /// The part of all traces that is recorded, 0 to 1.
    pub sampling: f64,
    /// How log lines look.
    pub log_format: LogFormat,
    /// A level (`info`) or `tracing` directives (`info,trireme_store=debug`).
    pub log_level: String,
}

impl Settings {
    /// Everything recorded, nothing sent, text logs at `info`.
    #[must_use]
    pub fn new(service: impl Into<String>) -> Self {
        Self {
            service: service.into(),
            instance: String::new(),
            otlp_endpoint: None,
            sampling: 1.0,
            log_format: LogFormat::default(),
            log_level: "info".to_owned(),
        }
    }
}

/// Keeps telemetry running; sends what is left when it is shut down or dropped.
#[derive(Debug)]
#[must_use = "telemetry stops when the guard is dropped"]
pub struct Guard {
    provider: Option<SdkTracerProvider>,
}

impl Guard {
    /// Sends the spans that are left, for at most a few seconds.
    pub async fn shutdown(mut self) {
        if let Some(provider) = self.provider.take() {
            let _ = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(FLUSH_TIMEOUT)).await;
        }
    }

    /// Sends the spans that have finished so far, and waits until they are sent.
    pub async fn flush(&self) {
        if let Some(provider) = self.provider.clone() {
            let _ = tokio::task::spawn_blocking(move || provider.force_flush()).await;
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(provider) = self.provider.take() {
            let _ = provider.shutdown_with_timeout(FLUSH_TIMEOUT);
        }
    }
}

/// Sets the process up. Call it once, inside a tokio runtime that outlives the guard.
///
/// # Errors
/// When the collector's address or the log level is malformed, or telemetry is already set up. A collector that does
/// not answer is no error.
pub fn init(settings: Settings) -> Result<Guard, Error> {
    metrics_page::install();
    let provider = provider(&settings)?;
    opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new());

    let tracer = provider.tracer("trireme");
    let spans = tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_level(false)
        .with_tracked_inactivity(false)
        // Only our own spans: those of HTTP and database libraries are not part of a trace's shape.
        .with_filter(Targets::new().with_target("trireme", LevelFilter::INFO));

    let format = match settings.log_format {
        LogFormat::Text => logs::Format::Text,
        LogFormat::Json => logs::Format::Json { service: settings.service.clone() },
    };
    let lines = tracing_subscriber::fmt::layer()
        .event_format(format)
        .with_writer(std::io::stderr)
        .with_filter(log_filter(&settings.log_level)?);

    let set = tracing_subscriber::registry().with(spans).with(lines).try_init();
    if set.is_err() {
        let _ = provider.shutdown();
        return Err(Error::AlreadySet);
    }
    Ok(Guard { provider: Some(provider) })
}

fn provider(settings: &Settings) -> Result<SdkTracerProvider, Error> {
    let resource = Resource::builder_empty()
        .with_service_name(settings.service.clone())
        .with_attributes([
            KeyValue::new("service.namespace", "trireme"),
            KeyValue::new("service.instance.id", settings.instance.clone()),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("process.pid", i64::from(std::process::id())),
        ])
        .build();
    let mut builder = SdkTracerProvider::builder()
        .with_id_generator(Ids)
        .with_sampler(sampling::sampler(settings.sampling))
        .with_resource(resource)
        .with_span_processor(Recent::global().clone());
    if let Some(endpoint) = settings.otlp_endpoint.as_deref().filter(|endpoint| !endpoint.is_empty()) {
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_tonic()
            .with_endpoint(with_scheme(endpoint))
            .with_timeout(SEND_TIMEOUT)
            .build()
            .map_err(|error| Error::Endpoint { endpoint: endpoint.to_owned(), reason: error.to_string() })?;
        let batches = BatchConfigBuilder::default()
            .with_scheduled_delay(SEND_EVERY)
            .with_max_queue_size(QUEUE)
            .with_max_export_batch_size(512)
            .build();
        builder = builder.with_span_processor(BatchSpanProcessor::builder(exporter).with_batch_config(batches).build());
    }
    Ok(builder.build())
}

fn with_scheme(endpoint: &str) -> String {
    if endpoint.contains("://") { endpoint.to_owned() } else { format!("http://{endpoint}") }
}

/// Our own lines at the asked level; those of libraries from `warn` on, and of the exporter none: it complains at every
/// attempt while there is no collector. Nor of the consensus library, which complains at every attempt to reach a member
/// that is away: the store says itself who leads and who cannot be reached.
fn log_filter(level: &str) -> Result<EnvFilter, Error> {
    let asked = std::env::var(LOG_ENV).ok().filter(|text| !text.is_empty()).unwrap_or_else(|| level.to_owned());
    let text = if asked.parse::<LevelFilter>().is_ok() {
        format!(
            "warn,trireme={asked},openraft=off,opentelemetry=off,opentelemetry_sdk=off,opentelemetry_otlp=off,opentelemetry-otlp=off"
        )
    } else {
        asked.clone()
    };
    EnvFilter::builder().parse(&text).map_err(|error| Error::LogLevel(asked, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_directives() {
        assert!(log_filter("info").is_ok());
        assert!(log_filter("warn,trireme_store=trace").is_ok());
        assert!(log_filter("=;=").is_err());
        assert_eq!(with_scheme("127.0.0.1:4317"), "http://127.0.0.1:4317");
        assert_eq!(with_scheme("http://c:4317"), "http://c:4317");
    }
}
