//! The watch event bus: NATS, or in-process; gap detection.
