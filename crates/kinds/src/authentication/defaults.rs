//! Defaults of tokens.

use trireme_machinery::schema::DefaultFn;

use crate::defaults::absent;

/// Type and defaults.
pub(crate) const DEFAULTS: &[(&str, DefaultFn)] =
    &[("authentication.v1.TokenRequestSpec", |o| absent(o, "expirationSeconds", 3600))];
