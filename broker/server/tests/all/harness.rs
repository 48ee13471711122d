//! The server under test, and a peer that says exactly what it is told to.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use geminga_server::{Endpoints, Handle, Listen, Server, ServerSettings};
use ledger::{LedgerLimits, Retention};
use metadata::Bootstrap;
use metadata::clusters::Cluster;
use topic::TopicSettings;
use wire::proto;
use wire::{Command, Frame, FrameDecoder, Send, ServerError};

/// How long a test waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn settings() -> ServerSettings {
    let any = Listen { address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), optional: false };
    ServerSettings {
        cluster: "standalone".into(),
        io_threads: NonZeroUsize::new(2).unwrap(),
        working_loops: NonZeroUsize::new(2).unwrap(),
        pulsar_tls: Vec::new(),
        https: Vec::new(),
        tls: None,
        auth: None,
        turn_interval: Duration::from_micros(400),
        stats_interval: Duration::from_secs(60),
        stats_delay: Duration::from_secs(60),
        pulsar: vec![any],
        http: vec![],
        max_message_bytes: 1 << 20,
        keep_alive: Duration::from_secs(30),
        handshake_timeout: Duration::from_secs(10),
        max_connections: 0,
        max_connections_per_ip: 0,
        max_pending_publishes: 1000,
        publish_buffer_bytes: 16 << 20,
        held_publish_bytes: 1 << 20,
        log_queue_bytes: 16 << 20,
        cache_bytes: 1 << 20,
        out_buffer_bytes: 1 << 20,
        out_buffers_bytes: 64 << 20,
        write_stall_timeout: Duration::from_secs(60),
        max_clients_per_connection: 1000,
        max_lookups: 1000,
        max_topic_loads: 100,
        persistent_topics: true,
        non_persistent_topics: true,
        topic_watchers: true,
        pattern_evaluation: true,
        pattern_max_length: 50,
        control_threads: 2,
        max_http_connections: 100,
        auto_topic_creation: true,
        auto_topic_partitions: None,
        max_partitions: 8,
        default_bundles: 4,
        schemas: metadata::schemas::Defaults::default(),
        shutdown_timeout: Duration::from_secs(5),
        unacked: None,
        topic: TopicSettings {
            ledger: LedgerLimits { max_entries: 1000, max_bytes: 1 << 30, min_age_ms: 0, max_age_ms: 3_600_000 },
            retention: Retention { time_ms: -1, size_bytes: -1 },
            max_entry_bytes: (1 << 20) + wire::FRAME_PADDING,
            max_read_entries: 100,
            min_read_entries: 1,
            max_read_bytes: 1 << 20,
            max_round_robin: 20,
            max_unacked_per_consumer: 0,
            max_look_ahead_per_consumer: 2_000,
            max_look_ahead_per_subscription: 20_000,
            key_shared_points: 0,
            max_unacked_per_subscription: 0,
            mark_delete_rate: 1.0,
            cursor_flush_ms: 60_000,
            max_ranges: 1000,
            max_batches: 1000,
            cursor_ledger_max_entries: 1000,
            batch_index_ack: true,
            non_durable_grace_ms: 1000,
            retention_check_ms: 60_000,
            failover_delay_ms: 1_000,
            deduplication: topic::Deduplication::default(),
            delayed_tick_ms: 1_000,
            max_delay_ms: 0,
            message_ttl_ms: 0,
            expiry_check_ms: 300_000,
            limits: topic::Limits::default(),
            idle: topic::Idleness::default(),
            compaction: topic::CompactionRules::default(),
            auto_subscription: true,
            rates: topic::Rates::default(),
            quota: topic::Quotas::default(),
            producer_name_prefix: "standalone-1".into(),
        },
        policies: metadata::namespaces::Policies::new(),
    }
}

/// A running server and what it stands on.
pub(crate) struct Broker {
    pub(crate) store: Arc<ledger::MemoryStore>,
    pub(crate) metadata: Arc<metadata::MemoryStore>,
    address: SocketAddr,
    server: Option<Server>,
}

impl Broker {
    pub(crate) fn start() -> Broker {
        Broker::with(|_| ())
    }

    pub(crate) fn with(change: impl FnOnce(&mut ServerSettings)) -> Broker {
        let metadata = Arc::new(metadata::MemoryStore::new());
        let bootstrap = Bootstrap { cluster: "standalone", reached_at: Cluster::default(), bundles: 4, system_bundles: 4 };
        metadata::bootstrap(&*metadata, &bootstrap).unwrap();
        Broker::on(Arc::new(ledger::MemoryStore::new()), metadata, change)
    }

    /// A broker whose store does nothing but while [`step_while`](Self::step_while) says so.
    pub(crate) fn stepped(change: impl FnOnce(&mut ServerSettings)) -> Broker {
        let metadata = Arc::new(metadata::MemoryStore::new());
        let bootstrap = Bootstrap { cluster: "standalone", reached_at: Cluster::default(), bundles: 4, system_bundles: 4 };
        metadata::bootstrap(&*metadata, &bootstrap).unwrap();
        let store = Arc::new(ledger::MemoryStore::stepped());
        step_while(&store, || Broker::on(store.clone(), metadata, change))
    }

    /// Lets the store work until `done` returns.
    pub(crate) fn step_while<T>(&self, done: impl FnOnce() -> T) -> T {
        step_while(&self.store, done)
    }

    /// A broker on stores that another one has used.
    pub(crate) fn on(
        store: Arc<ledger::MemoryStore>,
        metadata: Arc<metadata::MemoryStore>,
        change: impl FnOnce(&mut ServerSettings),
    ) -> Broker {
        let mut settings = settings();
        change(&mut settings);
        let bound = geminga_server::bind(settings).unwrap();
        let port = bound.pulsar_port.unwrap();
        let endpoints = Endpoints {
            pulsar: format!("pulsar://127.0.0.1:{port}"),
            pulsar_tls: None,
            http: String::new(),
            https: None,
            listeners: Vec::new(),
        };
        let server = bound.start(endpoints, store.clone(), metadata.clone(), |_| Arc::new(|_, _| Box::pin(async {}))).unwrap();
        Broker { store, metadata, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)), server: Some(server) }
    }

    pub(crate) fn handle(&self) -> Handle {
        self.server.as_ref().unwrap().handle()
    }

    /// Runs a call on the server's handle.
    pub(crate) fn ask<T>(&self, call: impl AsyncFnOnce(Handle) -> T) -> T {
        wait_for(call(self.handle()))
    }

    pub(crate) fn drain(&mut self) -> bool {
        self.server.take().unwrap().drain()
    }

    pub(crate) fn server(&mut self) -> Server {
        self.server.take().unwrap()
    }

    /// A connection that has shaken hands.
    pub(crate) fn peer(&self) -> Peer {
        let mut peer = self.stranger();
        peer.say(connect());
        let Command::Connected(_) = peer.hear() else { panic!("not connected") };
        peer
    }

    /// A connection that has said nothing yet.
    pub(crate) fn stranger(&self) -> Peer {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        Peer { stream, decoder: FrameDecoder::new(64 << 20), received: BytesMut::new(), requests: 0, aside: VecDeque::new() }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Some(server) = self.server.take()
            && !std::thread::panicking()
        {
            // Held completions would hold the drain up as well.
            self.metadata.release();
            let _ = server.drain();
        }
    }
}

pub(crate) fn wait_for<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await.expect("an answer in time") })
}

/// Looks again and again until it is so.
fn step_while<T>(store: &ledger::MemoryStore, done: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Acquire) {
                if !store.step() {
                    std::thread::yield_now();
                }
            }
        });
        let result = catch_unwind(AssertUnwindSafe(done));
        stop.store(true, Ordering::Release);
        result.unwrap_or_else(|panic| resume_unwind(panic))
    })
}

pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "it never came to this: {what}");
        std::thread::yield_now();
    }
}

pub(crate) fn connect() -> proto::CommandConnect {
    proto::CommandConnect { client_version: "test".into(), protocol_version: Some(20), ..Default::default() }
}

pub(crate) fn topic(name: &str) -> wire::TopicName {
    format!("persistent://public/default/{name}").parse().unwrap()
}

/// One connection, read and written by the test's own thread.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    decoder: FrameDecoder,
    received: BytesMut,
    requests: u64,
    /// Frames that came before the one that was waited for.
    aside: VecDeque<Frame>,
}

impl Peer {
    pub(crate) fn request(&mut self) -> u64 {
        self.requests += 1;
        self.requests
    }

    pub(crate) fn say(&mut self, command: impl Into<Command>) {
        let mut bytes = BytesMut::new();
        command.into().encode(&mut bytes);
        self.say_bytes(&bytes);
    }

    pub(crate) fn say_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next frame that is no PING, which is answered.
    pub(crate) fn frame(&mut self) -> Frame {
        match self.aside.pop_front() {
            Some(frame) => frame,
            None => self.next().expect("the broker closed the connection"),
        }
    }

    pub(crate) fn hear(&mut self) -> Command {
        self.frame().command
    }

    /// The next frame that `wanted` takes; those before it are kept for later.
    pub(crate) fn hear_about<T>(&mut self, mut wanted: impl FnMut(&Frame) -> Option<T>) -> T {
        for index in 0..self.aside.len() {
            if let Some(found) = wanted(&self.aside[index]) {
                self.aside.remove(index);
                return found;
            }
        }
        loop {
            let frame = self.next().expect("the broker closed the connection");
            match wanted(&frame) {
                Some(found) => return found,
                None => self.aside.push_back(frame),
            }
        }
    }

    fn next(&mut self) -> Option<Frame> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(frame) = self.decoder.decode(&mut self.received).unwrap() {
                if matches!(frame.command, Command::Ping) {
                    self.say(Command::Pong);
                    continue;
                }
                return Some(frame);
            }
            if !self.read(deadline) {
                return None;
            }
        }
    }

    /// Reads once; false if the broker has closed the connection.
    fn read(&mut self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "nothing came in time");
        self.stream.set_read_timeout(Some(left)).unwrap();
        let mut chunk = vec![0; 64 * 1024];
        match self.stream.read(&mut chunk) {
            Ok(0) => false,
            Ok(read) => {
                self.received.extend_from_slice(&chunk[..read]);
                true
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => true,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Everything up to the end of the connection, PINGs included and not answered.
    pub(crate) fn until_closed(&mut self) -> Vec<Command> {
        let deadline = Instant::now() + PATIENCE;
        let mut heard: Vec<_> = self.aside.drain(..).map(|frame| frame.command).collect();
        loop {
            while let Some(frame) = self.decoder.decode(&mut self.received).unwrap() {
                heard.push(frame.command);
            }
            if !self.read(deadline) {
                return heard;
            }
        }
    }

    /// Sends PRODUCER; returns its request.
    pub(crate) fn ask_producer(&mut self, id: u64, topic: &str) -> u64 {
        let request_id = self.request();
        let topic = format!("persistent://public/default/{topic}");
        self.say(proto::CommandProducer { topic, producer_id: id, request_id, ..Default::default() });
        request_id
    }

    /// Attaches a producer; returns its name.
    pub(crate) fn producer(&mut self, id: u64, topic: &str) -> String {
        let request = self.ask_producer(id, topic);
        match self.answer(request) {
            Ok(Command::ProducerSuccess(success)) => success.producer_name.clone(),
            other => panic!("{other:?}"),
        }
    }

    /// Sends SUBSCRIBE for a Shared subscription from the beginning; returns its request.
    pub(crate) fn ask_consumer(&mut self, id: u64, topic: &str, subscription: &str) -> u64 {
        let request_id = self.request();
        self.say(proto::CommandSubscribe {
            topic: format!("persistent://public/default/{topic}"),
            subscription: subscription.into(),
            sub_type: proto::SubscriptionType::Shared.into(),
            consumer_id: id,
            request_id,
            initial_position: Some(proto::InitialPosition::Earliest.into()),
            ..Default::default()
        });
        request_id
    }

    pub(crate) fn consumer(&mut self, id: u64, topic: &str, subscription: &str) {
        let request = self.ask_consumer(id, topic, subscription);
        let Ok(Command::Success(_)) = self.answer(request) else { panic!("not subscribed") };
    }

    pub(crate) fn flow(&mut self, consumer: u64, permits: u32) {
        self.say(Command::Flow(wire::Flow { consumer_id: consumer, permits }));
    }

    /// Acks a message and waits until the topic has taken the ack.
    pub(crate) fn ack(&mut self, consumer: u64, message: &wire::Message) {
        let request = self.request();
        self.say(Command::Ack(wire::Ack {
            consumer_id: consumer,
            ack_type: wire::AckType::Individual,
            ids: wire::AckIds::One(message.message_id.clone()),
            validation_error: None,
            properties: Vec::new(),
            txn: None,
            request_id: Some(request),
        }));
        self.hear_about(|frame| match &frame.command {
            Command::AckResponse(response) if response.request_id == Some(request) => {
                assert_eq!(response.error, None, "{response:?}");
                Some(())
            }
            _ => None,
        });
    }

    pub(crate) fn close_producer(&mut self, id: u64) -> u64 {
        let request_id = self.request();
        self.say(proto::CommandCloseProducer { producer_id: id, request_id, ..Default::default() });
        request_id
    }

    pub(crate) fn close_consumer(&mut self, id: u64) -> u64 {
        let request_id = self.request();
        self.say(proto::CommandCloseConsumer { consumer_id: id, request_id, ..Default::default() });
        request_id
    }

    /// Sends a message of `text`.
    pub(crate) fn send(&mut self, producer: u64, sequence: u64, text: &[u8]) {
        let bytes = send_frame(producer, sequence, text);
        self.say_bytes(&bytes);
    }

    pub(crate) fn receipt(&mut self, sequence: u64) -> wire::SendReceipt {
        self.hear_about(|frame| match &frame.command {
            Command::SendReceipt(receipt) if receipt.sequence_id == sequence => Some(receipt.clone()),
            Command::SendError(error) => panic!("{error:?}"),
            _ => None,
        })
    }

    /// The next message: its consumer and payload.
    pub(crate) fn message(&mut self) -> (wire::Message, Bytes) {
        self.hear_about(|frame| match &frame.command {
            Command::Message(message) => Some((message.clone(), body(&frame.payload))),
            _ => None,
        })
    }

    /// The answer to a request: the command, or the error.
    pub(crate) fn answer(&mut self, request: u64) -> Result<Command, (ServerError, String)> {
        self.hear_about(|frame| {
            let (of, command) = match &frame.command {
                Command::Error(error) if error.request_id == request => return Some(Err((error.error(), error.message.clone()))),
                Command::Success(success) => (success.request_id, &frame.command),
                Command::ProducerSuccess(success) => (success.request_id, &frame.command),
                Command::LookupTopicResponse(response) => (response.request_id, &frame.command),
                Command::PartitionedTopicMetadataResponse(response) => (response.request_id, &frame.command),
                Command::GetTopicsOfNamespaceResponse(response) => (response.request_id, &frame.command),
                _ => return None,
            };
            (of == request).then(|| Ok(command.clone()))
        })
    }

    /// Waits until everything said so far was read, by asking something harmless.
    pub(crate) fn sync(&mut self) {
        self.say(Command::Ping);
        self.hear_about(|frame| matches!(frame.command, Command::Pong).then_some(()));
    }

    pub(crate) fn has_aside(&self, wanted: impl Fn(&Command) -> bool) -> bool {
        self.aside.iter().any(|frame| wanted(&frame.command))
    }
}

pub(crate) fn send_frame(producer: u64, sequence: u64, text: &[u8]) -> BytesMut {
    let metadata = proto::MessageMetadata { producer_name: "test".into(), sequence_id: sequence, publish_time: 1, ..Default::default() };
    let mut payload = BytesMut::new();
    wire::payload::build(&metadata, text, &mut payload);
    let mut bytes = BytesMut::new();
    wire::encode_send(&mut bytes, &Send { producer_id: producer, sequence_id: sequence, ..Default::default() }, &payload);
    bytes
}

/// What follows the metadata of a message.
pub(crate) fn body(payload: &Bytes) -> Bytes {
    payload.slice_ref(wire::payload::parts(payload).unwrap().message)
}
