//! The proxy through which a command in its own network namespace reaches the hosts of a list, and no others.
//!
//! The first process of the sandbox listens in the namespace and sends the socket to the call. The call accepts
//! connections there, resolves the names outside, checks the addresses, and connects to exactly the address that it has
//! checked. All connections end with the command.

pub mod hosts;
mod protocol;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use hosts::{Host, Hosts, Target};
use protocol::{Reply, Request};

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
