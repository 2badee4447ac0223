//! What a component is built with: typed client, informers, work queues, leases, claims, event recorder.
