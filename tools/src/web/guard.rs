//! Which addresses pages may be fetched from. Pure, but for the resolver that asks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// The one text for every address that is refused, so that it does not tell which of them exist.
pub(crate) const PRIVATE: &str = "Access denied: the address is private, local or reserved";

/// Judges addresses. Those in `allowed` pass; only tests have any.
#[derive(Debug, Clone, Default)]
pub(crate) struct AddressGuard {
    allowed: Arc<[IpAddr]>,
}

impl AddressGuard {
    pub(crate) fn new(allowed: Vec<IpAddr>) -> Self {
        Self { allowed: allowed.into() }
    }

    /// Whether this address may be dialed.
    pub(crate) fn may_dial(&self, address: IpAddr) -> bool {
        is_public(address) || self.allowed.contains(&address)
    }

    /// Checks what can be told from the text of an address. The parser has made decimal, octal and short forms of IPv4 plain before.
    pub(crate) fn check(&self, url: &Url) -> Result<(), String> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("only http and https addresses can be fetched, not {}", url.scheme()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("an address must not hold a user name or password".into());
        }
        let dialed = match url.host() {
            Some(Host::Ipv4(address)) => self.may_dial(address.into()),
            Some(Host::Ipv6(address)) => self.may_dial(address.into()),
            Some(Host::Domain(name)) => !is_local_name(name),
            None => return Err("the address names no host".into()),
        };
        let port_passes = self.allowed.iter().any(|_| true)
            || !url.port().is_some_and(|port| port < 1024 && port != 80 && port != 443);
        match (dialed, port_passes) {
            (false, _) => Err(PRIVATE.into()),
            (true, false) => Err("Access denied: this port is not one of the web".into()),
            (true, true) => Ok(()),
        }
    }
}

/// Resolves names, and gives the client those addresses only that may be dialed. What is checked is what is dialed: there is no second look-up.
impl Resolve for AddressGuard {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.clone();
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let total = found.len();
            let passing: Vec<SocketAddr> = found.into_iter().filter(|address| guard.may_dial(address.ip())).collect();
            // A name with any private address is one that was made to get past a check like this.
            if passing.is_empty() || passing.len() < total {
                return Err(PRIVATE.into());
            }
            Ok(Box::new(passing.into_iter()) as Addrs)
        })
    }
}

/// Names that mean this machine or its network, whatever they resolve to.
fn is_local_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let last = name.rsplit('.').next().unwrap_or_default();
    matches!(last, "localhost" | "local" | "internal" | "localdomain" | "lan" | "home" | "corp" | "intranet")
        || name.ends_with("home.arpa")
        || name == "metadata"
}

/// Whether an address is one of the public internet.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// The IANA registry of special addresses, and one public address at which a cloud serves its guests' secrets.
fn is_public_v4(address: Ipv4Addr) -> bool {
    const SPECIAL: &[(Ipv4Addr, u32)] = &[
        (Ipv4Addr::new(0, 0, 0, 0), 8),
        (Ipv4Addr::new(10, 0, 0, 0), 8),
        (Ipv4Addr::new(100, 64, 0, 0), 10),
        (Ipv4Addr::new(127, 0, 0, 0), 8),
        (Ipv4Addr::new(168, 63, 129, 16), 32),
        (Ipv4Addr::new(169, 254, 0, 0), 16),
        (Ipv4Addr::new(172, 16, 0, 0), 12),
        (Ipv4Addr::new(192, 0, 0, 0), 24),
        (Ipv4Addr::new(192, 0, 2, 0), 24),
        (Ipv4Addr::new(192, 88, 99, 0), 24),
        (Ipv4Addr::new(192, 168, 0, 0), 16),
        (Ipv4Addr::new(198, 18, 0, 0), 15),
        (Ipv4Addr::new(198, 51, 100, 0), 24),
        (Ipv4Addr::new(203, 0, 113, 0), 24),
        (Ipv4Addr::new(224, 0, 0, 0), 3),
    ];
    let bits = address.to_bits();
    !SPECIAL.iter().any(|(net, len)| (bits ^ net.to_bits()) >> (32 - len) == 0)
}

/// Of IPv6 only the global range passes; addresses that carry an IPv4 one are judged by that.
fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(carried) = carried_v4(address) {
        return is_public_v4(carried);
    }
    let segments = address.segments();
    let global = segments[0] & 0xe000 == 0x2000;
    let special = segments[0] == 0x2001 && (segments[1] < 0x200 || segments[1] == 0x0db8)
        || segments[0] == 0x3fff && segments[1] < 0x1000;
    global && !special
}

/// The IPv4 address in a mapped, compatible, translated (NAT64) or 6to4 address.
fn carried_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match (a, b, c, d, e, f) {
        (0, 0, 0, 0, 0, 0 | 0xffff) | (0, 0, 0, 0, 0xffff, 0) | (0x64, 0xff9b, 0, 0, 0, 0) => Some(v4(g, h)),
        (0x2002, high, low, ..) => Some(v4(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_told_from_public_ones() {
        let private = [
            "127.0.0.1",
            "127.255.0.1",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "100.100.100.200",
            "168.63.129.16",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "192.0.2.1",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "100::1",
            "64:ff9b:1::1",
            "::ffff:0:127.0.0.1",
        ];
        for address in private {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700:4700::1111",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
        ] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[tokio::test]
    async fn a_name_is_judged_by_what_it_resolves_to() {
        let resolve = |guard: AddressGuard| async move {
            guard.resolve("localhost".parse().unwrap()).await.map(|found| found.count())
        };
        assert_eq!(resolve(AddressGuard::default()).await.unwrap_err().to_string(), PRIVATE);
        let loopback = AddressGuard::new(vec!["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()]);
        assert!(resolve(loopback).await.unwrap() > 0);
    }

    #[test]
    fn forms_of_addresses_are_seen_through() {
        let guard = AddressGuard::default();
        let private = [
            "http://127.0.0.1/",
            "http://localhost/",
            "http://LOCALHOST./",
            "http://a.localhost:8080/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0177.0.0.1/",
            "http://127.1/",
            "http://0/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:7f00:1]/",
            "http://169.254.169.254/latest/",
            "http://metadata.google.internal/",
            "http://printer.local/",
            "http://\u{ff11}27.0.0.1/",
            "http://127.0.0.1./",
            "https://\u{2460}\u{2461}\u{2466}.0.0.1/",
        ];
        for url in private {
            assert_eq!(guard.check(&Url::parse(url).unwrap()), Err(PRIVATE.to_owned()), "{url}");
        }
        let check = |url: &str| guard.check(&Url::parse(url).unwrap());
        assert_eq!(check("https://example.com/a?b#c"), Ok(()));
        assert_eq!(check("http://8.8.8.8:8080/"), Ok(()));
        assert_eq!(check("ftp://example.com/"), Err("only http and https addresses can be fetched, not ftp".into()));
        assert_eq!(check("file:///etc/passwd"), Err("only http and https addresses can be fetched, not file".into()));
        assert_eq!(check("http://user@example.com/"), Err("an address must not hold a user name or password".into()));
        assert_eq!(check("http://example.com:22/"), Err("Access denied: this port is not one of the web".into()));
        assert!(
            AddressGuard::new(vec!["127.0.0.1".parse().unwrap()])
                .check(&Url::parse("http://127.0.0.1:9/").unwrap())
                .is_ok()
        );
    }
}
