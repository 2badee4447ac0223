//! The process's metrics, as a Prometheus page.

use std::sync::OnceLock;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

/// Buckets of every histogram: seconds, from half a millisecond to a minute.
const BUCKETS: &[f64] =
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

static PAGE: OnceLock<PrometheusHandle> = OnceLock::new();

/// Installs the recorder behind the `metrics` macros, once a process.
pub(crate) fn install() {
    PAGE.get_or_init(|| {
        let builder = PrometheusBuilder::new();
        // The buckets are a constant that is not empty, the only thing this refuses.
        let builder = builder.set_buckets(BUCKETS).unwrap_or_else(|_| PrometheusBuilder::new());
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        // Someone else's recorder (a test's) stays in place; this page is then empty.
        let _ = metrics::set_global_recorder(recorder);
        handle
    });
}

/// The metrics of this process in Prometheus' text format. Empty before [`crate::init`].
#[must_use]
pub fn metrics_text() -> String {
    PAGE.get().map_or_else(String::new, |page| {
        page.run_upkeep();
        page.render()
    })
}
