//! Defaults of endpoint slices.

use trireme_machinery::schema::DefaultFn;

use crate::defaults::absent;

/// Type and defaults.
pub(crate) const DEFAULTS: &[(&str, DefaultFn)] = &[("discovery.v1.EndpointPort", |o| {
    absent(o, "name", "");
    absent(o, "protocol", "TCP");
})];
