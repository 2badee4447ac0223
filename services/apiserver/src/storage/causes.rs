//! The trace context beside a version, as the store keeps it.

use trireme_proto::resources::v1 as resources;
use trireme_proto::store::v1 as store;
use trireme_telemetry::{Cause, TraceParent};

/// As the store gives it back; None when it knows none.
pub fn from_store(cause: &store::Cause) -> Option<Cause> {
    let read = Cause {
        cause: TraceParent::parse(&cause.cause),
        intent: TraceParent::parse(&cause.intent),
        cause_time: cause.cause_unix_nanos,
        intent_time: cause.intent_unix_nanos,
        inferred: cause.inferred,
    };
    (!read.is_empty()).then_some(read)
}

/// As the store takes it; None where there is nothing to keep.
pub fn to_store(cause: Option<&Cause>, fence: Option<&resources::Fence>) -> Option<store::Cause> {
    if cause.is_none() && fence.is_none() {
        return None;
    }
    let text = |parent: Option<TraceParent>| parent.map(|p| p.to_string()).unwrap_or_default();
    let cause = cause.copied().unwrap_or_default();
    Some(store::Cause {
        cause: text(cause.cause),
        intent: text(cause.intent),
        cause_unix_nanos: cause.cause_time,
        intent_unix_nanos: cause.intent_time,
        inferred: cause.inferred,
        fence: fence.map(|fence| store::Fence {
            controller: fence.controller.clone(),
            key: fence.key.clone(),
            shard: fence.shard,
            epoch: fence.epoch,
            claim: fence.claim.clone(),
        }),
    })
}

/// As the gRPC door hands it on.
pub fn to_door(cause: &Cause) -> resources::Cause {
    let text = |parent: Option<TraceParent>| parent.map(|p| p.to_string()).unwrap_or_default();
    resources::Cause {
        cause: text(cause.cause),
        intent: text(cause.intent),
        cause_unix_nanos: cause.cause_time,
        intent_unix_nanos: cause.intent_time,
        inferred: cause.inferred,
    }
}
