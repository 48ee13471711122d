//! The front door: publish, durable, flow, ack, attach, detach.

use ledger::{CacheKey, LedgerId, ManagedLedger, Position, StoreError};
use wire::TopicName;

use crate::event::{Ack, AttachConsumer, AttachProducer, Publish, ReadOutcome, SeekTo, StartAt, StoredCursor, TopicSettings, Turn};
use crate::stats::TopicStats;
use crate::{ConnectionKey, ConsumerKey, ConsumerSlot, Now, ProducerKey, Tag};

/// One topic. Every call may add effects to the turn; none waits.
#[derive(Debug)]
pub struct Topic {}

#[allow(missing_docs, unused_variables, clippy::todo, reason = "contract first, bodies next")]
impl Topic {
    /// A topic that was just loaded: its chain is open and recorded under `version`.
    pub fn new(
        name: TopicName,
        ledger: ManagedLedger,
        version: i64,
        cursors: Vec<StoredCursor>,
        settings: TopicSettings,
        cache: CacheKey,
        now: Now,
    ) -> Topic {
        todo!()
    }
    pub fn name(&self) -> &TopicName {
        todo!()
    }

    /// Answers with `ProducerReady` or `Error` (ProducerBusy, TopicTerminated, ServiceNotReady while unloading).
    pub fn attach_producer(&mut self, turn: &mut Turn<'_>, attach: AttachProducer) {
        todo!()
    }
    /// Frees the name once pending publishes are answered; `request` none when the connection is gone (publishes go on, unanswered).
    pub fn detach_producer(&mut self, turn: &mut Turn<'_>, key: ProducerKey, request: Option<u64>) {
        todo!()
    }
    pub fn publish(&mut self, turn: &mut Turn<'_>, publish: Publish) {
        todo!()
    }

    /// Every append up to `upto` is durable.
    pub fn appended(&mut self, turn: &mut Turn<'_>, upto: Position) {
        todo!()
    }
    /// An append failed or its outcome is unknown: nothing from `from` on is ever acknowledged, and the topic asks to be unloaded,
    /// so that producers attach and send again. To refuse publishes beforehand, see [`set_store_writable`](Self::set_store_writable).
    pub fn append_failed(&mut self, turn: &mut Turn<'_>, from: Position, error: &StoreError) {
        todo!()
    }
    /// Whether the store takes publishes: a reason refuses them before they get a position, while consuming and trimming go on.
    pub fn set_store_writable(&mut self, turn: &mut Turn<'_>, refusal: Option<String>) {
        todo!()
    }
    pub fn cursor_appended(&mut self, turn: &mut Turn<'_>, tag: Tag, outcome: Result<(), StoreError>) {
        todo!()
    }
    pub fn ledger_created(&mut self, turn: &mut Turn<'_>, tag: Tag, outcome: Result<LedgerId, StoreError>) {
        todo!()
    }
    /// A metadata change is recorded under a new version, or was refused (a version conflict fences the topic).
    pub fn changed(&mut self, turn: &mut Turn<'_>, tag: Tag, outcome: Result<i64, String>) {
        todo!()
    }
    pub fn read_done(&mut self, turn: &mut Turn<'_>, outcome: ReadOutcome) {
        todo!()
    }

    /// Answers with `ConsumerReady` or `Error` (ConsumerBusy, SubscriptionNotFound, NotAllowed, ServiceNotReady while fenced).
    pub fn attach_consumer(&mut self, turn: &mut Turn<'_>, attach: AttachConsumer) {
        todo!()
    }
    pub fn detach_consumer(&mut self, turn: &mut Turn<'_>, key: ConsumerKey, request: Option<u64>) {
        todo!()
    }
    /// `permits` more messages may be sent to the consumer.
    pub fn flow(&mut self, turn: &mut Turn<'_>, key: ConsumerKey, slot: ConsumerSlot, permits: u32) {
        todo!()
    }
    pub fn ack(&mut self, turn: &mut Turn<'_>, ack: Ack) {
        todo!()
    }
    /// Empty `ids`: all that the consumer holds.
    pub fn redeliver(&mut self, turn: &mut Turn<'_>, key: ConsumerKey, slot: ConsumerSlot, ids: Vec<Position>, epoch: Option<u64>) {
        todo!()
    }
    pub fn unsubscribe(&mut self, turn: &mut Turn<'_>, key: ConsumerKey, request: u64, force: bool) {
        todo!()
    }
    pub fn seek(&mut self, turn: &mut Turn<'_>, key: ConsumerKey, request: u64, to: SeekTo) {
        todo!()
    }
    pub fn last_message_id(&mut self, turn: &mut Turn<'_>, key: ConsumerKey, request: u64) {
        todo!()
    }
    pub fn consumer_stats(&mut self, turn: &mut Turn<'_>, key: ConsumerKey, request: u64) {
        todo!()
    }
    /// The consumer's connection takes no more for now (its out buffer is full), or takes again.
    pub fn set_writable(&mut self, turn: &mut Turn<'_>, key: ConsumerKey, slot: ConsumerSlot, writable: bool) {
        todo!()
    }

    /// When [`tick`](Self::tick) wants to be called, on the monotonic clock.
    pub fn next_deadline(&self) -> Option<u64> {
        todo!()
    }
    pub fn tick(&mut self, turn: &mut Turn<'_>) {
        todo!()
    }

    /// Refuses new work, closes producers and consumers, writes every cursor; [`unloaded`](Self::unloaded) tells when all is answered.
    pub fn unload(&mut self, turn: &mut Turn<'_>) {
        todo!()
    }
    pub fn unloaded(&self) -> bool {
        todo!()
    }
    pub fn update_settings(&mut self, turn: &mut Turn<'_>, settings: TopicSettings) {
        todo!()
    }
    /// Counters are plain integers: this copies them.
    pub fn stats(&self) -> TopicStats {
        todo!()
    }
    /// Creates a durable subscription; answers `to` with `Success` or `Error`.
    pub fn create_subscription(&mut self, turn: &mut Turn<'_>, to: ConnectionKey, request: u64, subscription: String, start: StartAt) {
        todo!()
    }
    pub fn producers(&self) -> usize {
        todo!()
    }
    pub fn consumers(&self) -> usize {
        todo!()
    }
}
