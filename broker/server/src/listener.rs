//! Listening sockets, and the hand-over of each accepted connection to the worker that will own it.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use crate::letter::Letter;
use crate::placement::connection_worker;
use crate::shared::Shared;
use crate::tls::{Keys, Tls};

/// What is spoken on a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    Pulsar,
    Http,
}

/// A connection on its way to its worker.
pub(crate) struct Accepted {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) speaks: Speaks,
    /// What it is to be encrypted with; none in the clear.
    pub(crate) keys: Option<Arc<Keys>>,
}

/// A socket, and what is spoken on it.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) listener: TcpListener,
    pub(crate) speaks: Speaks,
    pub(crate) over_tls: bool,
}

/// Binds a non-blocking listener; an IPv6 address takes no IPv4 connections.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let domain = if address.is_ipv6() { Domain::IPV6 } else { Domain::IPV4 };
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // A broker that restarts must get its port back at once.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(4096)?;
    Ok(socket.into())
}

/// Accepts for ever. The worker that will own the connection registers it with its own loop.
pub(crate) async fn accept(listening: Listening, shared: Arc<Shared>) -> io::Result<()> {
    let Listening { listener, speaks, over_tls } = listening;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut loads = Vec::new();
    loop {
        match listener.accept().await.and_then(|(stream, peer)| Ok((stream.into_std()?, peer))) {
            Ok((stream, peer)) => {
                let keys = shared.tls.as_ref().filter(|_| over_tls).map(Tls::current);
                hand_over(Accepted { stream, peer, speaks, keys }, &shared, &mut loads);
            }
            Err(error) if transient(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections; trying again in 100 ms (raise the limit of open files if this goes on)");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

fn transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted)
}

fn hand_over(accepted: Accepted, shared: &Shared, loads: &mut Vec<usize>) {
    let (peer, speaks) = (accepted.peer, accepted.speaks);
    if let Err(limit) = shared.admission.admit(peer.ip(), speaks) {
        shared.counters.connections_refused.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%peer, limit, "connection refused: the limit is reached");
        return;
    }
    if let Err(error) = accepted.stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "connection lost while it was accepted");
        shared.admission.leave(peer.ip(), speaks);
        return;
    }
    loads.clear();
    loads.extend(shared.loads.iter().take(shared.settings.loops()).map(|l| l.load(Ordering::Relaxed)));
    let worker = connection_worker(loads, &mut |n| fastrand::usize(..n));
    shared.loads[worker].fetch_add(1, Ordering::Relaxed);
    shared.mailboxes[worker].post(Letter::Accepted(accepted));
}
