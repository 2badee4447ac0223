//! Hard eviction thresholds: below how much of a resource the node says that it is under pressure. Written as upstream's
//! `--eviction-hard`, `nodefs.available<10%,memory.available<100Mi`; whoever names some has no other.

use std::collections::BTreeMap;

use trireme_machinery::quantity::Quantity;

use crate::error::{Error, Result};

/// Upstream's defaults on Linux.
const DEFAULTS: [(&str, &str); 3] =
    [("memory.available", "100Mi"), ("nodefs.available", "10%"), ("nodefs.inodesFree", "5%")];
/// The signals of upstream. Those of file systems for images alone are taken and not looked at.
const SIGNALS: [&str; 8] = [
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "containerfs.available",
    "containerfs.inodesFree",
    "pid.available",
];

/// Amounts by signal, as they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thresholds(BTreeMap<String, String>);

impl Default for Thresholds {
    fn default() -> Self {
        Self(DEFAULTS.into_iter().map(|(signal, amount)| (signal.to_owned(), amount.to_owned())).collect())
    }
}

impl Thresholds {
    /// Of a flag.
    pub fn parse(text: &str) -> Result<Self> {
        let pairs = text.split(',').filter(|pair| !pair.is_empty()).map(|pair| {
            let (signal, amount) = pair
                .split_once('<')
                .ok_or_else(|| Error::Config(format!("--eviction-hard: \"{pair}\" is not SIGNAL<AMOUNT")))?;
            Ok((signal.to_owned(), amount.to_owned()))
        });
        Self::of(pairs.collect::<Result<_>>()?)
    }

    /// Of a configuration; one that names none has the defaults.
    pub fn of(amounts: BTreeMap<String, String>) -> Result<Self> {
        if amounts.is_empty() {
            return Ok(Self::default());
        }
        for (signal, amount) in &amounts {
            if !SIGNALS.contains(&signal.as_str()) {
                return Err(Error::Config(format!("evictionHard: \"{signal}\" is no signal")));
            }
            if floor(amount, 0).is_none() {
                return Err(Error::Config(format!("evictionHard: {signal}: \"{amount}\" is no quantity and no share")));
            }
        }
        Ok(Self(amounts))
    }

    /// Whether so little of so much is too little.
    pub fn is_crossed(&self, signal: &str, available: u64, capacity: u64) -> bool {
        self.0.get(signal).and_then(|amount| floor(amount, capacity)).is_some_and(|floor| available < floor)
    }

    /// What is kept from Pods: resources, and amounts of them.
    pub fn reserved(&self) -> impl Iterator<Item = (String, String)> {
        let resource = |signal: &str| match signal {
            "memory.available" => Some("memory"),
            "nodefs.available" => Some("ephemeral-storage"),
            _ => None,
        };
        self.0.iter().filter_map(move |(signal, amount)| Some((resource(signal)?.to_owned(), amount.clone())))
    }
}

/// The amount itself, of so much; none if it is not one.
fn floor(amount: &str, capacity: u64) -> Option<u64> {
    if let Some(share) = amount.strip_suffix('%') {
        let share: f64 = share.parse().ok().filter(|share| (0.0..=100.0).contains(share))?;
        return Some((capacity as f64 * share / 100.0) as u64);
    }
    u64::try_from(Quantity::parse(amount).ok()?.value()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_amounts() {
        let all = Thresholds::default();
        assert!(all.is_crossed("nodefs.available", 9, 100) && !all.is_crossed("nodefs.available", 10, 100));
        assert!(all.is_crossed("memory.available", (100 << 20) - 1, 1 << 40));
        let some = Thresholds::parse("nodefs.available<0%,memory.available<1Gi").unwrap();
        assert!(!some.is_crossed("nodefs.available", 0, 100));
        assert!(!some.is_crossed("nodefs.inodesFree", 0, 100), "whoever names some has no other");
        assert!(some.is_crossed("memory.available", 1 << 29, 1 << 40));
        assert_eq!(some.reserved().count(), 2);
        assert!(!all.is_crossed("pid.available", 0, 100), "upstream's defaults have none");
        assert!(Thresholds::parse("pid.available<10%").unwrap().is_crossed("pid.available", 9, 100));
        for bad in ["nodefs.available", "nodefs<1", "memory.available<x", "nodefs.available<101%"] {
            assert!(Thresholds::parse(bad).is_err(), "{bad}");
        }
    }
}
