//! What one worker, or a helper thread, tells another worker.

use ledger::{LedgerId, Position, StoreError};
use topic::{
    Ack, AttachConsumer, AttachProducer, CompactionDone, ConnectionKey, ConsumerKey, ConsumerSlot, Effect, ProducerKey, Publish,
    ReadOutcome, SeekTo, Tag,
};
use wire::{Command, TopicName};

use crate::listener::Accepted;
use crate::loader::LoadError;
use crate::room::Loaded;
use crate::schemas::Brought;
use crate::worker::Worker;

/// A loaded topic: its worker, its slot there, and a generation that tells successive topics in one slot apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TopicRef {
    pub(crate) worker: u16,
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// One thing to do.
pub(crate) enum Letter {
    /// A connection was accepted for this worker.
    Accepted(Accepted),
    /// A client wants to attach to a topic, which may have to be loaded first.
    Open { name: TopicName, opener: Opener },
    /// A load ended.
    Loaded { name: TopicName, outcome: Box<Result<Loaded, LoadError>> },
    /// Something happened to a topic.
    ToTopic { topic: TopicRef, event: TopicEvent },
    /// Something for a connection, by the topic that wants it.
    ToConnection { from: TopicRef, effect: Effect },
    /// The version of the schema that a producer brought along; it is about to be attached.
    SchemaSettled { producer: ProducerKey, version: i64 },
    /// What came of looking at a client's proof of who it is, run on its worker.
    Judgement(Box<dyn FnOnce(&mut Worker) + Send>),
    /// A finished frame for a connection: the answer of a control job.
    Answer { to: ConnectionKey, command: Command },
    /// The oldest block handed to the log was dealt with.
    BlockDone(Result<(), StoreError>),
    /// There is room for blocks again, after this worker had to wait for it.
    LogHasRoom,
    /// A call from outside, run on the worker.
    Call(Box<dyn FnOnce(&mut Worker) + Send>),
}

impl Letter {
    /// Whether it goes before what may wait: everything that delivery lives on (acks, permits, what storage and other workers
    /// answer). Publishes wait, so that they never keep messages from consumers, and with them whatever a client may say
    /// behind a publish or behind another letter that waits.
    pub(crate) fn is_urgent(&self) -> bool {
        match self {
            Letter::ToConnection { .. }
            | Letter::BlockDone(_)
            | Letter::Answer { .. }
            | Letter::Accepted(_)
            | Letter::Loaded { .. }
            | Letter::SchemaSettled { .. }
            | Letter::Judgement(_)
            | Letter::LogHasRoom => true,
            Letter::ToTopic { event, .. } => matches!(
                event,
                TopicEvent::Ack(_)
                    | TopicEvent::Flow { .. }
                    | TopicEvent::SetWritable { .. }
                    | TopicEvent::Redeliver { .. }
                    | TopicEvent::ReadDone(_)
                    | TopicEvent::LedgerCreated { .. }
                    | TopicEvent::Changed { .. }
                    | TopicEvent::Compacted { .. }
            ),
            Letter::Open { .. } | Letter::Call(_) => false,
        }
    }
}

/// Told that a topic is loaded here, or why it is not.
pub(crate) type WhenOpen = Box<dyn FnOnce(Result<(&mut Worker, TopicRef), LoadError>) + Send>;

/// Who wants to attach.
pub(crate) enum Opener {
    Producer {
        attach: Box<AttachProducer>,
        schema: Brought,
    },
    Consumer {
        attach: Box<AttachConsumer>,
        create_topic: bool,
        schema: Brought,
    },
    /// The admin API, which wants the topic loaded and is told of the outcome.
    Caller(WhenOpen),
}

/// What happens to a loaded topic.
pub(crate) enum TopicEvent {
    Publish(Publish),
    Ack(Ack),
    Flow { key: ConsumerKey, slot: ConsumerSlot, permits: u32 },
    Redeliver { key: ConsumerKey, slot: ConsumerSlot, ids: Vec<Position>, epoch: Option<u64> },
    SetWritable { key: ConsumerKey, slot: ConsumerSlot, writable: bool },
    DetachProducer { key: ProducerKey, request: Option<u64> },
    DetachConsumer { key: ConsumerKey, request: Option<u64> },
    Unsubscribe { key: ConsumerKey, request: u64, force: bool },
    Seek { key: ConsumerKey, request: u64, to: SeekTo },
    LastMessageId { key: ConsumerKey, request: u64 },
    ConsumerStats { key: ConsumerKey, request: u64 },
    ReadDone(ReadOutcome),
    LedgerCreated { tag: Tag, outcome: Result<LedgerId, StoreError> },
    Changed { tag: Tag, outcome: Result<i64, String> },
    Compacted { tag: Tag, outcome: Result<CompactionDone, String> },
}
