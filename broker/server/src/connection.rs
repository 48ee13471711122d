//! A connection of the Pulsar protocol: its socket, its buffers, and the task that reads it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use tokio::net::TcpStream;
use topic::{ConnectionKey, ConsumerSlot, ProducerSlot};
use wire::FrameDecoder;

use crate::id_map::IdMap;
use crate::introduction::Peer;
use crate::letter::{Letter, TopicEvent};
use crate::listener::{Accepted, Speaks};
use crate::out_buffer::OutBuffer;
use crate::route::Route;
use crate::stream::{Caller, Stream};
use crate::tls::{self, Inlet, Outlet};
use crate::worker::Worker;

/// Bytes asked of the socket at once, at first and at most: it grows while reads fill it and shrinks while they do not.
/// The most is also what one loud connection can put into a turn, so it bounds how long the quiet ones wait; a frame that is
/// known to be larger is still read in one go.
const MIN_READ: usize = 4 * 1024;
const MAX_READ: usize = 32 * 1024;
/// Ids of producers closed lately are remembered, since their last SENDs may still be on the way: at least so many, and as
/// many as the connection ever had, because a broker that lets go of all its topics closes them all.
const REMEMBER_CLOSED: usize = 64;

/// See the module.
pub(crate) struct Connection {
    pub(crate) key: ConnectionKey,
    pub(crate) address: SocketAddr,
    pub(crate) link: Rc<Link>,
    /// Whom the peer's certificate names, if somebody trusted vouches for it.
    pub(crate) certificate: Option<Box<str>>,
    socket: Outlet,
    pub(crate) decoder: FrameDecoder,
    pub(crate) out: OutBuffer,
    /// Whether it stands in the worker's list of connections to write.
    pub(crate) dirty: bool,
    /// Its out buffer is over the limit: its consumers get nothing more.
    pub(crate) stalled: bool,
    /// What the peer said of itself; none before CONNECT.
    pub(crate) peer: Option<Peer>,
    /// It has said CONNECT.
    pub(crate) introducing: bool,
    pub(crate) producers: IdMap<Route<ProducerSlot>>,
    pub(crate) consumers: IdMap<Route<ConsumerSlot>>,
    /// UNSUBSCRIBEs on their way: request and consumer.
    pub(crate) unsubscribing: Vec<(u64, u64)>,
    /// Watchers of topic lists, by the ids the client chose.
    pub(crate) watchers: Vec<u64>,
    recently_closed: RecentlyClosed,
    pub(crate) pending_publishes: usize,
    /// Bytes of publishes that topics hold back; those are not pending.
    pub(crate) held_publishes: usize,
    /// Whether one of its consumers may soon be out of permits.
    pub(crate) needs_permits: bool,
    pub(crate) opened_ms: u64,
    pub(crate) heard_ms: u64,
    pub(crate) pinged: bool,
    /// When a connection that is not read was last told that the broker lives.
    comforted_ms: u64,
    /// What the out buffer held when it was last written, and when the peer last took any of it.
    held_out: usize,
    taken_ms: u64,
    /// Whether it stands in the worker's list of paused connections.
    listed: bool,
    /// To be closed once everything is written.
    pub(crate) closing: bool,
}

/// Ids of producers, in the order they were closed.
#[derive(Debug, Default)]
struct RecentlyClosed {
    order: VecDeque<u64>,
    ids: IdMap<()>,
    /// The most that were open at one time.
    most: usize,
}

impl RecentlyClosed {
    fn add(&mut self, id: u64) {
        if self.ids.insert(id, ()).is_some() {
            return;
        }
        self.order.push_back(id);
        if self.order.len() > self.most.max(REMEMBER_CLOSED)
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }
}

/// What the reading task and the worker share of a connection.
#[derive(Debug, Default)]
pub(crate) struct Link {
    waker: RefCell<Option<Waker>>,
    paused: Cell<bool>,
    /// Nobody reads for a moment.
    lull: Cell<bool>,
    resumed: Cell<bool>,
    blocked: Cell<bool>,
    closed: Cell<bool>,
}

enum Woken {
    Read(usize),
    Writable,
    Resumed,
    Closed,
}

impl Link {
    pub(crate) fn pause(&self) {
        self.paused.set(true);
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused.get()
    }

    pub(crate) fn resume(&self) {
        if self.paused.replace(false) {
            self.resumed.set(true);
            self.wake();
        }
    }

    pub(crate) fn begin_lull(&self) {
        self.lull.set(true);
    }

    pub(crate) fn end_lull(&self) {
        if self.lull.replace(false) {
            self.wake();
        }
    }

    pub(crate) fn close(&self) {
        self.closed.set(true);
        self.wake();
    }

    fn wait_until_writable(&self) {
        self.blocked.set(true);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    fn remember(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    fn poll(&self, cx: &mut Context<'_>, reader: &mut Inlet, buffer: &mut BytesMut) -> Poll<io::Result<Woken>> {
        self.remember(cx);
        if self.closed.get() {
            return Poll::Ready(Ok(Woken::Closed));
        }
        if self.resumed.replace(false) {
            return Poll::Ready(Ok(Woken::Resumed));
        }
        if self.blocked.get()
            && let Poll::Ready(ready) = reader.poll_write_ready(cx)
        {
            self.blocked.set(false);
            return Poll::Ready(ready.map(|()| Woken::Writable));
        }
        if self.paused.get() || self.lull.get() {
            return Poll::Pending;
        }
        reader.poll_read(cx, buffer).map_ok(Woken::Read)
    }
}

impl Connection {
    /// Writes what it can without waiting.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        match self.socket.write(&mut self.out) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.link.wait_until_writable();
                Ok(())
            }
            outcome => outcome,
        }
    }

    pub(crate) fn forget_producer(&mut self, id: u64) -> Option<Route<ProducerSlot>> {
        self.recently_closed.most = self.recently_closed.most.max(self.producers.len());
        let route = self.producers.remove(&id)?;
        self.recently_closed.add(id);
        Some(route)
    }

    /// Whether it has opened as much as it may.
    pub(crate) fn is_crowded(&self, limit: usize) -> bool {
        self.producers.len() + self.consumers.len() >= limit
    }

    pub(crate) fn closed_lately(&self, producer: u64) -> bool {
        self.recently_closed.ids.contains_key(&producer)
    }
}

/// Takes an accepted connection into this worker and starts serving it.
pub(crate) fn begin(worker: &mut Worker, me: &Rc<RefCell<Worker>>, accepted: Accepted) {
    let Accepted { stream, peer, speaks, keys } = accepted;
    worker.stats.connections_total += 1;
    let stream = match TcpStream::from_std(stream) {
        Ok(stream) => stream,
        Err(error) => {
            tracing::warn!(%peer, %error, "connection lost: it could not be registered with its event loop");
            return worker.left(peer.ip(), speaks);
        }
    };
    let Some(keys) = keys else { return welcome(worker, me, Stream::Plain(stream), Caller { address: peer, certificate: None }, speaks) };
    let (me, handshakes, patience) = (me.clone(), worker.handshakes.clone(), worker.settings.handshake_timeout);
    tokio::task::spawn_local(async move {
        let shaken = tls::shake_hands(stream, &keys, &handshakes, patience).await;
        let mut worker = me.borrow_mut();
        match shaken {
            Ok((stream, certificate)) => {
                welcome(&mut worker, &me, Stream::Tls(Box::new(stream)), Caller { address: peer, certificate }, speaks);
            }
            Err(error) => {
                worker.stats.tls_failures += 1;
                tls::tell_failure(peer, &error);
                worker.left(peer.ip(), speaks);
            }
        }
    });
}

/// Starts serving a connection whose stream is ready.
fn welcome(worker: &mut Worker, me: &Rc<RefCell<Worker>>, stream: Stream, peer: Caller, speaks: Speaks) {
    let me = me.clone();
    match speaks {
        Speaks::Http => {
            let ip = peer.address.ip();
            let Some(http) = worker.shared.http.get() else { return worker.left(ip, speaks) };
            let serve = http(stream, peer);
            tokio::task::spawn_local(async move {
                serve.await;
                me.borrow_mut().left(ip, speaks);
            });
        }
        Speaks::Pulsar => {
            let (reader, socket) = tls::split(stream);
            let (key, link) = admit(worker, socket, peer);
            tokio::task::spawn_local(serve(me, reader, link, key));
        }
    }
}

fn admit(worker: &mut Worker, socket: Outlet, peer: Caller) -> (ConnectionKey, Rc<Link>) {
    let link = Rc::new(Link::default());
    let shared_link = link.clone();
    let (index, now, max) = (worker.index, worker.now.monotonic_ms, worker.shared.settings.max_message_bytes);
    let (slot, generation) = worker.connections.insert_with(|slot, generation| Connection {
        key: ConnectionKey { worker: index, slot, generation },
        address: peer.address,
        certificate: peer.certificate,
        link: shared_link,
        socket,
        decoder: FrameDecoder::new(max),
        out: OutBuffer::default(),
        dirty: false,
        stalled: false,
        peer: None,
        introducing: false,
        producers: IdMap::default(),
        consumers: IdMap::default(),
        unsubscribing: Vec::new(),
        watchers: Vec::new(),
        recently_closed: RecentlyClosed::default(),
        pending_publishes: 0,
        held_publishes: 0,
        needs_permits: true,
        opened_ms: now,
        heard_ms: now,
        pinged: false,
        comforted_ms: now,
        held_out: 0,
        taken_ms: now,
        listed: false,
        closing: false,
    });
    worker.signal.request();
    (ConnectionKey { worker: index, slot, generation }, link)
}

async fn serve(me: Rc<RefCell<Worker>>, mut reader: Inlet, link: Rc<Link>, key: ConnectionKey) {
    let mut buffer = BytesMut::new();
    let mut ask = MIN_READ;
    loop {
        // Room for the rest of a frame that is known to come, or for the usual read.
        buffer.reserve(ask);
        let room = buffer.capacity() - buffer.len();
        let woken = poll_fn(|cx| link.poll(cx, &mut reader, &mut buffer)).await;
        let mut worker = me.borrow_mut();
        let missing = match woken {
            Ok(Woken::Read(0)) | Ok(Woken::Closed) => break,
            Ok(Woken::Read(read)) => {
                ask = next_ask(ask, read, room);
                let missing = worker.received(key, &mut buffer);
                worker.consider_lull(key, read);
                missing
            }
            Ok(Woken::Resumed) => worker.received(key, &mut buffer),
            Ok(Woken::Writable) => {
                worker.mark_dirty(key.slot, key.generation);
                0
            }
            Err(error) => {
                tracing::debug!(peer = %key.slot, %error, "connection lost");
                break;
            }
        };
        worker.signal.request();
        drop(worker);
        if missing > ask {
            buffer.reserve(missing);
        }
        if buffer.is_empty() && ask == MIN_READ && buffer.capacity() > 4 * MAX_READ {
            buffer = BytesMut::new();
        }
    }
    let mut worker = me.borrow_mut();
    worker.end_connection(key);
    worker.signal.request();
}

fn next_ask(ask: usize, read: usize, room: usize) -> usize {
    if read == room {
        (ask * 2).min(MAX_READ)
    } else if read * 4 < ask {
        (ask / 2).max(MIN_READ)
    } else {
        ask
    }
}

impl Worker {
    /// Writes every connection that has something to send.
    pub(crate) fn flush_connections(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for (slot, generation) in dirty.drain(..) {
            self.flush(slot, generation);
        }
        // A flush may have marked others, which wait for the next turn.
        if self.dirty.is_empty() {
            self.dirty = dirty;
        }
    }

    fn flush(&mut self, slot: u32, generation: u32) {
        let limit = self.shares.out_limit(self.out_held);
        let now = self.now.monotonic_ms;
        let Some(connection) = self.connections.get_mut(slot, generation) else { return };
        connection.dirty = false;
        let before = connection.out.len();
        if let Err(error) = connection.write() {
            tracing::debug!(peer = %connection.address, %error, "connection lost while writing");
            connection.link.close();
            return;
        }
        let left = connection.out.len();
        if left < before || connection.held_out == 0 {
            connection.taken_ms = now;
        }
        self.out_held = self.out_held - connection.held_out + left;
        connection.held_out = left;
        if connection.closing && left == 0 && !connection.socket.is_waiting() {
            connection.link.close();
        }
        if left <= limit / 2 {
            if connection.stalled {
                connection.stalled = false;
                self.set_writable(slot, generation, true);
            }
            self.reconsider_pause(slot, generation);
        }
    }

    /// Tells the topics of a connection's consumers whether it takes more.
    pub(crate) fn set_writable(&mut self, slot: u32, generation: u32, writable: bool) {
        let Some(connection) = self.connections.get_mut(slot, generation) else { return };
        let key = connection.key;
        let routes: Vec<_> = connection.consumers.iter().map(|(id, route)| (*id, *route)).collect();
        for (id, route) in routes {
            if let Some((topic, slot)) = route.attached() {
                let event = TopicEvent::SetWritable { key: topic::ConsumerKey { connection: key, id }, slot, writable };
                self.send(topic.worker, Letter::ToTopic { topic, event });
            }
        }
    }

    /// Reads on from a connection that was paused, if nothing holds it any more.
    pub(crate) fn reconsider_pause(&mut self, slot: u32, generation: u32) {
        let spent = self.publish_bytes >= self.shares.publish_bytes || self.shared.log_room.is_spent(self.index);
        let (limit, max_pending) = (self.shared.settings.out_buffer_bytes, self.settings.max_pending_publishes);
        let Some(connection) = self.connections.get_mut(slot, generation).filter(|connection| connection.link.is_paused()) else { return };
        let key = connection.key;
        let may_go_on = !spent && connection.pending_publishes < max_pending.div_ceil(2) && connection.out.len() <= limit;
        if may_go_on
            && !self.has_too_much_held(key)
            && let Some(connection) = self.connections.get_mut(slot, generation)
        {
            connection.link.resume();
        }
    }

    /// Stops reading a connection until what it asked for was dealt with.
    pub(crate) fn pause(&mut self, key: ConnectionKey) {
        if let Some(connection) = self.connections.get_mut(key.slot, key.generation) {
            connection.link.pause();
            if !connection.listed {
                connection.listed = true;
                self.paused.push((key.slot, key.generation));
            }
        }
    }

    /// The publish budget has room again: whoever was stopped for it may go on.
    pub(crate) fn resume_paused(&mut self) {
        for (slot, generation) in std::mem::take(&mut self.paused) {
            self.reconsider_pause(slot, generation);
            let Some(connection) = self.connections.get_mut(slot, generation) else { continue };
            connection.listed = connection.link.is_paused();
            if connection.listed {
                self.paused.push((slot, generation));
            }
        }
    }

    /// Asks silent connections for a sign of life, and closes those that gave none.
    pub(crate) fn sweep_connections(&mut self) {
        let now = self.now.monotonic_ms;
        let millis = |d: std::time::Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        let (keep_alive, handshake) = (millis(self.settings.keep_alive), millis(self.settings.handshake_timeout));
        let write_stall = millis(self.settings.write_stall_timeout);
        let mut ask = Vec::new();
        for (slot, generation, connection) in self.connections.iter_mut() {
            if connection.held_out > 0 && now.saturating_sub(connection.taken_ms) >= write_stall {
                tracing::warn!(peer = %connection.address, waiting = connection.held_out, "connection closed: its peer takes nothing");
                connection.link.close();
                continue;
            }
            if connection.peer.is_none() {
                if now.saturating_sub(connection.opened_ms) >= handshake {
                    tracing::warn!(peer = %connection.address, "connection closed: it did not introduce itself in time");
                    connection.link.close();
                }
                continue;
            }
            let silent = now.saturating_sub(connection.heard_ms);
            if silent < keep_alive {
                continue;
            }
            // A paused connection is silent because nobody listens to it. Its peer, whose own question is not heard either,
            // takes whatever it gets for a sign of life.
            if connection.link.is_paused() {
                if connection.out.is_empty() && now.saturating_sub(connection.comforted_ms) >= keep_alive {
                    connection.comforted_ms = now;
                    wire::Command::Ping.encode(connection.out.tail());
                    ask.push((slot, generation));
                }
                continue;
            }
            if connection.pinged && silent >= 2 * keep_alive {
                tracing::warn!(peer = %connection.address, silent_ms = silent, "connection closed: no sign of life");
                connection.link.close();
            } else if !connection.pinged {
                connection.pinged = true;
                wire::Command::Ping.encode(connection.out.tail());
                ask.push((slot, generation));
            }
        }
        for (slot, generation) in ask {
            self.mark_dirty(slot, generation);
        }
    }

    /// The socket is gone: everything that was opened on it is closed as if the client had asked.
    pub(crate) fn end_connection(&mut self, key: ConnectionKey) {
        let Some(mut connection) = self.connections.remove(key.slot, key.generation) else { return };
        self.out_held -= connection.held_out;
        if !connection.out.is_empty() {
            let _ = connection.write();
        }
        connection.socket.say_goodbye();
        for (id, route) in connection.producers.drain() {
            if let Some(topic) = route.topic() {
                let event = TopicEvent::DetachProducer { key: topic::ProducerKey { connection: key, id }, request: None };
                self.send(topic.worker, Letter::ToTopic { topic, event });
            }
        }
        for (id, route) in connection.consumers.drain() {
            if let Some((topic, _)) = route.attached() {
                let event = TopicEvent::DetachConsumer { key: topic::ConsumerKey { connection: key, id }, request: None };
                self.send(topic.worker, Letter::ToTopic { topic, event });
            }
        }
        if !connection.watchers.is_empty() {
            self.shared.topic_watchers.forget(key, connection.watchers.drain(..));
        }
        self.left(connection.address.ip(), Speaks::Pulsar);
        tracing::debug!(peer = %connection.address, "connection closed");
    }
}
