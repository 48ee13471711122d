//! Signs of life of one HTTP connection, and when to lose patience with it: a peer that sends its header by the byte, reads its
//! reply by the byte, or says nothing at all must not hold a connection for ever.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep_until};

use server::Stream;

use crate::AdminOptions;

/// What the connection is doing, and since when.
#[derive(Clone, Copy)]
enum Phase {
    /// Between requests, or sending a reply; since the last byte that moved.
    Quiet(Instant),
    /// A header has begun to arrive.
    Header(Instant),
    /// A request is being carried out; its body and its work have time limits of their own.
    Busy,
}

/// Shared by the stream, which reports bytes, and the service, which reports requests.
#[derive(Clone)]
pub(crate) struct Pulse(Rc<Cell<Phase>>);

impl Pulse {
    pub(crate) fn new() -> Self {
        Self(Rc::new(Cell::new(Phase::Quiet(Instant::now()))))
    }

    /// A whole header has arrived.
    pub(crate) fn request_began(&self) {
        self.0.set(Phase::Busy);
    }

    /// Its reply is ready to be sent.
    pub(crate) fn request_ended(&self) {
        self.0.set(Phase::Quiet(Instant::now()));
    }

    fn bytes_read(&self) {
        if let Phase::Quiet(_) = self.0.get() {
            self.0.set(Phase::Header(Instant::now()));
        }
    }

    fn bytes_written(&self) {
        if let Phase::Quiet(_) = self.0.get() {
            self.0.set(Phase::Quiet(Instant::now()));
        }
    }

    /// Returns, with the reason, when the peer has had its chance.
    pub(crate) async fn patience_ends(&self, options: &AdminOptions) -> &'static str {
        loop {
            let now = Instant::now();
            let (deadline, reason) = match self.0.get() {
                Phase::Quiet(since) => (since + options.idle_timeout, "idle for too long"),
                Phase::Header(since) => (since + options.header_timeout, "the header took too long"),
                Phase::Busy => (now + options.header_timeout, ""),
            };
            if deadline <= now {
                return reason;
            }
            // A phase that begins meanwhile is noticed at the latest when this one would have ended.
            sleep_until(deadline.min(now + options.header_timeout)).await;
        }
    }
}

/// A stream that reports to a [`Pulse`].
pub(crate) struct Observed {
    pub(crate) stream: Stream,
    pub(crate) pulse: Pulse,
}

impl AsyncRead for Observed {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        if buffer.filled().len() > before {
            self.pulse.bytes_read();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Observed {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.pulse.bytes_written();
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, slices: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, slices))?;
        self.pulse.bytes_written();
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
