//! PriorityLevelConfiguration (v1 of flowcontrol.apiserver.k8s.io).

use crate::check::Node;
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::meta;

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("flowcontrol.apiserver.k8s.io", "v1", "PriorityLevelConfiguration", "prioritylevelconfigurations")
        .cluster()
        .generation()
        .status()
        .table(TABLE)
        .check(validate)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Type", "string", field("flowcontrol.v1.PriorityLevelConfigurationSpec", "type"), |o, _| {
        cells::text(o, "spec.type")
    }),
    column(
        "NominalConcurrencyShares",
        "string",
        field("flowcontrol.v1.LimitedPriorityLevelConfiguration", "nominalConcurrencyShares"),
        |o, _| shares(o),
    ),
    column("Queues", "string", field("flowcontrol.v1.QueuingConfiguration", "queues"), |o, _| queuing(o, "queues")),
    column("HandSize", "string", field("flowcontrol.v1.QueuingConfiguration", "handSize"), |o, _| {
        queuing(o, "handSize")
    }),
    column("QueueLengthLimit", "string", field("flowcontrol.v1.QueuingConfiguration", "queueLengthLimit"), |o, _| {
        queuing(o, "queueLengthLimit")
    }),
    AGE,
];

fn shares(level: &Value) -> Value {
    match cells::at(level, "spec.limited.nominalConcurrencyShares") {
        Value::Null => "<none>".into(),
        shares => shares.clone(),
    }
}

fn queuing(level: &Value, key: &str) -> Value {
    match &cells::at(level, "spec.limited.limitResponse.queuing")[key] {
        Value::Null => "<none>".into(),
        number => number.clone(),
    }
}

const MAX_QUEUES: i64 = 10_000_000;
const MAX_HASH_BITS: f64 = 60.0;

fn validate(obj: &Value, errors: &mut ErrorList) {
    let spec = Node::of(obj, "spec");
    let ty = spec.str("type");
    if (meta::name(obj) == "exempt") != (ty == "Exempt") {
        spec.invalid("type", "must be 'Exempt' if and only if `name` is 'exempt'", errors);
    }
    // Which part goes with which type is declared, so the messages are bare.
    let (limited, exempt) = (spec.given("limited"), spec.given("exempt"));
    if ty != "Limited" && limited.is_some() {
        spec.forbidden("limited", "", errors);
    }
    if ty != "Exempt" && exempt.is_some() {
        spec.forbidden("exempt", "", errors);
    }
    match (ty, limited, exempt) {
        ("Limited", None, _) => errors.push(field::required(&spec.path.child("limited"), "")),
        ("Limited", Some(limited), _) => limits(&limited, errors),
        ("Exempt", _, Some(exempt)) => {
            share_amounts(&exempt, errors);
        }
        _ => {}
    }
    spec.required_one_of("type", &["Exempt", "Limited"], errors);
}

fn share_amounts(level: &Node<'_>, errors: &mut ErrorList) {
    if level.int("nominalConcurrencyShares") < 0 {
        level.invalid("nominalConcurrencyShares", "must be a non-negative integer", errors);
    }
    if level.opt_int("lendablePercent").is_some_and(|n| !(0..=100).contains(&n)) {
        level.invalid("lendablePercent", "must be between 0 and 100, inclusive", errors);
    }
}

fn limits(limited: &Node<'_>, errors: &mut ErrorList) {
    share_amounts(limited, errors);
    if limited.int("borrowingLimitPercent") < 0 {
        limited.invalid("borrowingLimitPercent", "if specified, must be a non-negative integer", errors);
    }
    let response = limited.get("limitResponse");
    let ty = response.str("type");
    response.required_one_of("type", &["Queue", "Reject"], errors);
    match (ty, response.given("queuing")) {
        ("Queue", None) => errors.push(field::required(&response.path.child("queuing"), "")),
        ("Queue", Some(queuing)) => queues(&queuing, errors),
        (_, Some(_)) => response.forbidden("queuing", "", errors),
        _ => {}
    }
}

fn queues(queuing: &Node<'_>, errors: &mut ErrorList) {
    let (queues, hand) = (queuing.int("queues"), queuing.int("handSize"));
    if queuing.int("queueLengthLimit") <= 0 {
        queuing.invalid("queueLengthLimit", "must be positive", errors);
    }
    if queues <= 0 {
        queuing.invalid("queues", "must be positive", errors);
    } else if queues > MAX_QUEUES {
        queuing.invalid("queues", format!("must not be greater than {MAX_QUEUES}"), errors);
    }
    // How many bits it takes to deal a hand of queues.
    let bits: f64 = (0..hand.clamp(0, queues.max(0))).map(|dealt| ((queues - dealt) as f64).log2()).sum();
    if hand <= 0 {
        queuing.invalid("handSize", "must be positive", errors);
    } else if hand > queues {
        queuing.invalid("handSize", format!("should not be greater than queues ({queues})"), errors);
    } else if bits.ceil() > MAX_HASH_BITS {
        let bits = "should not be greater than 60";
        let why = format!("required entropy bits of deckSize {queues} and handSize {hand} {bits}");
        queuing.invalid("handSize", why, errors);
    }
}
