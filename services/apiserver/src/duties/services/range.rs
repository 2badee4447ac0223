//! A range of addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rand::Rng as _;

/// How often a random address is tried before the range is walked.
const TRIES: usize = 64;

/// Addresses of one network, without its own address and (IPv4) the broadcast address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    base: u128,
    /// How many addresses there are after the network's own.
    size: u128,
    bits: u8,
    v4: bool,
}

impl AddressRange {
    /// Reads `10.96.0.0/16`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a range of addresses (as 10.96.0.0/16)");
        let (address, bits) = text.trim().split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits: u8 = bits.parse().map_err(|_| wrong())?;
        let v4 = address.is_ipv4();
        let width: u8 = if v4 { 32 } else { 128 };
        if bits > width - 2 {
            return Err(format!("{text:?} is too small"));
        }
        let host_bits = u32::from(width - bits).min(112);
        let mask = (1u128 << host_bits) - 1;
        let number = to_number(address);
        let base = number & !mask;
        let last = mask - u128::from(v4);
        Ok(Self { base, size: last, bits, v4 })
    }

    /// `IPv4` or `IPv6`.
    #[must_use]
    pub fn family(&self) -> &'static str {
        if self.v4 { "IPv4" } else { "IPv6" }
    }

    /// Whether an address can be given from here.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.v4
            && to_number(address).checked_sub(self.base).is_some_and(|offset| (1..=self.size).contains(&offset))
    }

    /// The address at this place; the first is 1.
    #[must_use]
    pub fn nth(&self, offset: u128) -> IpAddr {
        let number = self.base + offset;
        if self.v4 {
            IpAddr::V4(Ipv4Addr::from(u32::try_from(number & u128::from(u32::MAX)).unwrap_or_default()))
        } else {
            IpAddr::V6(Ipv6Addr::from(number))
        }
    }

    /// A free address. The lower part of the range is left to those who ask for an address by name, while there are others.
    pub fn pick(&self, taken: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
        let reserved = (self.size / 16).clamp(16, 256).min(self.size);
        let mut random = rand::rng();
        if reserved < self.size {
            for _ in 0..TRIES {
                let address = self.nth(random.random_range(reserved + 1..=self.size));
                if !taken(address) {
                    return Some(address);
                }
            }
        }
        let upper = reserved + 1..=self.size;
        upper.chain(1..=reserved).map(|offset| self.nth(offset)).find(|address| !taken(*address))
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.nth(0), self.bits)
    }
}

fn to_number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_leaves_out_its_ends() {
        let range = AddressRange::parse("10.96.0.0/16").unwrap();
        assert_eq!(range.to_string(), "10.96.0.0/16");
        for (address, inside) in [
            ("10.96.0.0", false),
            ("10.96.0.1", true),
            ("10.96.255.254", true),
            ("10.96.255.255", false),
            ("10.97.0.1", false),
        ] {
            assert_eq!(range.contains(address.parse().unwrap()), inside, "{address}");
        }
        assert_eq!(range.nth(1).to_string(), "10.96.0.1");
        assert!(AddressRange::parse("10.96.0.0").is_err());
    }

    #[test]
    fn what_is_free_is_found() {
        let range = AddressRange::parse("10.0.0.0/29").unwrap();
        let free: IpAddr = "10.0.0.3".parse().unwrap();
        assert_eq!(range.pick(|address| address != free), Some(free));
        assert_eq!(range.pick(|_| true), None);
        let wide = AddressRange::parse("10.96.0.0/16").unwrap();
        for _ in 0..100 {
            let IpAddr::V4(address) = wide.pick(|_| false).unwrap() else { unreachable!() };
            assert!(u32::from(address) & 0xffff > 256, "{address} is in the part for named addresses");
        }
    }

    #[test]
    fn v6_works_too() {
        let range = AddressRange::parse("fd00::/112").unwrap();
        assert!(range.contains("fd00::1".parse().unwrap()) && range.contains("fd00::ffff".parse().unwrap()));
        assert_eq!(range.family(), "IPv6");
    }
}
