//! The proxy through which a command in its own network namespace reaches the hosts of a list, and no others.
//!
//! The first process of the sandbox listens in the namespace and sends the socket to the call. The call accepts
//! connections there, resolves the names outside, checks the addresses, and connects to exactly the address that it has
//! checked. All connections end with the command.
//!
//! Clients ask in SOCKS5 (RFC 1928) or with HTTP's CONNECT (RFC 9110, 9.3.6). The first byte shows which.

pub mod hosts;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use hosts::{Host, Hosts, Target, parse_port, split};

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
    /// Sender that ends the thread, also on drop.
    stop: Option<oneshot::Sender<()>>,
    /// List and findings.
    shared: Arc<Shared>,
}

/// The list and the findings of all connections.
#[derive(Debug)]
struct Shared {
    /// Hosts that may be reached.
    hosts: Hosts,
    /// Hosts that were denied, with their ports.
    denied: Mutex<BTreeSet<String>>,
}

impl Proxy {
    /// Serves the connections to a socket that listens.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn start(listener: OwnedFd, hosts: Hosts) -> io::Result<Self> {
        let listener = std::net::TcpListener::from(listener);
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let shared = Arc::new(Shared { hosts, denied: Mutex::default() });
        let (stop, stopped) = oneshot::channel();
        let served = shared.clone();
        let thread = std::thread::Builder::new().name("proxy".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = serve(listener, served) => {}
                }
            });
            // A name may still be resolving.
            runtime.shutdown_background();
        })?;
        Ok(Self { thread: Some(thread), stop: Some(stop), shared })
    }

    /// Returns the hosts that were denied so far, each with its port.
    pub fn denied(&self) -> Vec<String> {
        let denied = self.shared.denied.lock().unwrap_or_else(PoisonError::into_inner);
        denied.iter().cloned().collect()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Accepts connections until the future is dropped.
async fn serve(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    while let Ok(place) = room.clone().acquire_owned().await {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((client, _)) => {
                let shared = shared.clone();
                connections.spawn(async move {
                    // A failed connection is closed, and its client sees that.
                    let _ = carry(client, &shared).await;
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(NAP).await,
        }
    }
}

/// Serves one connection to its end.
async fn carry(mut client: TcpStream, shared: &Shared) -> io::Result<()> {
    let Ok(request) = timeout(REQUEST_TIME_MAX, Request::read(&mut client)).await else { return Ok(()) };
    let Some(request) = request? else { return Ok(()) };
    let opened = match &request.target {
        Some(target) => open(target, shared).await,
        None => Err(Reply::Denied(request.asked.clone())),
    };
    match opened {
        Ok(mut server) => {
            request.reply(&mut client, &Reply::Granted).await?;
            tokio::io::copy_bidirectional(&mut client, &mut server).await.map(drop)
        }
        Err(reply) => {
            if let Reply::Denied(host) = &reply {
                shared.deny(host.clone());
            }
            request.reply(&mut client, &reply).await
        }
    }
}

/// Connects to a target if the list names it and it leads to a permitted address.
async fn open(target: &Target, shared: &Shared) -> Result<TcpStream, Reply> {
    if !shared.hosts.names(target) {
        return Err(Reply::Denied(target.to_string()));
    }
    let found: Vec<SocketAddr> = match &target.host {
        Host::Address(address) => vec![SocketAddr::new(*address, target.port)],
        Host::Name(name) => {
            let looked_up = timeout(CONNECT_TIME_MAX, tokio::net::lookup_host((name.as_str(), target.port)));
            looked_up.await.ok().and_then(Result::ok).map(Iterator::collect).unwrap_or_default()
        }
    };
    let mut reply = Reply::Unreachable;
    for address in found.iter().take(ADDRESSES_MAX) {
        if !shared.hosts.may_lead_to(target, address.ip()) {
            let host = Host::Address(address.ip().to_canonical());
            reply = Reply::Denied(Target { host, port: target.port }.to_string());
        } else if let Ok(Ok(server)) = timeout(CONNECT_TIME_MAX, TcpStream::connect(address)).await {
            return Ok(server);
        }
    }
    Err(reply)
}

impl Shared {
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
/// Largest number of header lines.
const HEADERS_MAX: usize = 64;
/// Characters of a host's name that a message repeats.
const SHOWN_CHARACTERS_MAX: usize = 300;

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
    async fn read<S: AsyncRead + AsyncWrite + Unpin>(client: &mut S) -> io::Result<Option<Self>> {
        match client.read_u8().await? {
            SOCKS5 => read_socks(client).await,
            first => read_http(client, first).await,
        }
    }

    /// Replies to a request.
    ///
    /// # Errors
    /// Returns the error of the connection.
    async fn reply<S: AsyncWrite + Unpin>(&self, client: &mut S, reply: &Reply) -> io::Result<()> {
        match (self.protocol, reply) {
            (Protocol::Socks, Reply::Granted) => reply_socks(client, 0).await,
            (Protocol::Socks, Reply::Denied(_)) => reply_socks(client, 2).await,
            (Protocol::Socks, Reply::Unreachable) => reply_socks(client, 4).await,
            (Protocol::Http, Reply::Granted) => {
                client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await
            }
            (Protocol::Http, Reply::Denied(host)) => {
                let leads =
                    if *host == self.asked { String::new() } else { format!("{} leads to ", self.asked) };
                let text = format!("{leads}{host}, which is not among the hosts of bash.network");
                reply_http(client, "403 Forbidden", &text).await
            }
            (Protocol::Http, Reply::Unreachable) => {
                reply_http(client, "502 Bad Gateway", &format!("{} does not answer", self.asked)).await
            }
        }
    }

    /// Creates a request for a host and a port.
    fn new(host: &str, port: u16, protocol: Protocol) -> Self {
        let target = Host::parse(host).map(|host| Target { host, port });
        let written = || {
            let characters = host.chars().map(|it| if it.is_control() { '?' } else { it });
            format!("{}:{port}", characters.take(SHOWN_CHARACTERS_MAX).collect::<String>())
        };
        Self { asked: target.as_ref().map_or_else(written, Target::to_string), target, protocol }
    }
}

/// Reads a SOCKS5 request after its first byte.
async fn read_socks<S: AsyncRead + AsyncWrite + Unpin>(client: &mut S) -> io::Result<Option<Request>> {
    let count = client.read_u8().await?;
    let mut methods = vec![0; usize::from(count)];
    client.read_exact(&mut methods).await?;
    if !methods.contains(&NO_PASSWORD) {
        client.write_all(&[SOCKS5, NO_METHOD]).await?;
        return Ok(None);
    }
    client.write_all(&[SOCKS5, NO_PASSWORD]).await?;
    let mut head = [0; 4];
    client.read_exact(&mut head).await?;
    let [version, command, reserved, kind] = head;
    if version != SOCKS5 || reserved != 0 {
        return reply_socks(client, 1).await.map(|()| None);
    }
    if command != CONNECT {
        return reply_socks(client, 7).await.map(|()| None);
    }
    let host = match kind {
        IPV4 => std::net::Ipv4Addr::from(client.read_u32().await?).to_string(),
        IPV6 => std::net::Ipv6Addr::from(client.read_u128().await?).to_string(),
        NAME => {
            let mut name = vec![0; usize::from(client.read_u8().await?)];
            client.read_exact(&mut name).await?;
            String::from_utf8_lossy(&name).into_owned()
        }
        _ => return reply_socks(client, 8).await.map(|()| None),
    };
    let port = client.read_u16().await?;
    Ok(Some(Request::new(&host, port, Protocol::Socks)))
}

/// Replies in SOCKS5; hides the bound address.
async fn reply_socks<S: AsyncWrite + Unpin>(client: &mut S, reply: u8) -> io::Result<()> {
    client.write_all(&[SOCKS5, reply, 0, IPV4, 0, 0, 0, 0, 0, 0]).await
}

/// Reads an HTTP request after its first byte.
async fn read_http<S: AsyncRead + AsyncWrite + Unpin>(
    client: &mut S,
    first: u8,
) -> io::Result<Option<Request>> {
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
                if client.read_buf(&mut head).await? == 0 {
                    return Ok(None);
                }
                continue;
            }
            Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
                ("431 Request Header Fields Too Large", "the head of the request is too large")
            }
            Ok(httparse::Status::Complete(_)) => ("400 Bad Request", "data before the reply"),
            Err(_) => ("400 Bad Request", "this is neither SOCKS5 nor HTTP"),
        };
        return reply_http(client, refusal.0, refusal.1).await.map(|()| None);
    }
}

/// Replies in HTTP with an error.
async fn reply_http<S: AsyncWrite + Unpin>(client: &mut S, status: &str, text: &str) -> io::Result<()> {
    let body = format!("lbx: {text}\n");
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    client.write_all((head + &body).as_bytes()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the request that the proxy reads from some bytes, and its replies before that.
    fn read(bytes: &[u8]) -> (Option<Request>, Vec<u8>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut client, mut server) = tokio::io::duplex(1 << 20);
            client.write_all(bytes).await.unwrap();
            client.shutdown().await.unwrap();
            let request = Request::read(&mut server).await.ok().flatten();
            drop(server);
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.unwrap();
            (request, answer)
        })
    }

    #[test]
    fn requests_of_both_protocols_are_read() {
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
    fn what_is_no_request_is_refused() {
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
