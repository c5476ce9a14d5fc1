//! Tests which hosts a list names. Pure.
//!
//! An entry is a host name, `*.` and a host name for all names below it, `*` for every name, or an IP address. A port
//! follows after a colon, `*` for all ports; without one, an entry means the ports of http and https. An IPv6 address
//! before a port is in brackets.
//!
//! Also tests which addresses belong to the public internet, by the registries of special addresses (RFC 6890 and its
//! updates).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::limits::HOST_BYTES_MAX;

/// Ports of an entry without a port: http and https.
const WEB_PORTS: [u16; 2] = [80, 443];
/// Longest part of a host name, in bytes.
const LABEL_BYTES_MAX: usize = 63;
/// Name of this machine.
const LOCALHOST: &str = "localhost";

/// A host as a client names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// A name in lower case, without a dot at its end.
    Name(String),
    /// An IP address.
    Address(IpAddr),
}

/// A host with a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The host.
    pub host: Host,
    /// The port.
    pub port: u16,
}

/// A list of hosts.
#[derive(Debug, Clone, Default)]
pub struct Hosts(Vec<HostEntry>);

/// An entry of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HostEntry {
    /// The hosts.
    name: HostName,
    /// Their ports; `None` for all.
    ports: Option<Vec<u16>>,
}

/// The hosts of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
enum HostName {
    /// Every host name.
    All,
    /// All names below this one.
    Below(String),
    /// One host.
    One(Host),
}

impl Host {
    /// Parses a host name or an IP address in its usual form. Returns `None` for other notations of addresses, such as
    /// `0x7f.1`, and for an invalid host name.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(Self::Address(address.to_canonical()));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let is_label = |label: &str| {
            let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            let is_inner = !label.starts_with('-') && !label.ends_with('-');
            !label.is_empty() && label.len() <= LABEL_BYTES_MAX && is_inner && label.bytes().all(is_letter)
        };
        // Resolvers take a name that ends in a number for an address (URL standard, "ends in a number").
        let last = name.rsplit('.').next().unwrap_or_default();
        let is_number = last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
        let is_name = name.len() <= HOST_BYTES_MAX && name.split('.').all(is_label) && !is_number;
        is_name.then_some(Self::Name(name))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Name(name) => write!(f, "{name}:{}", self.port),
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            Host::Address(address) => write!(f, "{address}:{}", self.port),
        }
    }
}

impl Hosts {
    /// Creates a list of entries; skips those with a [`fault`].
    pub fn new(entries: &[String]) -> Self {
        Self(entries.iter().filter_map(|entry| HostEntry::parse(entry)).collect())
    }

    /// Returns true if the list names a target.
    pub fn names(&self, target: &Target) -> bool {
        self.at_port(target.port).any(|entry| entry.names(&target.host))
    }

    /// Returns the entries with a port.
    fn at_port(&self, port: u16) -> impl Iterator<Item = &HostEntry> {
        self.0.iter().filter(move |entry| entry.ports.as_ref().is_none_or(|ports| ports.contains(&port)))
    }

    /// Returns true if a named target may lead to an address: a public one, one that the list names itself, or for
    /// `localhost` an address of this machine.
    pub fn may_lead_to(&self, target: &Target, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let is_own = target.host == Host::Name(LOCALHOST.to_owned()) && address.is_loopback();
        let itself = Target { host: Host::Address(address), port: target.port };
        let own = HostName::One(target.host.clone());
        let names_own = || self.at_port(target.port).any(|entry| entry.name == own);
        is_public(address) || (is_own && names_own()) || self.names(&itself)
    }
}

impl HostEntry {
    /// Parses an entry.
    fn parse(text: &str) -> Option<Self> {
        let (name, ports) = split(text)?;
        let ports = match ports {
            None => Some(WEB_PORTS.to_vec()),
            Some("*") => None,
            Some(port) => Some(vec![parse_port(port)?]),
        };
        let name = match name.strip_prefix("*.") {
            _ if name == "*" => HostName::All,
            Some(above) => match Host::parse(above)? {
                Host::Name(above) => HostName::Below(above),
                Host::Address(_) => return None,
            },
            None => HostName::One(Host::parse(name)?),
        };
        Some(Self { name, ports })
    }

    /// Returns true if the entry is about a host.
    fn names(&self, host: &Host) -> bool {
        match (&self.name, host) {
            (HostName::All, Host::Name(_)) => true,
            (HostName::Below(above), Host::Name(name)) => {
                name.strip_suffix(above.as_str()).is_some_and(|rest| rest.ends_with('.'))
            }
            (HostName::One(one), host) => one == host,
            (HostName::All | HostName::Below(_), Host::Address(_)) => false,
        }
    }
}

/// Returns the fault of an invalid entry of a list.
pub fn fault(entry: &str) -> Option<&'static str> {
    if HostEntry::parse(entry).is_some() {
        return None;
    }
    Some(if entry.contains("//") {
        "name the host alone, without https:// and without a path"
    } else if !entry.is_ascii() {
        "write the host name in its ASCII form (xn--...)"
    } else {
        "expected a host name, *.NAME, or an IP address, with :PORT or :* behind it where needed"
    })
}

/// Parses a port, 1 to 65535, of digits only.
pub fn parse_port(text: &str) -> Option<u16> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| is_number && *port > 0)
}

/// Splits a host from its port, which follows after a colon; an IPv6 address before a port is in brackets.
pub fn split(text: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        address.parse::<std::net::Ipv6Addr>().ok()?;
        return match port {
            "" => Some((address, None)),
            port => Some((address, Some(port.strip_prefix(':')?))),
        };
    }
    match text.split_once(':') {
        None => Some((text, None)),
        // An address without brackets has no port.
        Some((_, port)) if port.contains(':') => Some((text, None)),
        Some((host, port)) => Some((host, Some(port))),
    }
}

/// Blocks of IPv4 addresses that are not public: the first address, and the number of common bits.
const SPECIAL_V4: [([u8; 4], u32); 16] = [
    ([0, 0, 0, 0], 8),       // this network
    ([10, 0, 0, 0], 8),      // private
    ([100, 64, 0, 0], 10),   // shared by customers of a provider
    ([127, 0, 0, 0], 8),     // loopback
    ([169, 254, 0, 0], 16),  // link-local, with the metadata of clouds
    ([172, 16, 0, 0], 12),   // private
    ([192, 0, 0, 0], 24),    // assignments of protocols
    ([192, 0, 2, 0], 24),    // documentation
    ([192, 31, 196, 0], 24), // AS112
    ([192, 52, 193, 0], 24), // AMT
    ([192, 88, 99, 0], 24),  // relays of 6to4
    ([192, 168, 0, 0], 16),  // private
    ([198, 18, 0, 0], 15),   // benchmarks
    ([198, 51, 100, 0], 24), // documentation
    ([203, 0, 113, 0], 24),  // documentation
    ([224, 0, 0, 0], 3),     // multicast, reserved, broadcast
];
/// Block of public IPv6 addresses.
const PUBLIC_V6: ([u16; 8], u32) = ([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);
/// Blocks in it that are not public.
const SPECIAL_V6: [([u16; 8], u32); 5] = [
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), // assignments of protocols, with Teredo
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), // documentation
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), // 6to4, which holds an IPv4 address
    ([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0], 48), // AS112
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), // documentation
];
/// Block of addresses by which an IPv6 host reaches IPv4 hosts: the last 32 bits are the address (RFC 6052).
const NAT64: ([u16; 8], u32) = ([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96);

/// Returns true if an address is public.
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) if is_in_v6(address, NAT64) => {
            let [.., a, b, c, d] = address.octets();
            is_public_v4(Ipv4Addr::new(a, b, c, d))
        }
        IpAddr::V6(address) => {
            is_in_v6(address, PUBLIC_V6) && !SPECIAL_V6.iter().any(|block| is_in_v6(address, *block))
        }
    }
}

/// Returns true if an IPv4 address is public.
fn is_public_v4(address: Ipv4Addr) -> bool {
    let is_in = |(first, bits): &([u8; 4], u32)| {
        let differing = address.to_bits() ^ Ipv4Addr::from(*first).to_bits();
        differing.leading_zeros() >= *bits
    };
    !SPECIAL_V4.iter().any(is_in)
}

/// Returns true if an IPv6 address is in a block.
fn is_in_v6(address: Ipv6Addr, (first, bits): ([u16; 8], u32)) -> bool {
    (address.to_bits() ^ Ipv6Addr::from(first).to_bits()).leading_zeros() >= bits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns true if a list of these entries names `HOST PORT`.
    fn names(entries: &[&str], host: &str, port: u16) -> bool {
        let entries: Vec<String> = entries.iter().map(|entry| (*entry).to_owned()).collect();
        Host::parse(host).is_some_and(|host| Hosts::new(&entries).names(&Target { host, port }))
    }

    #[test]
    fn network_list_matches_hosts_and_ports() {
        for (entry, host, port, is_named) in [
            ("example.org", "example.org", 443, true),
            ("example.org", "EXAMPLE.org.", 80, true),
            ("Example.ORG.", "example.org", 443, true),
            ("example.org", "example.org", 8443, false),
            ("example.org", "www.example.org", 443, false),
            ("example.org", "evil-example.org", 443, false),
            ("example.org", "example.org.evil.net", 443, false),
            ("example.org:8443", "example.org", 8443, true),
            ("example.org:8443", "example.org", 443, false),
            ("example.org:*", "example.org", 22, true),
            ("*.example.org", "a.example.org", 443, true),
            ("*.example.org", "a.b.example.org", 443, true),
            ("*.example.org", "example.org", 443, false),
            ("*.example.org", "evilexample.org", 443, false),
            ("*.example.org:*", "a.example.org", 9000, true),
            ("*", "anything.net", 443, true),
            ("*", "anything.net", 25, false),
            ("*", "192.0.2.1", 443, false),
            ("*:*", "2001:db8::1", 443, false),
            ("192.0.2.1", "192.0.2.1", 443, true),
            ("192.0.2.1", "::ffff:192.0.2.1", 443, true),
            ("[2001:db8::1]:8080", "2001:db8:0::1", 8080, true),
            ("2001:db8::1", "2001:db8::1", 443, true),
            ("127.0.0.1:3000", "127.0.0.1", 3001, false),
            ("xn--bcher-kva.example", "xn--bcher-kva.example", 443, true),
        ] {
            assert_eq!(names(&[entry], host, port), is_named, "{entry} {host} {port}");
        }
    }

    #[test]
    fn unusual_address_notations_are_not_hosts() {
        for text in [
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "0177.0.0.1",
            "127.1",
            "127.0.0.1.",
            "1.2.3",
            "[::1]",
            "::1%lo",
            "",
            ".",
            "a..b",
            "-",
            "-a.b",
            "a b",
            "a@b",
            "a/b",
            "a:80",
            "ex\u{e4}mple.org",
            "example.org\0",
            "a\r\nb",
            "example.0x1f",
            &"a".repeat(64),
            &"a.".repeat(130),
        ] {
            assert_eq!(Host::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn allowed_host_resolves_to_public_or_listed_addresses_only() {
        for (entries, host, address, may) in [
            (&["example.org"][..], "example.org", "93.184.216.34", true),
            (&["example.org"], "example.org", "10.0.0.5", false),
            (&["example.org", "10.0.0.5"], "example.org", "10.0.0.5", true),
            (&["example.org", "10.0.0.5:8080"], "example.org", "10.0.0.5", false),
            (&["example.org"], "example.org", "127.0.0.1", false),
            (&["example.org"], "example.org", "::ffff:127.0.0.1", false),
            (&["localhost"], "localhost", "127.0.0.1", true),
            (&["localhost"], "localhost", "::1", true),
            (&["localhost"], "localhost", "169.254.169.254", false),
            (&["*"], "localhost", "127.0.0.1", false),
            (&["*.localhost", "a.localhost"], "a.localhost", "127.0.0.1", false),
        ] {
            let entries: Vec<String> = entries.iter().map(|entry| (*entry).to_owned()).collect();
            let target = Target { host: Host::parse(host).unwrap(), port: 443 };
            let found = Hosts::new(&entries).may_lead_to(&target, address.parse().unwrap());
            assert_eq!(found, may, "{entries:?} {host} {address}");
        }
    }

    #[test]
    fn invalid_network_entry_is_rejected() {
        for good in [
            "a.example",
            "*.a.example:*",
            "*",
            "*:8080",
            "::1",
            "[::1]",
            "[::1]:80",
            "10.0.0.1:80",
            "a_b.example",
        ] {
            assert_eq!(fault(good), None, "{good}");
        }
        for bad in [
            "https://a.example",
            "a.example/x",
            "a.example:",
            "a.example:0",
            "a.example:65536",
            "a.example:+80",
            "a*.example",
            "*.*.example",
            "**",
            "*.10.0.0.1",
            "[a.example]:80",
            "[::1]80",
            "",
            "user@a.example",
            "b\u{fc}cher.example",
            "10.0.0.0/8",
            "0x7f.1",
            " a.example",
        ] {
            assert!(fault(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn private_and_reserved_addresses_are_not_public() {
        for (address, expected) in [
            ("93.184.216.34", true),
            ("1.1.1.1", true),
            ("172.15.255.255", true),
            ("172.32.0.1", true),
            ("100.63.0.1", true),
            ("198.20.0.1", true),
            ("2606:4700:4700::1111", true),
            ("2a00:1450:4001::1", true),
            ("64:ff9b::5db8:d822", true),
            ("0.0.0.0", false),
            ("0.1.2.3", false),
            ("10.1.2.3", false),
            ("100.64.0.1", false),
            ("100.127.255.255", false),
            ("127.0.0.1", false),
            ("127.255.255.254", false),
            ("169.254.169.254", false),
            ("172.16.0.1", false),
            ("172.31.255.255", false),
            ("192.0.0.1", false),
            ("192.0.2.1", false),
            ("192.88.99.1", false),
            ("192.168.1.1", false),
            ("198.18.0.1", false),
            ("198.19.255.255", false),
            ("203.0.113.9", false),
            ("224.0.0.1", false),
            ("240.0.0.1", false),
            ("255.255.255.255", false),
            ("::", false),
            ("::1", false),
            ("::127.0.0.1", false),
            ("::ffff:10.0.0.1", false),
            ("::ffff:93.184.216.34", true),
            ("64:ff9b::7f00:1", false),
            ("64:ff9b:1::1", false),
            ("100::1", false),
            ("2001::1", false),
            ("2001:db8::1", false),
            ("2002:7f00:1::", false),
            ("3fff::1", false),
            ("fc00::1", false),
            ("fd00:ec2::254", false),
            ("fe80::1", false),
            ("fec0::1", false),
            ("ff02::1", false),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
        }
    }
}
