//! The harness of a service: flags and config file, TLS identity, health, metrics page, supervised actors, orderly shutdown.
