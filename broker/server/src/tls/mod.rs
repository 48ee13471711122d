//! TLS: who this broker is, whom it believes, and how connections come to speak it.
//!
//! Reading order: [`settings`](self) and [`keys`] (files to a rustls configuration, read again while the broker runs), `clients`
//! (certificates of clients), `handshake` (bounded, on the loop that will own the connection), `stream` (a connection's two halves).

mod clients;
mod handshake;
mod keys;
mod settings;
mod stream;

pub(crate) use handshake::{Handshakes, shake_hands, tell_failure};
pub(crate) use keys::{Keys, Tls, keep_fresh};
pub use settings::{TlsSettings, TlsVersion};
pub(crate) use stream::{Inlet, Outlet, split};
