//! Defaults of priorities.

use trireme_machinery::schema::DefaultFn;

use crate::defaults::absent;

/// Type and defaults.
pub(crate) const DEFAULTS: &[(&str, DefaultFn)] =
    &[("scheduling.v1.PriorityClass", |o| absent(o, "preemptionPolicy", "PreemptLowerPriority"))];
