//! The sampling decision: by trace id for a root, the parent's for a child.

use opentelemetry_sdk::trace::Sampler;

/// Samples `ratio` of all traces, by their id, so that all processes decide alike about a given trace id.
pub(crate) fn sampler(ratio: f64) -> Sampler {
    let root = if ratio >= 1.0 {
        Sampler::AlwaysOn
    } else if ratio > 0.0 {
        Sampler::TraceIdRatioBased(ratio)
    } else {
        Sampler::AlwaysOff
    };
    Sampler::ParentBased(Box::new(root))
}
