//! The proxy by which a command in a network namespace of its own reaches the hosts that a list names, and no others.
//!
//! The first process of the sandbox listens in the namespace and hands the socket to the call. The call accepts
//! connections there, resolves the names outside, checks the addresses, and connects to the very address that it has
//! checked. Everything ends with the command.

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

/// Connections at once; more wait.
const CONNECTIONS_MAX: usize = 256;
/// Time in which a client must say what it wants.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
/// Time in which a name must be resolved, and time for each connection to one of its addresses.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(20);
/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;
/// Time after which a connection is accepted again if that failed, as without descriptors.
const NAP: Duration = Duration::from_millis(50);
/// Denied hosts that are remembered.
const DENIED_MAX: usize = 50;

/// The proxy of a command. Dropped, it ends with all its connections.
#[derive(Debug)]
pub struct Proxy {
    /// The thread that serves.
    thread: Option<JoinHandle<()>>,
    /// Ends the thread; dropped, it does too.
    stop: Option<oneshot::Sender<()>>,
    /// Its list and its findings.
    shared: Arc<Shared>,
}

/// The list and the findings of all connections.
#[derive(Debug)]
struct Shared {
    /// The hosts that may be reached.
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
            // A name may still be looked up.
            runtime.shutdown_background();
        })?;
        Ok(Self { thread: Some(thread), stop: Some(stop), shared })
    }

    /// Returns the hosts that were denied so far, each with its port.
    #[must_use]
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

/// Accepts connections until it is dropped.
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
                    // One that fails is closed, and its client sees that.
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

/// Connects to a target if the list names it and it leads to an address that it may lead to.
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
    /// Remembers a host that was denied.
    fn deny(&self, host: String) {
        let mut denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
        if denied.len() < DENIED_MAX {
            denied.insert(host);
        }
    }
}
