//! The network of a command, and the loopback device of a namespace, over which its processes reach each other.

use rustix::net::{AddressFamily, SendFlags, SocketType, netlink};
use serde::{Deserialize, Serialize};

/// The message that sets flags of a device.
const SET_LINK: u16 = 16;
/// It is a request.
const REQUEST: u16 = 1;
/// The flag of a device that is up.
const UP: u32 = 1;
/// The number of the loopback device in every new namespace.
const LOOPBACK: u32 = 1;

/// The network of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// None but a loopback device of its own.
    #[default]
    None,
    /// The same, and a proxy to the hosts of a list (see [`super::proxy::hosts`]).
    Hosts(Vec<String>),
    /// The network of the machine.
    Shared,
}

impl Network {
    /// Returns true if the command shares the network of the machine.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        *self == Self::Shared
    }
}

/// Brings the loopback device up. Where that fails, the command has no network at all.
pub fn bring_loopback_up() {
    // No protocol is NETLINK_ROUTE.
    let opened = rustix::net::socket(AddressFamily::NETLINK, SocketType::RAW, None);
    if let Ok(socket) = opened {
        let kernel = netlink::SocketAddrNetlink::new(0, 0);
        let _ = rustix::net::sendto(&socket, &message(), SendFlags::empty(), &kernel);
    }
}

/// The request, as rtnetlink(7) has it: a `nlmsghdr` and an `ifinfomsg`.
fn message() -> Vec<u8> {
    let mut body = vec![0_u8; 4]; // any family, any type
    body.extend(LOOPBACK.to_ne_bytes());
    body.extend(UP.to_ne_bytes());
    body.extend(UP.to_ne_bytes()); // only this flag is to change
    let header_bytes = 16_u32;
    let length = header_bytes + u32::try_from(body.len()).unwrap_or_default();
    let mut message = Vec::new();
    message.extend(length.to_ne_bytes());
    message.extend(SET_LINK.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    message.extend(1_u32.to_ne_bytes()); // its number
    message.extend(0_u32.to_ne_bytes()); // from nobody in particular
    message.extend(body);
    message
}
