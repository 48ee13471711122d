//! A broker of one topic and a hundred lines: keeps what it is sent in memory and hands it to whoever subscribes. It notes every command.

use std::{
    io,
    sync::{Arc, Mutex},
};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};
use wire::{Command, Delivery, FrameDecoder, MessageId, Receipt, encode_message_header, encode_receipt, proto};

/// The broker. It stops when dropped.
pub(crate) struct Fake {
    pub(crate) url: String,
    pub(crate) seen: Arc<Mutex<Vec<Command>>>,
    log: Arc<Mutex<Vec<Bytes>>>,
    cut: watch::Sender<u32>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Fake {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("pulsar://{}", listener.local_addr().expect("an address"));
        let (seen, log) = (Arc::<Mutex<Vec<Command>>>::default(), Arc::<Mutex<Vec<Bytes>>>::default());
        let (cut, cuts) = watch::channel(0);
        let accepting = tokio::spawn({
            let (seen, log, url) = (seen.clone(), log.clone(), url.clone());
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let connection = Connection { stream, url: url.clone(), seen: seen.clone(), log: log.clone(), out: BytesMut::new() };
                    let mut cuts = cuts.clone();
                    cuts.mark_unchanged();
                    tokio::spawn(async move {
                        tokio::select! {
                            _ = connection.serve() => {}
                            _ = cuts.changed() => {}
                        }
                    });
                }
            }
        });
        Self { url, seen, log, cut, accepting }
    }

    /// Cuts every connection.
    pub(crate) fn cut(&self) {
        self.cut.send_modify(|count| *count += 1);
    }

    /// How many entries were published.
    pub(crate) fn entries(&self) -> usize {
        self.log.lock().expect("not poisoned").len()
    }

    /// How often a command came, by its name.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.seen.lock().expect("not poisoned").iter().filter(|command| command.name() == name).count()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

struct Connection {
    stream: TcpStream,
    url: String,
    seen: Arc<Mutex<Vec<Command>>>,
    log: Arc<Mutex<Vec<Bytes>>>,
    out: BytesMut,
}

impl Connection {
    async fn serve(mut self) -> io::Result<()> {
        let (decoder, mut received) = (FrameDecoder::new(wire::DEFAULT_MAX_MESSAGE_SIZE), BytesMut::new());
        let (mut consumer, mut permits, mut next) = (None, 0, 0);
        loop {
            while let Some(frame) = decoder.decode(&mut received).map_err(io::Error::other)? {
                self.seen.lock().expect("not poisoned").push(frame.command.clone());
                match frame.command {
                    Command::Subscribe(it) => {
                        (consumer, permits, next) = (Some(it.consumer_id), 0, 0);
                        self.success(it.request_id);
                    }
                    Command::Flow(it) => permits += it.permits,
                    Command::RedeliverUnacknowledgedMessages(_) => next = 0,
                    Command::Seek(it) => {
                        self.say(proto::CommandCloseConsumer { consumer_id: it.consumer_id, request_id: u64::MAX, ..Default::default() });
                        consumer = None;
                        self.success(it.request_id);
                    }
                    command => self.answer(command, frame.payload),
                }
            }
            let log = self.log.lock().expect("not poisoned").clone();
            while let (Some(consumer_id), true, Some(payload)) = (consumer, permits > 0, log.get(next)) {
                let delivery = Delivery { consumer_id, ledger: 1, entry: next as u64, partition: -1, ..Delivery::default() };
                encode_message_header(&mut self.out, &delivery, payload.len());
                self.out.extend_from_slice(payload);
                (permits, next) = (permits.saturating_sub(wire::payload::peek(payload).map_err(io::Error::other)?.messages), next + 1);
            }
            self.stream.write_all(&self.out.split()).await?;
            if self.stream.read_buf(&mut received).await? == 0 {
                return Ok(());
            }
        }
    }

    fn answer(&mut self, command: Command, payload: Bytes) {
        match command {
            Command::Connect(_) => self.say(proto::CommandConnected { server_version: "fake".into(), ..Default::default() }),
            Command::LookupTopic(it) => self.say(proto::CommandLookupTopicResponse {
                request_id: it.request_id,
                response: Some(proto::LookupOutcome::Connect.into()),
                broker_service_url: Some(self.url.clone()),
                ..Default::default()
            }),
            Command::Producer(it) => self.say(proto::CommandProducerSuccess {
                request_id: it.request_id,
                producer_name: it.producer_name.clone().unwrap_or_else(|| "fake-1".into()),
                last_sequence_id: Some(-1),
                ..Default::default()
            }),
            Command::Send(it) => {
                let mut log = self.log.lock().expect("not poisoned");
                log.push(payload);
                let receipt = Receipt {
                    producer_id: it.producer_id,
                    sequence_id: it.sequence_id,
                    // Of a single message Apache Pulsar tells -1.
                    highest_sequence_id: it.highest_sequence_id.or(Some(u64::MAX)),
                    ledger: 1,
                    entry: log.len() as u64 - 1,
                    partition: -1,
                };
                encode_receipt(&mut self.out, &receipt);
            }
            Command::GetLastMessageId(it) => {
                let last = self.log.lock().expect("not poisoned").len() as u64;
                self.say(proto::CommandGetLastMessageIdResponse {
                    request_id: it.request_id,
                    last_message_id: MessageId::new(1, last.wrapping_sub(1)).into(),
                    ..Default::default()
                });
            }
            Command::CloseProducer(it) => self.success(it.request_id),
            Command::CloseConsumer(it) => self.success(it.request_id),
            Command::Ping => self.say(Command::Pong),
            _ => {}
        }
    }

    fn success(&mut self, request_id: u64) {
        self.say(proto::CommandSuccess { request_id, schema: None });
    }

    fn say(&mut self, command: impl Into<Command>) {
        command.into().encode(&mut self.out);
    }
}
