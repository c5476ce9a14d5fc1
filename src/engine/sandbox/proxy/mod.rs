//! The proxy through which a command in its own network namespace reaches the hosts of a list, and no others.
//!
//! The first process of the sandbox listens in the namespace and sends the socket to the call. The call accepts
//! connections there, resolves the names outside, checks the addresses, and connects to exactly the address that it has
//! checked. All connections end with the command.
//!
//! Clients ask in SOCKS5 (RFC 1928) or with HTTP's CONNECT (RFC 9110, 9.3.6). The first byte shows which.

pub mod hosts;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::os::fd::OwnedFd;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hosts::{Host, Hosts, Target, parse_port, split};

use crate::limits::HOST_CHARACTERS_MAX;

/// Largest number of connections at once; more wait.
const CONNECTIONS_MAX: usize = 256;
/// Time in which a client must send its request.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
/// Time in which a name must be resolved, and time for each connection to one of its addresses.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(20);
/// Number of addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;
/// Time to wait after a failed accept, as without free descriptors.
const NAP: Duration = Duration::from_millis(50);
/// Number of denied hosts that are kept.
const DENIED_MAX: usize = 50;

/// The proxy of a command. It and all its connections end on drop.
#[derive(Debug)]
pub struct Proxy {
    /// Serving thread.
    thread: Option<JoinHandle<()>>,
    /// Socket that listens.
    listener: Arc<TcpListener>,
    /// List and findings.
    shared: Arc<ProxyState>,
}

/// The list and the findings of all connections.
#[derive(Debug)]
struct ProxyState {
    /// Hosts that may be reached.
    hosts: Hosts,
    /// Hosts that were denied, with their ports.
    denied: Mutex<BTreeSet<String>>,
    /// Open connections.
    open: Mutex<OpenConnections>,
    /// Signal that a connection has ended.
    ended: Condvar,
}

/// Open connections.
#[derive(Debug, Default)]
struct OpenConnections {
    /// Both sockets of each.
    sockets: BTreeMap<u64, Vec<TcpStream>>,
    /// Number of the next connection.
    next: u64,
    /// True if no further one may begin.
    is_over: bool,
}

impl Proxy {
    /// Serves the connections to a socket that listens.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn start(listener: OwnedFd, hosts: Hosts) -> io::Result<Self> {
        let listener = Arc::new(TcpListener::from(listener));
        let (denied, open, ended) = <(_, _, _)>::default();
        let shared = Arc::new(ProxyState { hosts, denied, open, ended });
        let (accepting, served) = (Arc::clone(&listener), Arc::clone(&shared));
        let thread = std::thread::Builder::new().name("proxy".to_owned());
        let thread = thread.spawn(move || serve(&accepting, &served))?;
        Ok(Self { thread: Some(thread), listener, shared })
    }

    /// Returns the hosts that were denied so far, each with its port.
    pub fn denied(&self) -> Vec<String> {
        let denied = self.shared.denied.lock().unwrap_or_else(PoisonError::into_inner);
        denied.iter().cloned().collect()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let mut open = self.shared.open();
        open.is_over = true;
        open.sockets.values().flatten().for_each(end);
        drop(open);
        self.shared.ended.notify_all();
        // It wakes the thread that accepts.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Ends a connection, in both directions.
fn end(socket: &TcpStream) {
    // It may have ended by itself.
    let _ = socket.shutdown(Shutdown::Both);
}

/// Accepts connections until the proxy is over. Each has a thread of its own.
fn serve(listener: &TcpListener, shared: &Arc<ProxyState>) {
    loop {
        let is_full = |open: &mut OpenConnections| open.sockets.len() >= CONNECTIONS_MAX && !open.is_over;
        let open = shared.ended.wait_while(shared.open(), is_full);
        if open.unwrap_or_else(PoisonError::into_inner).is_over {
            return;
        }
        let Ok((client, _)) = listener.accept() else {
            if !shared.open().is_over {
                std::thread::sleep(NAP);
            }
            continue;
        };
        let Ok(number) = shared.begin(&client) else { continue };
        let carried = Arc::clone(shared);
        let carry = move || {
            // A failed connection is closed, and its client sees that.
            let _ = serve_connection(&client, number, &carried);
            carried.end(number);
        };
        if std::thread::Builder::new().name("connection".to_owned()).spawn(carry).is_err() {
            shared.end(number);
        }
    }
}

/// A client whose request must arrive in time.
struct TimedClient<'a> {
    /// Its socket.
    client: &'a TcpStream,
    /// Time until which it may send.
    deadline: Instant,
}

impl Read for TimedClient<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.client.set_read_timeout(Some(left))?;
        self.client.read(bytes)
    }
}

impl Write for TimedClient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.client.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Serves one connection to its end.
fn serve_connection(client: &TcpStream, number: u64, shared: &ProxyState) -> io::Result<()> {
    let mut timed = TimedClient { client, deadline: Instant::now() + REQUEST_TIME_MAX };
    let Some(request) = Request::read(&mut timed)? else { return Ok(()) };
    client.set_read_timeout(None)?;
    let opened = match &request.target {
        Some(target) => open(target, shared),
        None => Err(Reply::Denied(request.asked.clone())),
    };
    match opened {
        Ok(server) => {
            shared.add(number, &server)?;
            request.reply(&mut &*client, &Reply::Granted)?;
            exchange(client, &server);
            Ok(())
        }
        Err(reply) => {
            if let Reply::Denied(host) = &reply {
                shared.deny(host.clone());
            }
            request.reply(&mut &*client, &reply)
        }
    }
}

/// Copies both directions of a connection. The end of one is passed on; a failure ends both.
fn exchange(client: &TcpStream, server: &TcpStream) {
    let pass = |mut from: &TcpStream, mut to: &TcpStream| match io::copy(&mut from, &mut to) {
        Ok(_) => drop(to.shutdown(Shutdown::Write)),
        Err(_) => [from, to].into_iter().for_each(end),
    };
    std::thread::scope(|scope| {
        let back = std::thread::Builder::new().spawn_scoped(scope, || pass(server, client));
        if back.is_err() {
            [client, server].into_iter().for_each(end);
        }
        pass(client, server);
    });
}

/// Connects to a target if the list names it and it leads to a permitted address.
fn open(target: &Target, shared: &ProxyState) -> Result<TcpStream, Reply> {
    if !shared.hosts.names(target) {
        return Err(Reply::Denied(target.to_string()));
    }
    let found = match &target.host {
        Host::Address(address) => vec![SocketAddr::new(*address, target.port)],
        Host::Name(name) => addresses_of(name.as_str().to_owned(), target.port),
    };
    let mut reply = Reply::Unreachable;
    for address in found.iter().take(ADDRESSES_MAX) {
        if !shared.hosts.may_lead_to(target, address.ip()) {
            let host = Host::Address(address.ip().to_canonical());
            reply = Reply::Denied(Target { host, port: target.port }.to_string());
        } else if let Ok(server) = TcpStream::connect_timeout(address, CONNECT_TIME_MAX) {
            return Ok(server);
        }
    }
    Err(reply)
}

/// Returns the addresses of a name; none if they cannot be found in time.
fn addresses_of(name: String, port: u16) -> Vec<SocketAddr> {
    let (sender, receiver) = sync_channel(1);
    let look_up = move || {
        let found = (name.as_str(), port).to_socket_addrs();
        // Nobody may be waiting any more.
        let _ = sender.send(found.map(Iterator::collect).unwrap_or_default());
    };
    let started = std::thread::Builder::new().name("resolver".to_owned()).spawn(look_up);
    started.ok().and_then(|_| receiver.recv_timeout(CONNECT_TIME_MAX).ok()).unwrap_or_default()
}

impl ProxyState {
    /// Locks the open connections.
    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a connection of a client; returns its number.
    fn begin(&self, client: &TcpStream) -> io::Result<u64> {
        let client = client.try_clone()?;
        let mut open = self.open();
        let number = open.next;
        open.next += 1;
        open.sockets.insert(number, vec![client]);
        Ok(number)
    }

    /// Adds the socket to the server; fails if the proxy is over.
    fn add(&self, number: u64, server: &TcpStream) -> io::Result<()> {
        let server = server.try_clone()?;
        let mut open = self.open();
        if open.is_over {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        open.sockets.entry(number).or_default().push(server);
        Ok(())
    }

    /// Closes a connection.
    fn end(&self, number: u64) {
        self.open().sockets.remove(&number);
        self.ended.notify_all();
    }

    /// Records a denied host.
    fn deny(&self, host: String) {
        let mut denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
        if denied.len() < DENIED_MAX {
            denied.insert(host);
        }
    }
}

/// First byte of SOCKS5.
const SOCKS5: u8 = 5;
/// SOCKS5 command that opens a connection.
const CONNECT: u8 = 1;
/// SOCKS5 method without a password.
const NO_PASSWORD: u8 = 0;
/// SOCKS5 reply if no method fits.
const NO_METHOD: u8 = 0xff;
/// Type of an IPv4 address in SOCKS5.
const IPV4: u8 = 1;
/// Type of a host name in SOCKS5.
const NAME: u8 = 3;
/// Type of an IPv6 address in SOCKS5.
const IPV6: u8 = 4;
/// Longest head of an HTTP request, in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Bytes of it that are read at once.
const PART_BYTES: usize = 1 << 10;
/// Largest number of header lines.
const HEADERS_MAX: usize = 64;

/// The request of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Request {
    /// The host and port as the client wrote them, for messages.
    asked: String,
    /// Target that they name; `None` if the text is not a valid one.
    target: Option<Target>,
    /// Protocol of the request and its reply.
    protocol: Protocol,
}

/// The protocol of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    /// SOCKS5.
    Socks,
    /// HTTP.
    Http,
}

/// The reply to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reply {
    /// The connection is open.
    Granted,
    /// The list does not name this host, or a listed host leads to this address, which is not public.
    Denied(String),
    /// No server answers there.
    Unreachable,
}

impl Request {
    /// Reads a request; returns `None` if the proxy does not serve it, after telling the client.
    ///
    /// # Errors
    /// Returns the error of the connection.
    fn read<S: Read + Write>(client: &mut S) -> io::Result<Option<Self>> {
        match u8::from_be_bytes(bytes(client)?) {
            SOCKS5 => read_socks(client),
            first => read_http(client, first),
        }
    }

    /// Replies to a request.
    ///
    /// # Errors
    /// Returns the error of the connection.
    fn reply<S: Write>(&self, client: &mut S, reply: &Reply) -> io::Result<()> {
        match (self.protocol, reply) {
            (Protocol::Socks, Reply::Granted) => reply_socks(client, 0),
            (Protocol::Socks, Reply::Denied(_)) => reply_socks(client, 2),
            (Protocol::Socks, Reply::Unreachable) => reply_socks(client, 4),
            (Protocol::Http, Reply::Granted) => {
                client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
            }
            (Protocol::Http, Reply::Denied(host)) => {
                let leads =
                    if *host == self.asked { String::new() } else { format!("{} leads to ", self.asked) };
                let text = format!("{leads}{host}, which is not among the hosts of bash.network");
                reply_http(client, "403 Forbidden", &text)
            }
            (Protocol::Http, Reply::Unreachable) => {
                reply_http(client, "502 Bad Gateway", &format!("{} does not answer", self.asked))
            }
        }
    }

    /// Creates a request for a host and a port.
    fn new(host: &str, port: u16, protocol: Protocol) -> Self {
        let target = Host::parse(host).map(|host| Target { host, port });
        let written = || {
            let characters = host.chars().map(|it| if it.is_control() { '?' } else { it });
            format!("{}:{port}", characters.take(HOST_CHARACTERS_MAX).collect::<String>())
        };
        Self { asked: target.as_ref().map_or_else(written, Target::to_string), target, protocol }
    }
}

/// Reads as many bytes as a value has.
fn bytes<const COUNT: usize>(client: &mut impl Read) -> io::Result<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    client.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Reads a SOCKS5 request after its first byte.
fn read_socks<S: Read + Write>(client: &mut S) -> io::Result<Option<Request>> {
    let count = u8::from_be_bytes(bytes(client)?);
    let mut methods = vec![0; usize::from(count)];
    client.read_exact(&mut methods)?;
    if !methods.contains(&NO_PASSWORD) {
        client.write_all(&[SOCKS5, NO_METHOD])?;
        return Ok(None);
    }
    client.write_all(&[SOCKS5, NO_PASSWORD])?;
    let [version, command, reserved, kind] = bytes(client)?;
    if version != SOCKS5 || reserved != 0 {
        return reply_socks(client, 1).map(|()| None);
    }
    if command != CONNECT {
        return reply_socks(client, 7).map(|()| None);
    }
    let host = match kind {
        IPV4 => std::net::Ipv4Addr::from(u32::from_be_bytes(bytes(client)?)).to_string(),
        IPV6 => std::net::Ipv6Addr::from(u128::from_be_bytes(bytes(client)?)).to_string(),
        NAME => {
            let mut name = vec![0; usize::from(u8::from_be_bytes(bytes(client)?))];
            client.read_exact(&mut name)?;
            String::from_utf8_lossy(&name).into_owned()
        }
        _ => return reply_socks(client, 8).map(|()| None),
    };
    let port = u16::from_be_bytes(bytes(client)?);
    Ok(Some(Request::new(&host, port, Protocol::Socks)))
}

/// Replies in SOCKS5; hides the bound address.
fn reply_socks<S: Write>(client: &mut S, reply: u8) -> io::Result<()> {
    client.write_all(&[SOCKS5, reply, 0, IPV4, 0, 0, 0, 0, 0, 0])
}

/// Reads an HTTP request after its first byte.
fn read_http<S: Read + Write>(client: &mut S, first: u8) -> io::Result<Option<Request>> {
    let mut head = vec![first];
    loop {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        let refusal = match request.parse(&head) {
            // A client may send no more before the reply: it could be meant for another server.
            Ok(httparse::Status::Complete(bytes)) if bytes == head.len() => {
                let target = request.path.and_then(|path| split(path));
                let target = target.and_then(|(host, port)| Some((host, parse_port(port?)?)));
                match (request.method, target) {
                    (Some("CONNECT"), Some((host, port))) => {
                        return Ok(Some(Request::new(host, port, Protocol::Http)));
                    }
                    (Some("CONNECT"), None) => ("400 Bad Request", "expected CONNECT HOST:PORT"),
                    _ => ("405 Method Not Allowed", "only CONNECT is served: use https"),
                }
            }
            Ok(httparse::Status::Partial) if head.len() < HEAD_BYTES_MAX => {
                let mut part = [0; PART_BYTES];
                match client.read(&mut part)? {
                    0 => return Ok(None),
                    count => head.extend_from_slice(part.get(..count).unwrap_or_default()),
                }
                continue;
            }
            Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
                ("431 Request Header Fields Too Large", "the head of the request is too large")
            }
            Ok(httparse::Status::Complete(_)) => ("400 Bad Request", "data before the reply"),
            Err(_) => ("400 Bad Request", "this is neither SOCKS5 nor HTTP"),
        };
        return reply_http(client, refusal.0, refusal.1).map(|()| None);
    }
}

/// Replies in HTTP with an error.
fn reply_http<S: Write>(client: &mut S, status: &str, text: &str) -> io::Result<()> {
    let body = format!("lbx: {text}\n");
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    client.write_all((head + &body).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that sends some bytes, and keeps the replies.
    struct Sent<'a>(&'a [u8], Vec<u8>);

    impl Read for Sent<'_> {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            self.0.read(bytes)
        }
    }

    impl Write for Sent<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the request that the proxy reads from some bytes, and its replies before that.
    fn read(bytes: &[u8]) -> (Option<Request>, Vec<u8>) {
        let mut client = Sent(bytes, Vec::new());
        let request = Request::read(&mut client).ok().flatten();
        (request, client.1)
    }

    #[test]
    fn proxy_parses_connect_and_socks_requests() {
        for (bytes, asked) in [
            (&b"CONNECT example.org:443 HTTP/1.1\r\nHost: other:1\r\n\r\n"[..], "example.org:443"),
            (b"CONNECT EXAMPLE.org.:443 HTTP/1.0\r\n\r\n", "example.org:443"),
            (b"CONNECT [2001:db8::1]:80 HTTP/1.1\r\n\r\n", "[2001:db8::1]:80"),
            (b"\x05\x01\x00\x05\x01\x00\x03\x0bexample.org\x01\xbb", "example.org:443"),
            (b"\x05\x02\x02\x00\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50", "127.0.0.1:80"),
            (
                b"\x05\x01\x00\x05\x01\x00\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x00\x50",
                "[2001:db8::1]:80",
            ),
        ] {
            let (request, _) = read(bytes);
            let request = request.unwrap();
            assert!(request.target.is_some(), "{request:?}");
            assert_eq!(request.asked, asked);
        }
        for (bytes, asked) in [
            (&b"CONNECT 0x7f.1:80 HTTP/1.1\r\n\r\n"[..], "0x7f.1:80"),
            (b"CONNECT a@b:80 HTTP/1.1\r\n\r\n", "a@b:80"),
            (b"\x05\x01\x00\x05\x01\x00\x03\x03a\0b\x01\xbb", "a?b:443"),
        ] {
            let request = read(bytes).0.unwrap();
            assert_eq!((request.target, request.asked.as_str()), (None, asked));
        }
    }

    #[test]
    fn proxy_rejects_invalid_requests() {
        let many = format!("CONNECT a:443 HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(65));
        let long = format!("CONNECT a:443 HTTP/1.1\r\nX: {}", "y".repeat(17 << 10));
        for (bytes, answer) in [
            (&b"GET http://example.org/ HTTP/1.1\r\n\r\n"[..], "405"),
            (b"POST / HTTP/1.1\r\n\r\n", "405"),
            (b"connect example.org:443 HTTP/1.1\r\n\r\n", "405"),
            (b"CONNECT example.org HTTP/1.1\r\n\r\n", "400"),
            (b"CONNECT example.org:443/x HTTP/1.1\r\n\r\n", "400"),
            (b"CONNECT a:443@b:80 HTTP/1.1\r\n\r\n", "400"),
            (b"CONNECT https://example.org:443 HTTP/1.1\r\n\r\n", "400"),
            (b"CONNECT example.org:+443 HTTP/1.1\r\n\r\n", "400"),
            (b"CONNECT example.org:99999 HTTP/1.1\r\n\r\n", "400"),
            (b"CONNECT ::1:80 HTTP/1.1\r\n\r\n", "400"),
            (b"CONNECT example.org:443 HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n", "400"),
            (b"CONNECT a b:443 HTTP/1.1\r\n\r\n", "400"),
            (b"\x16\x03\x01\x02\x00\x01", "400"),
            (many.as_bytes(), "431"),
            (long.as_bytes(), "431"),
        ] {
            let (request, said) = read(bytes);
            assert_eq!(request, None, "{}", String::from_utf8_lossy(bytes));
            let said = String::from_utf8(said).unwrap();
            assert!(said.starts_with(&format!("HTTP/1.1 {answer} ")), "{}: {said}", bytes.escape_ascii());
        }
        for (bytes, answer) in [
            (&b"\x05\x01\x02"[..], &b"\x05\xff"[..]),
            (b"\x05\x01\x00\x05\x02\x00\x01\x7f\0\0\x01\0\x50", b"\x05\0\x05\x07"),
            (b"\x05\x01\x00\x05\x03\x00\x01\x7f\0\0\x01\0\x50", b"\x05\0\x05\x07"),
            (b"\x05\x01\x00\x05\x01\x00\x09\x7f\0\0\x01\0\x50", b"\x05\0\x05\x08"),
            (b"\x05\x01\x00\x04\x01\x00\x01\x7f\0\0\x01\0\x50", b"\x05\0\x05\x01"),
            (b"\x05\x01\x00\x05\x01\x01\x01\x7f\0\0\x01\0\x50", b"\x05\0\x05\x01"),
            (b"\x04\x01\x00\x50\x7f\0\0\x01\0", b"HTTP/1.1 400"),
            (b"\x05", b""),
            (b"CONNECT", b""),
        ] {
            let (request, said) = read(bytes);
            assert_eq!(request, None, "{}", bytes.escape_ascii());
            assert!(said.starts_with(answer), "{}: {}", bytes.escape_ascii(), said.escape_ascii());
        }
    }
}
