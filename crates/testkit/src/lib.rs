//! Starts real parts for tests: store members, API servers, NATS, containerd.
