//! Handshakes, on the loop that will own the connection. The costly step of one, the signature, waits for its turn: one for each
//! look at the sockets, so that a storm of new connections delays messages by one signature and not by a thousand.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use rustls::server::Acceptor;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use super::keys::Keys;

/// Handshakes of one loop at a time; each holds some kilobytes.
const MOST: usize = 1024;

/// The handshakes of one loop.
#[derive(Debug)]
pub(crate) struct Handshakes {
    running: Cell<usize>,
    costly: Semaphore,
}

impl Default for Handshakes {
    fn default() -> Self {
        Self { running: Cell::new(0), costly: Semaphore::new(1) }
    }
}

struct Running(Rc<Handshakes>);

impl Handshakes {
    fn begin(self: &Rc<Self>) -> io::Result<Running> {
        if self.running.get() >= MOST {
            return Err(io::Error::other("too many handshakes at once"));
        }
        self.running.set(self.running.get() + 1);
        Ok(Running(self.clone()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.set(self.0.running.get() - 1);
    }
}

/// Shakes hands within the time given. With the stream comes whom the client's certificate names.
pub(crate) async fn shake_hands(
    stream: TcpStream,
    keys: &Keys,
    all: &Rc<Handshakes>,
    patience: Duration,
) -> io::Result<(TlsStream<TcpStream>, Option<Box<str>>)> {
    let running = all.begin()?;
    let handshake = async {
        let hello = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        let turn = running.0.costly.acquire().await.map_err(io::Error::other)?;
        let accept = hello.into_stream(keys.config.clone());
        // Returns after the loop has looked at its sockets.
        tokio::task::yield_now().await;
        drop(turn);
        accept.await
    };
    match tokio::time::timeout(patience, handshake).await {
        Ok(outcome) => outcome.map(|stream| {
            let name = stream.get_ref().1.peer_certificates().and_then(|certificates| keys.name_of(certificates));
            (stream, name)
        }),
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the handshake was not over in time")),
    }
}

/// One line for whoever looks for the reason.
pub(crate) fn tell_failure(peer: SocketAddr, error: &io::Error) {
    let reason = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let advice = match reason {
        Some(rustls::Error::InvalidMessage(_)) => "does the client speak TLS? On this port it must: pulsar+ssl:// or https://",
        Some(rustls::Error::AlertReceived(_)) => "the client does not accept this broker's certificate: is its issuer trusted there?",
        Some(rustls::Error::NoCertificatesPresented) => "tlsRequireTrustedClientCertOnConnect asks for a client certificate",
        Some(rustls::Error::InvalidCertificate(_)) => {
            "the client's certificate must be issued by one in tlsTrustCertsFilePath and be valid"
        }
        Some(rustls::Error::PeerIncompatible(_)) => "see tlsProtocols and tlsCiphers",
        // Probes of the port, and clients that changed their mind.
        _ if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => {
            return tracing::debug!(%peer, %error, "TLS handshake not finished");
        }
        _ => "",
    };
    tracing::warn!(%peer, %error, advice, "TLS handshake failed");
}
