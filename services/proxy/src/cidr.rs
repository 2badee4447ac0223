//! Ranges of IPv4 addresses.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// A range of addresses; the bits after the prefix are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    base: Ipv4Addr,
    prefix: u8,
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (base, prefix) = text.split_once('/').ok_or("not of the form address/bits")?;
        let base: Ipv4Addr = base.parse().map_err(|_| "not an IPv4 address")?;
        let prefix: u8 = prefix.parse().ok().filter(|bits| *bits <= 32).ok_or("the bits are not 0 to 32")?;
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
        Ok(Self { base: Ipv4Addr::from(u32::from(base) & mask), prefix })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsing() {
        assert_eq!("10.1.2.3/8".parse::<Cidr>().unwrap().to_string(), "10.0.0.0/8");
        assert_eq!("0.0.0.0/0".parse::<Cidr>().unwrap().to_string(), "0.0.0.0/0");
        assert_eq!("10.1.2.3/32".parse::<Cidr>().unwrap().to_string(), "10.1.2.3/32");
        for bad in ["10.0.0.0", "10.0.0.0/33", "x/8", "fd00::/8"] {
            assert!(bad.parse::<Cidr>().is_err(), "{bad}");
        }
    }
}
