//! The two halves of a connection, in the clear or over TLS, for one task that reads and a worker that writes at the end of its
//! turn. Over TLS both halves share the session; they belong to one loop.

use std::cell::RefCell;
use std::future::Future;
use std::io::{self, BufRead, IoSlice, Write};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use rustls::ServerConnection;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::out_buffer::OutBuffer;
use crate::stream::Stream;

/// Bytes read from the socket at once. Without it the session would ask for 4 KiB at a time.
const READ: usize = 32 * 1024;
/// Encrypted bytes that may wait for the socket; what is beyond stays in the out buffer, where it is counted.
const WAITING: usize = 256 * 1024;

thread_local! {
    /// What was read and not decrypted yet: empty between polls, so one is enough for a loop.
    static ENCRYPTED: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ].into_boxed_slice());
}

/// Where bytes come in.
pub(crate) enum Inlet {
    Plain(OwnedReadHalf),
    Tls(OwnedReadHalf, Session),
}

/// Where bytes go out.
pub(crate) enum Outlet {
    Plain(OwnedWriteHalf),
    Tls(OwnedWriteHalf, Session),
}

type Session = Rc<RefCell<ServerConnection>>;

/// Divides a stream.
pub(crate) fn split(stream: Stream) -> (Inlet, Outlet) {
    let stream = match stream {
        Stream::Tls(stream) => stream,
        Stream::Plain(stream) => {
            let (reader, writer) = stream.into_split();
            return (Inlet::Plain(reader), Outlet::Plain(writer));
        }
    };
    let (stream, mut session) = stream.into_inner();
    session.set_buffer_limit(Some(WAITING));
    let session = Rc::new(RefCell::new(session));
    let (reader, writer) = stream.into_split();
    (Inlet::Tls(reader, session.clone()), Outlet::Tls(writer, session))
}

impl Inlet {
    pub(crate) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (Inlet::Plain(half) | Inlet::Tls(half, _)) = self;
        half.as_ref().poll_write_ready(cx)
    }

    /// Reads what is there, at most what the buffer has room for; over TLS a little more. 0 is the end.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut BytesMut) -> Poll<io::Result<usize>> {
        match self {
            // `read_buf` keeps nothing between polls, so it can be made anew for each.
            Inlet::Plain(half) => pin!(half.read_buf(buffer)).poll(cx),
            Inlet::Tls(half, session) => {
                ENCRYPTED.with_borrow_mut(|encrypted| poll_decrypt(half, &mut session.borrow_mut(), encrypted, cx, buffer))
            }
        }
    }
}

fn poll_decrypt(
    half: &mut OwnedReadHalf,
    session: &mut ServerConnection,
    encrypted: &mut [u8],
    cx: &mut Context<'_>,
    buffer: &mut BytesMut,
) -> Poll<io::Result<usize>> {
    let (before, room) = (buffer.len(), buffer.capacity());
    // The handshake may have left something that the socket will not announce.
    let mut open = take_plaintext(session, buffer)?;
    while open && buffer.len() < room {
        let mut read = ReadBuf::new(encrypted);
        match Pin::new(&mut *half).poll_read(cx, &mut read) {
            Poll::Ready(outcome) => outcome?,
            Poll::Pending if buffer.len() > before => break,
            Poll::Pending => return Poll::Pending,
        }
        if read.filled().is_empty() {
            break;
        }
        open = decrypt(half, session, read.filled(), buffer)?;
    }
    Poll::Ready(Ok(buffer.len() - before))
}

/// False when the peer has said that nothing more will come.
fn decrypt(half: &OwnedReadHalf, session: &mut ServerConnection, mut encrypted: &[u8], buffer: &mut BytesMut) -> io::Result<bool> {
    while !encrypted.is_empty() {
        if session.read_tls(&mut encrypted)? == 0 {
            return Ok(false);
        }
        let outcome = session.process_new_packets();
        if session.wants_write() {
            // An alert or an answer to the peer's new keys; what does not fit now goes before the next bytes.
            let _ = session.write_tls(&mut Direct(half.as_ref()));
        }
        outcome.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if !take_plaintext(session, buffer)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// False at the end.
fn take_plaintext(session: &mut ServerConnection, buffer: &mut BytesMut) -> io::Result<bool> {
    loop {
        let mut reader = session.reader();
        let chunk = match reader.fill_buf() {
            Ok([]) => return Ok(false),
            Ok(chunk) => chunk,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(error),
        };
        buffer.extend_from_slice(chunk);
        let taken = chunk.len();
        reader.consume(taken);
    }
}

impl Outlet {
    /// Writes what the socket takes; `WouldBlock` when something is left.
    pub(crate) fn write(&self, out: &mut OutBuffer) -> io::Result<()> {
        match self {
            Outlet::Plain(half) => out.write_with(|slices| half.try_write_vectored(slices)),
            Outlet::Tls(half, session) => {
                let (session, mut socket) = (&mut *session.borrow_mut(), Direct(half.as_ref()));
                flush(session, &mut socket)?;
                out.write_with(|slices| {
                    // Taken when it is encrypted; if the socket does not take it all, the next call stops here.
                    flush(session, &mut socket)?;
                    let taken = session.writer().write_vectored(slices)?;
                    match flush(session, &mut socket) {
                        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
                        _ => Ok(taken),
                    }
                })?;
                flush(session, &mut socket)
            }
        }
    }

    /// Whether encrypted bytes wait for the socket.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self, Outlet::Tls(_, session) if session.borrow().wants_write())
    }

    /// Tells the peer that nothing more will come.
    pub(crate) fn say_goodbye(&self) {
        if let Outlet::Tls(half, session) = self {
            let mut session = session.borrow_mut();
            session.send_close_notify();
            let _ = flush(&mut session, &mut Direct(half.as_ref()));
        }
    }
}

fn flush(session: &mut ServerConnection, socket: &mut Direct<'_>) -> io::Result<()> {
    while session.wants_write() {
        if session.write_tls(socket)? == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
    }
    Ok(())
}

/// A socket that is written without waiting.
struct Direct<'a>(&'a TcpStream);

impl Write for Direct<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
