//! Traces, metrics and logs; carrying the cause over gRPC, HTTP, NATS and the store.
