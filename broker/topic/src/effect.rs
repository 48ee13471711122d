//! What a topic asks its owner to do.

use bytes::Bytes;
use ledger::{AckSet, LedgerId, Position, Purpose};
use wire::ServerError;

use crate::{CompactionJob, ConnectionKey, ConsumerKey, ConsumerSlot, ProducerKey, ProducerSlot};

/// Ties an answer of storage or metadata to the request; the topic chooses it, its owner hands it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// Effects of one or more events, in order. The owner drains it; the allocation is kept from turn to turn.
pub type Effects = Vec<Effect>;

/// One request of a topic.
#[derive(Debug)]
pub enum Effect {
    /// Append an entry of the topic; answered by [`Topic::appended`](crate::Topic::appended) in order.
    Append {
        /// The position it was given.
        at: Position,
        /// The producer's bytes.
        bytes: Bytes,
    },
    /// Append a cursor's state to its cursor ledger; answered by [`Topic::cursor_appended`](crate::Topic::cursor_appended).
    AppendCursor {
        /// For the answer.
        tag: Tag,
        /// Where in the cursor ledger.
        at: Position,
        /// Encoded state.
        bytes: Vec<u8>,
    },
    /// Create a ledger; answered by [`Topic::ledger_created`](crate::Topic::ledger_created).
    CreateLedger {
        /// For the answer.
        tag: Tag,
        /// What for.
        purpose: Purpose,
    },
    /// Seal a ledger nobody appends to any more; not answered.
    SealLedger(LedgerId),
    /// Delete ledgers; not answered (a leak is found as an orphan at the next start).
    DeleteLedgers(Vec<LedgerId>),
    /// Read entries of one ledger; answered by [`Topic::read_done`](crate::Topic::read_done).
    Read {
        /// For the answer.
        tag: Tag,
        /// The first entry.
        from: Position,
        /// The last entry, included; same ledger.
        last: Position,
        /// At most this many entries.
        max_entries: usize,
        /// At most this many bytes, but at least one entry.
        max_bytes: usize,
    },
    /// Compact the topic, on a thread that may wait; answered by [`Topic::compacted`](crate::Topic::compacted).
    Compact {
        /// For the answer.
        tag: Tag,
        /// What to do.
        job: Box<CompactionJob>,
    },
    /// Change the metadata tree; changes of one topic are carried out in order. Answered by [`Topic::changed`](crate::Topic::changed).
    Change {
        /// For the answer.
        tag: Tag,
        /// What to write.
        change: Change,
    },
    /// Nobody has used the topic for as long as it may be unused: delete it, unless somebody comes first.
    Deserted,
    /// A publish is durable.
    Receipt {
        /// The producer.
        to: ProducerKey,
        /// The SEND's sequence id, unchanged.
        sequence: u64,
        /// The SEND's highest sequence id, unchanged.
        highest_sequence: u64,
        /// Where it is; `None` for one that was not stored.
        at: Option<Position>,
        /// The bytes that the publish held of the connection's publish budget.
        bytes: u32,
    },
    /// A publish was refused.
    Refused {
        /// The producer.
        to: ProducerKey,
        /// The SEND's sequence id.
        sequence: u64,
        /// Why, as the protocol says it.
        error: ServerError,
        /// Why, for people.
        message: String,
        /// The bytes that the publish held of the connection's publish budget.
        bytes: u32,
    },
    /// An accepted publish will never be answered (its producer is being closed): only its budget goes back.
    Forgotten {
        /// The producer.
        to: ProducerKey,
        /// The bytes that the publish held of the connection's publish budget.
        bytes: u32,
    },
    /// A publish is kept back because its topic's rate is spent. It holds its connection's publish budget, but waits for no disk.
    Held {
        /// The producer.
        to: ProducerKey,
        /// Its bytes.
        bytes: u32,
    },
    /// A publish is kept back no longer: it is on its way again, or is about to be forgotten. Comes once for each that was held.
    Released {
        /// The producer.
        to: ProducerKey,
        /// Its bytes.
        bytes: u32,
    },
    /// Deliver an entry.
    Deliver {
        /// The consumer.
        to: ConsumerKey,
        /// The entry.
        at: Position,
        /// How many permits it takes.
        messages: u32,
        /// How often it was delivered before.
        redeliveries: u32,
        /// What is left of a partly acked batch.
        ack_set: Option<Box<AckSet>>,
        /// The consumer's epoch, for Exclusive and Failover consumers that sent one.
        epoch: Option<u64>,
        /// The entry's bytes.
        bytes: Bytes,
    },
    /// Answer a request.
    Reply {
        /// The connection.
        to: ConnectionKey,
        /// The answer.
        reply: Reply,
    },
    /// Something an operator must know: a damaged entry, a refused write. For the log.
    Report {
        /// What happened.
        message: String,
    },
    /// The topic cannot go on (fenced, failed append): close its producers and consumers, let go of it, load it again when asked.
    Unload {
        /// Why, for the log.
        reason: String,
    },
}

/// A write to the metadata tree, by the part of the topic it belongs to; `expected` is the version last seen.
#[derive(Debug)]
pub enum Change {
    /// The managed ledger's list.
    Ledgers {
        /// Encoded list.
        bytes: Vec<u8>,
        /// Version of the topic's node.
        expected: i64,
    },
    /// A new cursor.
    CreateCursor {
        /// The subscription.
        subscription: String,
        /// Encoded record.
        bytes: Vec<u8>,
    },
    /// A cursor's record.
    Cursor {
        /// The subscription.
        subscription: String,
        /// Encoded record.
        bytes: Vec<u8>,
        /// Version of the cursor's node.
        expected: i64,
    },
    /// The end of a cursor.
    DeleteCursor {
        /// The subscription.
        subscription: String,
        /// Version of the cursor's node.
        expected: i64,
    },
}

/// An answer to a request of a client.
#[derive(Debug)]
pub enum Reply {
    /// Done.
    Success {
        /// The request.
        request: u64,
    },
    /// Not done.
    Error {
        /// The request.
        request: u64,
        /// Why, as the protocol says it.
        error: ServerError,
        /// Why, for people.
        message: String,
    },
    /// A producer is attached.
    ProducerReady {
        /// The request.
        request: u64,
        /// The producer.
        producer: ProducerKey,
        /// Its index in the topic.
        slot: ProducerSlot,
        /// Its name, given or made.
        name: String,
        /// The last sequence id known, or -1.
        last_sequence: i64,
        /// The epoch under which it has the topic to itself.
        topic_epoch: Option<u64>,
    },
    /// A producer waits to have the topic to itself; `ProducerReady` or `Error` comes later, to the same request.
    ProducerWaiting {
        /// The request.
        request: u64,
        /// The producer.
        producer: ProducerKey,
        /// Its name, given or made.
        name: String,
    },
    /// A consumer is attached.
    ConsumerReady {
        /// The request.
        request: u64,
        /// The consumer.
        consumer: ConsumerKey,
        /// Its index in the topic.
        slot: ConsumerSlot,
    },
    /// The topic closed a producer.
    CloseProducer {
        /// The producer.
        producer: ProducerKey,
    },
    /// The topic closed a consumer.
    CloseConsumer {
        /// The consumer.
        consumer: ConsumerKey,
    },
    /// Which consumer of a Failover subscription is the active one has changed; comes after the consumer's `ConsumerReady`.
    ActiveChange {
        /// The consumer that is told.
        consumer: ConsumerKey,
        /// Whether it is the active one now.
        active: bool,
    },
    /// Acks were taken.
    AckDone {
        /// The request.
        request: u64,
        /// The consumer.
        consumer: ConsumerKey,
        /// Why not, if not.
        error: Option<(ServerError, String)>,
    },
    /// The newest message.
    LastMessageId {
        /// The request.
        request: u64,
        /// Its entry, or `Position` (-1, -1).
        at: Position,
        /// The topic's partition index, or -1.
        partition: i32,
        /// Its index in the batch, or -1.
        batch_index: i32,
        /// The cursor's mark-delete position.
        mark_delete: Position,
    },
    /// Where something is: the message that a search found, or the last one of a topic that has ended.
    Place {
        /// The request.
        request: u64,
        /// Where.
        at: Position,
    },
    /// The topic has ended and the consumer's subscription has acked all of it.
    EndOfTopic {
        /// The consumer that is told.
        consumer: ConsumerKey,
    },
    /// What a consumer's statistics request asked for.
    ConsumerStats {
        /// The request.
        request: u64,
        /// The numbers.
        stats: Box<crate::stats::ConsumerStats>,
    },
}
