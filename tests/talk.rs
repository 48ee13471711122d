//! The few words that most tests exchange with a broker.

use std::collections::VecDeque;

use client::{Client, Consumer, ConsumerOptions, Message, MessageId, Options, Producer, ProducerOptions, Received, raw::RawConnection};
use geminga_tests::harness::{Broker, soon};
use wire::{Command, proto};

/// A client that repairs nothing, so that a test sees what the broker does.
pub(crate) async fn plain(broker: &Broker) -> Client {
    soon("connecting", Client::connect(broker.url(), Options::without_reconnect())).await.expect("the broker answers")
}

/// A client that comes back after a restart.
pub(crate) async fn persistent(broker: &Broker) -> Client {
    soon("connecting", Client::connect(broker.url(), Options::default())).await.expect("the broker answers")
}

pub(crate) async fn produce(client: &Client, topic: &str) -> Producer {
    soon("creating a producer", client.producer(topic, ProducerOptions::default())).await.expect("a producer")
}

pub(crate) async fn consume(client: &Client, topic: &str, options: ConsumerOptions) -> Consumer {
    soon("subscribing", client.consumer(topic, options)).await.expect("a consumer")
}

/// Options of a consumer whose permits the test gives itself.
pub(crate) fn by_hand(options: ConsumerOptions) -> ConsumerOptions {
    ConsumerOptions { manual_permits: true, ..options }
}

/// Publishes texts, all on their way at once, and waits until they are stored.
pub(crate) async fn publish<T: Into<String>>(producer: &Producer, texts: impl IntoIterator<Item = T>) -> Vec<MessageId> {
    let mut under_way = Vec::new();
    for text in texts {
        under_way.push(soon("room for a message", producer.enqueue(Message::new(text.into()))).await.expect("taken"));
    }
    let mut ids = Vec::new();
    for sending in under_way {
        ids.push(soon("a receipt", sending).await.expect("stored"));
    }
    ids
}

/// Publishes so many messages (`from`, `from` + 1, ...) as one batch.
pub(crate) async fn publish_batch(producer: &Producer, from: usize, count: usize) -> MessageId {
    let messages = (from..from + count).map(|n| Message::new(n.to_string())).collect();
    soon("the receipt of a batch", producer.send_batch(messages)).await.expect("stored")
}

pub(crate) async fn next(consumer: &Consumer) -> Received {
    soon("the next message", consumer.recv()).await.expect("a message")
}

pub(crate) fn text(message: &Received) -> String {
    String::from_utf8(message.payload.to_vec()).expect("text")
}

/// The next so many messages' texts.
pub(crate) async fn texts(consumer: &Consumer, count: usize) -> Vec<String> {
    let mut texts = Vec::with_capacity(count);
    for _ in 0..count {
        texts.push(text(&next(consumer).await));
    }
    texts
}

/// Texts of the numbers in a range, to publish or to expect.
pub(crate) fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|n| n.to_string()).collect()
}

/// Returns when the broker has done with everything this consumer said before, and everything it sent before has arrived.
///
/// The question goes the way of all the consumer's commands, to the topic and back, so its answer overtakes nothing.
pub(crate) async fn settle(consumer: &Consumer) {
    for _ in 0..2 {
        soon("an answer", consumer.last_message()).await.expect("answered");
    }
}

/// A connection for single commands, with the answers to requests told from what comes unasked.
pub(crate) struct Wire {
    pub(crate) raw: RawConnection,
    unasked: VecDeque<wire::Frame>,
    next_request: u64,
}

impl Wire {
    pub(crate) async fn connect(broker: &Broker) -> Self {
        let raw = soon("a handshake", RawConnection::connect(broker.url())).await.expect("connected");
        Self { raw, unasked: VecDeque::new(), next_request: 1 }
    }

    /// Sends a request and returns the next command, which must be the answer.
    pub(crate) async fn request(&mut self, build: impl FnOnce(u64) -> Command) -> Command {
        let id = self.next_request;
        self.next_request += 1;
        self.raw.send(build(id)).await.expect("sent");
        self.raw.recv_command().await.expect("an answer")
    }

    pub(crate) async fn producer(&mut self, topic: &str, producer_id: u64) -> String {
        let answer = self
            .request(|request_id| proto::CommandProducer { topic: topic.to_owned(), producer_id, request_id, ..Default::default() }.into())
            .await;
        match answer {
            Command::ProducerSuccess(success) => success.producer_name,
            other => panic!("PRODUCER was answered with {other:?}"),
        }
    }

    pub(crate) async fn subscribe(&mut self, subscribe: proto::CommandSubscribe) {
        let answer = self.request(|request_id| proto::CommandSubscribe { request_id, ..subscribe }.into()).await;
        assert!(matches!(answer, Command::Success(_)), "SUBSCRIBE was answered with {answer:?}");
    }

    /// The next frame, in the order it came.
    pub(crate) async fn next(&mut self) -> wire::Frame {
        match self.unasked.pop_front() {
            Some(frame) => frame,
            None => loop {
                let frame = self.raw.recv().await.expect("a frame");
                match frame.command {
                    Command::Ping => self.raw.send(Command::Pong).await.expect("sent"),
                    _ => return frame,
                }
            },
        }
    }
}

/// A SUBSCRIBE with all defaults.
pub(crate) fn subscribe(topic: &str, subscription: &str, kind: wire::SubscriptionType, consumer_id: u64) -> proto::CommandSubscribe {
    proto::CommandSubscribe {
        topic: topic.to_owned(),
        subscription: subscription.to_owned(),
        sub_type: kind.into(),
        consumer_id,
        initial_position: Some(wire::InitialPosition::Earliest.into()),
        ..Default::default()
    }
}
