//! The task of a connection: reads, hands out, writes. One read and one write per wake-up where the sockets allow it.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::BytesMut;
use tokio::{
    io::AsyncWrite,
    time::{Instant, Interval, MissedTickBehavior},
};
use wire::{Command, Frame};

use crate::{Error, frames::Frames, link::Link, outbox::Outbox, stream::Stream};

/// Reads in one turn at most, so that a broker that sends without end does not keep the connection from writing.
const READS_PER_TURN: usize = 8;
/// An output buffer that one burst made larger than this is not kept.
const KEEP_OUTPUT: usize = 256 * 1024;

pub(crate) struct Driver {
    stream: Stream,
    frames: Frames,
    output: BytesMut,
    written: usize,
    last: bool,
    link: Weak<Link>,
    outbox: Arc<Outbox>,
    address: Arc<str>,
    keep_alive: Interval,
    heard: bool,
}

impl Driver {
    pub(crate) fn new(stream: Stream, frames: Frames, link: &Arc<Link>, outbox: Arc<Outbox>, keep_alive: Duration) -> Self {
        let mut keep_alive = tokio::time::interval_at(Instant::now() + keep_alive, keep_alive);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (address, link) = (link.address.clone(), Arc::downgrade(link));
        Self { stream, frames, output: BytesMut::new(), written: 0, last: false, link, outbox, address, keep_alive, heard: true }
    }

    /// Runs until the connection breaks or nobody uses it any more.
    pub(crate) async fn run(mut self) {
        let end = poll_fn(|cx| self.turn(cx)).await;
        if let (Err(error), Some(link)) = (end, self.link.upgrade()) {
            link.broke(&error);
        }
    }

    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let keeps_reading = match self.read(cx) {
            Ok(keeps_reading) => keeps_reading,
            Err(error) => return Poll::Ready(Err(error)),
        };
        while self.keep_alive.poll_tick(cx).is_ready() {
            if !std::mem::replace(&mut self.heard, false) {
                return Poll::Ready(Err(Error::lost(&self.address, "the broker has been silent, also when asked")));
            }
            self.outbox.write(|out| out.command(&Command::Ping));
        }
        match self.write(cx) {
            Poll::Ready(Ok(())) if self.last => return Poll::Ready(Ok(())),
            Poll::Ready(Err(error)) => return Poll::Ready(Err(Error::lost(&self.address, error.to_string()))),
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
        if keeps_reading {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Reads what is there; true if there is more than one turn takes.
    fn read(&mut self, cx: &mut Context<'_>) -> Result<bool, Error> {
        for _ in 0..READS_PER_TURN {
            match self.stream.poll_fill(cx, self.frames.room()) {
                Poll::Pending => return Ok(false),
                Poll::Ready(Ok(0)) => return Err(Error::lost(&self.address, "the broker closed it")),
                Poll::Ready(Ok(_)) => self.hand_out()?,
                Poll::Ready(Err(error)) => return Err(Error::lost(&self.address, error.to_string())),
            }
        }
        Ok(true)
    }

    fn hand_out(&mut self) -> Result<(), Error> {
        self.heard = true;
        // Without a link nobody listens; the bytes are read on so that the last ones can be written.
        let Some(link) = self.link.upgrade() else { return Ok(()) };
        let mut dispatch = link.dispatch();
        while let Some(Frame { command, payload }) = self.frames.next().map_err(|e| Error::protocol(&self.address, e.to_string()))? {
            dispatch.frame(command, payload)?;
        }
        Ok(())
    }

    /// Writes all there is to write; ready when it is written.
    fn write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.written == self.output.len() {
                ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
                let mut spare = std::mem::take(&mut self.output);
                spare.clear();
                self.written = 0;
                if spare.capacity() > KEEP_OUTPUT {
                    spare = BytesMut::new();
                }
                let outgoing = self.outbox.take(cx.waker(), spare);
                (self.output, self.last) = (outgoing.bytes, outgoing.last);
                if self.output.is_empty() {
                    return Poll::Ready(Ok(()));
                }
            }
            self.written += ready!(Pin::new(&mut self.stream).poll_write(cx, &self.output[self.written..]))?;
        }
    }
}
