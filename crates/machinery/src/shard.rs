//! Shards: where a key is. One function, which the workers that claim shards and the API server that checks their
//! writes share.
//!
//! A shard is a range of hashes. What is hashed is the namespace, so that an owner and what it owns are never parted; of a
//! cluster-scoped object its uid, of a Namespace its own name.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::Error;
use crate::gvk::GroupResource;
use crate::meta;

/// The annotation of a claim record that says which keys it is about, as a [`Range`].
pub const SELECTOR: &str = "trireme.dev/selector";

/// One more than the greatest hash.
const END: u128 = 1 << 64;

/// The hash that shards are ranges of: FNV-1a of 64 bits, mixed, because short names alone leave most of its range empty.
#[must_use]
pub fn hash(key: &str) -> u64 {
    let fnv = key
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    mix(fnv)
}

/// Murmur3's last step: every bit of what comes in changes half of those that go out.
fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// What of an object is hashed. Empty for a cluster-scoped object without a uid, which is in no shard yet.
#[must_use]
pub fn place<'a>(resource: &GroupResource, object: &'a Value) -> &'a str {
    if resource.group.is_empty() && resource.resource == "namespaces" {
        return meta::name(object);
    }
    match meta::namespace(object) {
        "" => meta::uid(object),
        namespace => namespace,
    }
}

/// A range of hashes: from the first on, up to but not with the end. Written as a selector of Kubernetes' form
/// (KEP-5866) with a function of our own: `namespaceRange('0x0000000000000000', '0x10000000000000000')`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    first: u64,
    end: u128,
}

impl Range {
    /// All keys.
    pub const EVERYTHING: Self = Self { first: 0, end: END };

    /// One of `shards` ranges of equal size. None where there is no such one.
    #[must_use]
    pub fn of(shard: u32, shards: u32) -> Option<Self> {
        if shard >= shards {
            return None;
        }
        let at = |shard: u32| u128::from(shard) * END / u128::from(shards);
        Some(Self { first: u64::try_from(at(shard)).ok()?, end: at(shard + 1) })
    }

    /// Whether all keys are in it, those too that have no place.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        *self == Self::EVERYTHING
    }

    /// Whether what [`place`] names is in it.
    #[must_use]
    pub fn holds(&self, place: &str) -> bool {
        let hash = hash(place);
        self.is_everything() || (!place.is_empty() && hash >= self.first && u128::from(hash) < self.end)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "namespaceRange('0x{:016x}', '0x{:016x}')", self.first, self.end)
    }
}

impl FromStr for Range {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bound = |text: &str| {
            let digits = text.trim().strip_prefix("'0x")?.strip_suffix('\'')?;
            u128::from_str_radix(digits, 16).ok()
        };
        let read = || {
            let (first, end) = text.strip_prefix("namespaceRange(")?.strip_suffix(')')?.split_once(',')?;
            let (first, end) = (u64::try_from(bound(first)?).ok()?, bound(end)?);
            (u128::from(first) < end && end <= END).then_some(Self { first, end })
        };
        read().ok_or_else(|| Error::Selector(format!("{text:?} is no selector of a shard")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The published vectors of FNV-1a and of Murmur3's finalizer.
    #[test]
    fn the_hash_is_the_known_one() {
        assert_eq!(hash(""), mix(0xcbf2_9ce4_8422_2325));
        assert_eq!(hash("a"), mix(0xaf63_dc4c_8601_ec8c));
        assert_eq!(hash("foobar"), mix(0x8594_4171_f739_67e8));
        assert_eq!((mix(0), mix(1)), (0, 0xb456_bcfc_34c2_cb2c));
    }

    #[test]
    fn every_place_is_in_exactly_one_shard_and_names_spread() {
        let ranges: Vec<Range> = (0..64).map(|shard| Range::of(shard, 64).unwrap()).collect();
        let mut keys = [0; 64];
        for n in 0..6400 {
            let place = format!("team-{n}");
            let holders: Vec<usize> = (0..64).filter(|shard| ranges[*shard].holds(&place)).collect();
            assert_eq!(holders.len(), 1, "{place}");
            keys[holders[0]] += 1;
        }
        assert!(keys.iter().all(|keys| (50..200).contains(keys)), "{keys:?}");
        assert_eq!(Range::of(64, 64), None);
        assert_eq!(Range::of(0, 1), Some(Range::EVERYTHING));
        assert_eq!(Range::of(2, 3).unwrap().end, END);
    }

    #[test]
    fn a_selector_reads_as_it_is_written() {
        assert_eq!(Range::EVERYTHING.to_string(), "namespaceRange('0x0000000000000000', '0x10000000000000000')");
        for range in [Range::EVERYTHING, Range::of(5, 64).unwrap()] {
            assert_eq!(range.to_string().parse::<Range>().unwrap(), range);
        }
        for broken in ["", "namespaceRange('0x0')", "namespaceRange('0x2', '0x1')", "uidRange('0x0', '0x1')"] {
            assert!(broken.parse::<Range>().is_err(), "{broken}");
        }
    }

    #[test]
    fn what_decides_is_the_namespace_then_the_uid() {
        let resource = |group: &str, plural: &str| GroupResource::new(group, plural);
        let pod = json!({"metadata": {"name": "p", "namespace": "a", "uid": "u"}});
        assert_eq!(place(&resource("", "pods"), &pod), "a");
        let node = json!({"metadata": {"name": "n", "uid": "u"}});
        assert_eq!(place(&resource("", "nodes"), &node), "u");
        assert_eq!(place(&resource("", "namespaces"), &node), "n");
        assert!(!Range::of(0, 2).unwrap().holds("") && !Range::of(1, 2).unwrap().holds(""));
        assert!(Range::EVERYTHING.holds(""));
    }
}
