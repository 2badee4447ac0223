//! Defaults of APIServices.

use trireme_machinery::schema::DefaultFn;

use crate::defaults::absent;

/// Type and defaults.
pub(crate) const DEFAULTS: &[(&str, DefaultFn)] =
    &[("io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.ServiceReference", |o| absent(o, "port", 443))];
