//! Tests of the whole lie in `e2e/`; what they are made with is `trireme-testkit`.
