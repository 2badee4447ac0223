//! Defaults of priority and fairness.

use trireme_machinery::schema::DefaultFn;

use crate::defaults::{Object, absent, empty};

/// Type and defaults.
pub(crate) const DEFAULTS: &[(&str, DefaultFn)] = &[
    ("flowcontrol.v1.FlowSchemaSpec", |o| empty(o, "matchingPrecedence", 1000)),
    ("flowcontrol.v1.ExemptPriorityLevelConfiguration", |o| shares(o, 0)),
    ("flowcontrol.v1.LimitedPriorityLevelConfiguration", |o| shares(o, 30)),
    ("flowcontrol.v1.QueuingConfiguration", queuing),
];

fn shares(level: &mut Object, nominal: i32) {
    absent(level, "nominalConcurrencyShares", nominal);
    absent(level, "lendablePercent", 0);
}

fn queuing(queuing: &mut Object) {
    empty(queuing, "handSize", 8);
    empty(queuing, "queues", 64);
    empty(queuing, "queueLengthLimit", 50);
}
