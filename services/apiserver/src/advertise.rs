//! The address under which the other members of the cluster reach this server.

use std::net::{IpAddr, UdpSocket};

use crate::config::{Config, EndpointReconciler};
use crate::error::Error;

/// The address: what the flag says, else where the server listens, else where this machine's way out begins.
///
/// It stands in the endpoints of `default/kubernetes`, so it has to be one that an endpoint may have; as upstream, a
/// server without such an address does not start, unless it is told to keep out of the endpoints.
pub fn address(config: &Config) -> Result<IpAddr, Error> {
    let named = config.advertise_address.filter(|address| !address.is_unspecified());
    let bound = config.bind_address;
    let listens = || (!bound.is_unspecified() && !bound.is_loopback()).then_some(bound);
    let found = named.or_else(listens).or_else(|| way_out(bound));
    if config.endpoint_reconciler_type == EndpointReconciler::None {
        return Ok(found.unwrap_or(bound));
    }
    let address = found.ok_or_else(|| {
        let why = "this machine has no address that others could reach it under: name one with --advertise-address, \
                   or keep out of the kubernetes Service's endpoints with --endpoint-reconciler-type=none";
        Error::Flag(why.to_owned())
    })?;
    match unfit(address) {
        None => Ok(address),
        Some(why) => Err(Error::Flag(format!(
            "--advertise-address: {address} can't be an endpoint of the kubernetes Service: {why} \
             (--endpoint-reconciler-type=none keeps out of its endpoints)"
        ))),
    }
}

/// Why no endpoint can have the address.
fn unfit(address: IpAddr) -> Option<&'static str> {
    let (local, multicast) = match address {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (ip.is_unicast_link_local(), ip.segments()[0] & 0xff0f == 0xff02),
    };
    if address.is_loopback() {
        return Some("it may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    if local {
        return Some("it may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    multicast.then_some("it may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
}

/// Where the way to far addresses of the same family begins. Nothing is sent: connecting only chooses the way.
fn way_out(family: IpAddr) -> Option<IpAddr> {
    let (here, far) = if family.is_ipv4() { ("0.0.0.0:0", "192.0.2.1:9") } else { ("[::]:0", "[2001:db8::1]:9") };
    let socket = UdpSocket::bind(here).ok()?;
    socket.connect(far).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_unspecified() && !address.is_loopback()).then_some(address)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn with(flags: &[&str]) -> Result<IpAddr, String> {
        let flags = std::iter::once("trireme-apiserver").chain(flags.iter().copied());
        address(&Config::try_parse_from(flags).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_flag_goes_before_the_listener() {
        let fit = |text: &str| Ok(text.parse::<IpAddr>().unwrap());
        assert_eq!(with(&["--advertise-address=192.0.2.7", "--bind-address=192.0.2.8"]), fit("192.0.2.7"));
        assert_eq!(with(&["--bind-address=192.0.2.8"]), fit("192.0.2.8"));
        assert_eq!(with(&["--advertise-address=0.0.0.0", "--bind-address=192.0.2.8"]), fit("192.0.2.8"));
    }

    /// What upstream's validation of endpoint addresses refuses.
    #[test]
    fn an_address_that_no_endpoint_can_have_is_refused() {
        for wrong in ["127.0.0.1", "::1", "169.254.1.1", "fe80::1", "224.0.0.1", "ff02::1"] {
            let refused = with(&[&format!("--advertise-address={wrong}")]).unwrap_err();
            assert!(refused.contains("--advertise-address") && refused.contains(wrong), "{refused}");
        }
        let kept_out = with(&["--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none"]);
        assert_eq!(kept_out, Ok("127.0.0.1".parse().unwrap()));
    }
}
