//! IP addresses and ranges, as fields hold them.

use std::net::IpAddr;

use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::path::Path;

/// What is wrong with an address in a field that takes forms of old.
pub(crate) fn address(path: &Path, text: &str) -> ErrorList {
    match text.parse::<IpAddr>() {
        Ok(_) => ErrorList::new(),
        Err(_) => vec![field::invalid(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")],
    }
}

/// What is wrong with an address in a field that takes canonical forms only.
pub(crate) fn canonical_address(path: &Path, text: &str) -> ErrorList {
    match text.parse::<IpAddr>() {
        Ok(ip) if ip.to_string() != text => {
            vec![field::invalid(path, text, format!("must be in canonical form ({:?})", ip.to_string()))]
        }
        Ok(_) => ErrorList::new(),
        Err(_) => vec![field::invalid(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")],
    }
}

/// An address range and its length, if the text is one.
pub(crate) fn parse_range(text: &str) -> Option<(IpAddr, u8)> {
    let (ip, bits) = text.split_once('/')?;
    let ip: IpAddr = ip.parse().ok()?;
    let max = if ip.is_ipv4() { 32 } else { 128 };
    let well_formed =
        !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit()) && (bits == "0" || !bits.starts_with('0'));
    let bits: u8 = bits.parse().ok().filter(|b| well_formed && *b <= max)?;
    Some((ip, bits))
}

/// The first address of a range.
pub(crate) fn network(ip: IpAddr, bits: u8) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::from((u32::from(ip) & mask).to_be_bytes())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::from((u128::from(ip) & mask).to_be_bytes())
        }
    }
}

/// What is wrong with a range in a field that takes forms of old.
pub(crate) fn range(path: &Path, text: &str) -> ErrorList {
    match parse_range(text) {
        Some(_) => ErrorList::new(),
        None => vec![field::invalid(path, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")],
    }
}

/// What is wrong with a range in a field that takes canonical forms only.
pub(crate) fn canonical_range(path: &Path, text: &str) -> ErrorList {
    let mut errors = range(path, text);
    if let Some((ip, bits)) = parse_range(text) {
        let masked = network(ip, bits);
        if masked != ip {
            errors.push(field::invalid(path, text, "must not have bits set beyond the prefix length"));
        } else if format!("{ip}/{bits}") != text {
            errors.push(field::invalid(path, text, format!("must be in canonical form (\"{ip}/{bits}\")")));
        }
    }
    errors
}
