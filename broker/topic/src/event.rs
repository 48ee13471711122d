//! What happens to a topic.

use bytes::Bytes;
use ledger::{CursorState, EntryCache, LedgerId, LedgerLimits, Position, Retention, StoreError, StoredEntry};

use crate::{
    AccessMode, CompactionRules, ConsumerKey, ConsumerSlot, Effects, Idleness, Limits, ProducerKey, ProducerSlot, Quotas, Rates, Tag,
};

/// The owner's clocks, read once a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds on a clock that never goes back; its zero means nothing.
    pub monotonic_ms: u64,
    /// Milliseconds since the epoch.
    pub wall_ms: u64,
}

/// What the owner lends a topic for one call.
pub struct Turn<'a> {
    /// The time.
    pub now: Now,
    /// The worker's entry cache.
    pub cache: &'a mut EntryCache,
    /// Where effects go.
    pub out: &'a mut Effects,
}

/// What a topic must know of its settings; a copy, replaced as a whole when they change.
#[derive(Clone, Debug)]
pub struct TopicSettings {
    /// Rollover.
    pub ledger: LedgerLimits,
    /// Retention of consumed data.
    pub retention: Retention,
    /// The largest entry the store takes, in bytes; larger publishes are refused. 0 = no limit.
    pub max_entry_bytes: usize,
    /// Entries one dispatch step reads and delivers at most (`dispatcherMaxReadBatchSize`).
    pub max_read_entries: usize,
    /// Entries that the first read after a failed one asks for at most; each that works doubles it (`dispatcherMinReadBatchSize`).
    pub min_read_entries: usize,
    /// Bytes one dispatch step reads at most (`dispatcherMaxReadSizeBytes`).
    pub max_read_bytes: usize,
    /// Entries one consumer gets before the next one's turn (`dispatcherMaxRoundRobinBatchSize`).
    pub max_round_robin: usize,
    /// How long the next active consumer of a Failover subscription waits for the acks of the one before
    /// (`activeConsumerFailoverDelayTimeMillis`).
    pub failover_delay_ms: u64,
    /// Unacked messages a Shared consumer may hold (`maxUnackedMessagesPerConsumer`), 0 = no limit.
    pub max_unacked_per_consumer: u32,
    /// Unacked messages a Shared subscription may hold (`maxUnackedMessagesPerSubscription`), 0 = no limit.
    pub max_unacked_per_subscription: u32,
    /// Entries that may wait per Key_Shared consumer while others are looked for behind them, 0 = no limit
    /// (`keySharedLookAheadMsgInReplayThresholdPerConsumer`).
    pub max_look_ahead_per_consumer: usize,
    /// The same for the whole subscription; the lower limit counts (`keySharedLookAheadMsgInReplayThresholdPerSubscription`).
    pub max_look_ahead_per_subscription: usize,
    /// Points of each Key_Shared consumer on a ring of hashes (`subscriptionKeySharedConsistentHashingReplicaPoints`); 0 splits
    /// the hashes evenly instead (`subscriptionKeySharedUseConsistentHashing`). Taken when a subscription's first consumer comes.
    pub key_shared_points: u32,
    /// Cursor states per second and cursor (`managedLedgerDefaultMarkDeleteRateLimit`).
    pub mark_delete_rate: f64,
    /// How long a dirty cursor may stay unwritten, in milliseconds (`managedLedgerCursorPositionFlushSeconds`).
    pub cursor_flush_ms: u64,
    /// Ranges persisted per cursor (`managedLedgerMaxUnackedRangesToPersist`).
    pub max_ranges: usize,
    /// Batches persisted per cursor (`managedLedgerMaxBatchDeletedIndexToPersist`).
    pub max_batches: usize,
    /// Entries per cursor ledger (`managedLedgerCursorMaxEntriesPerLedger`).
    pub cursor_ledger_max_entries: u64,
    /// Whether part of a batch can be acked (`acknowledgmentAtBatchIndexLevelEnabled`).
    pub batch_index_ack: bool,
    /// How long a non-durable cursor outlives its last consumer, in milliseconds, so that a seek's reconnect finds it.
    pub non_durable_grace_ms: u64,
    /// How often consumed ledgers are looked for, in milliseconds (`retentionCheckIntervalInSeconds`).
    pub retention_check_ms: u64,
    /// Whether and how messages that are sent twice are recognised.
    pub deduplication: Deduplication,
    /// How exactly delayed messages are timed, in milliseconds: none is early, and none later than this
    /// (`delayedDeliveryTickTimeMillis`). 0 delivers all at once.
    pub delayed_tick_ms: u64,
    /// The longest delay a publish may ask for, counted from its publish time, in milliseconds; one that asks for more is refused
    /// (`delayedDeliveryMaxDelayInMillis`). 0 = no limit.
    pub max_delay_ms: u64,
    /// Messages older than this are taken as acked by durable subscriptions, in milliseconds
    /// (`ttlDurationDefaultInSeconds`). 0 = they are kept until they are acked.
    pub message_ttl_ms: u64,
    /// How often such messages are looked for, in milliseconds (`messageExpiryCheckIntervalInMinutes`).
    pub expiry_check_ms: u64,
    /// How many clients it takes, and of which kinds.
    pub limits: Limits,
    /// What happens when nobody uses it.
    pub idle: Idleness,
    /// When it is compacted by itself, and what stays.
    pub compaction: CompactionRules,
    /// Whether a durable subscription may be created by a SUBSCRIBE (`allowAutoSubscriptionCreation`).
    pub auto_subscription: bool,
    /// How fast it may be used.
    pub rates: Rates,
    /// How much may wait for the slowest durable subscription.
    pub quota: Quotas,
    /// Prefix of generated producer names: `{cluster}-{instance}`.
    pub producer_name_prefix: String,
}

/// How messages that are sent twice are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deduplication {
    /// Whether they are (`brokerDeduplicationEnabled`, or the namespace's policy); settled when a topic is loaded.
    pub enabled: bool,
    /// After how many entries the sequence ids are saved (`brokerDeduplicationEntriesInterval`); a load replays as many.
    pub snapshot_entries: u64,
    /// After how long they are saved otherwise, in milliseconds (`brokerDeduplicationSnapshotIntervalSeconds`).
    pub snapshot_ms: u64,
    /// How many producers' ids are saved (`brokerDeduplicationMaxNumberOfProducers`).
    pub max_producers: usize,
    /// After how long without a producer a name is forgotten, in milliseconds
    /// (`brokerDeduplicationProducerInactivityTimeoutMinutes`).
    pub forget_after_ms: u64,
}

impl Default for Deduplication {
    /// Pulsar's defaults.
    fn default() -> Deduplication {
        Deduplication {
            enabled: false,
            snapshot_entries: 1_000,
            snapshot_ms: 120_000,
            max_producers: 10_000,
            forget_after_ms: 360 * 60_000,
        }
    }
}

/// A durable cursor as it was loaded.
#[derive(Clone, Debug)]
pub struct StoredCursor {
    /// The subscription.
    pub subscription: String,
    /// Its state.
    pub state: CursorState,
    /// Version of its node.
    pub version: i64,
    /// The cursor ledger its record names, sealed by the load; deleted once a newer state is recorded.
    pub ledger: Option<LedgerId>,
    /// Cursor properties.
    pub properties: Vec<(String, String)>,
}

/// A producer wants in.
#[derive(Clone, Debug)]
pub struct AttachProducer {
    /// Who.
    pub key: ProducerKey,
    /// The request to answer.
    pub request: u64,
    /// The name asked for; none to have one made.
    pub name: Option<String>,
    /// Whether the user chose the name (else the client keeps one the broker made).
    pub user_provided_name: bool,
    /// The client's count of reconnects of this producer.
    pub epoch: u64,
    /// How it shares the topic with others.
    pub access: AccessMode,
    /// The epoch it had the topic under before, if it had.
    pub topic_epoch: Option<u64>,
    /// A subscription to create before the answer.
    pub initial_subscription: Option<String>,
    /// Properties, for statistics.
    pub properties: Vec<(String, String)>,
    /// The client's address, for statistics.
    pub address: String,
    /// The client's version, for statistics.
    pub client_version: String,
}

/// A SEND whose checksum held.
#[derive(Clone, Debug)]
pub struct Publish {
    /// Who.
    pub key: ProducerKey,
    /// Where in the topic.
    pub slot: ProducerSlot,
    /// Sequence id of the first message.
    pub sequence: u64,
    /// Highest sequence id, or 0.
    pub highest_sequence: u64,
    /// Checksum, metadata and payload as received.
    pub bytes: Bytes,
}

/// The type of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "Pulsar's names say it")]
pub enum SubscriptionKind {
    Exclusive,
    Shared,
    Failover,
    KeyShared,
}

/// Where a cursor starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartAt {
    /// At the first message there is.
    Earliest,
    /// At the next message published.
    Latest,
    /// At this message, included.
    At(Position),
    /// At the first message published at or after this time, in milliseconds since the epoch.
    Time(u64),
}

/// A consumer wants in.
#[derive(Clone, Debug)]
pub struct AttachConsumer {
    /// Who.
    pub key: ConsumerKey,
    /// The request to answer.
    pub request: u64,
    /// The subscription.
    pub subscription: String,
    /// Its type.
    pub kind: SubscriptionKind,
    /// Whether the cursor survives its consumers.
    pub durable: bool,
    /// Where a new cursor starts; none on a non-durable subscription: keep its cursor if there is one, else latest.
    pub start: Option<StartAt>,
    /// The consumer's name, for statistics.
    pub name: String,
    /// Lower goes first.
    pub priority: i32,
    /// The client's epoch, if it keeps one.
    pub epoch: Option<u64>,
    /// Whether it wants only the newest message of each key, as far as the topic is compacted.
    pub read_compacted: bool,
    /// How keys are split, on a Key_Shared subscription.
    pub key_shared: KeySharedPolicy,
    /// What is noted on the subscription, if this consumer makes it.
    pub subscription_properties: Vec<(String, String)>,
    /// Properties, for statistics.
    pub properties: Vec<(String, String)>,
    /// The client's address, for statistics.
    pub address: String,
    /// The client's version, for statistics.
    pub client_version: String,
}

/// How the consumers of a Key_Shared subscription split its keys; the same for all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySharedPolicy {
    /// Who gets which keys.
    pub split: KeySplit,
    /// Whether a key may go to its new owner while the old one still holds messages of it.
    pub allow_out_of_order: bool,
}

/// Who gets which keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KeySplit {
    /// Slots are split evenly over whoever is there.
    #[default]
    Auto,
    /// Each consumer brings its ranges; what is in none of them waits.
    Sticky(Vec<HashRange>),
}

/// A range of key slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashRange {
    /// The first slot.
    pub first: u16,
    /// The last slot, included.
    pub last: u16,
}

impl HashRange {
    /// Every slot.
    pub const ALL: HashRange = HashRange { first: 0, last: u16::MAX };

    /// From both ends as a client spells them; none if they are no range of slots.
    #[must_use]
    pub fn new(first: i32, last: i32) -> Option<HashRange> {
        let range = HashRange { first: u16::try_from(first).ok()?, last: u16::try_from(last).ok()? };
        (range.first <= range.last).then_some(range)
    }

    /// Whether a slot is in both.
    #[must_use]
    pub fn overlaps(self, other: HashRange) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

impl std::fmt::Display for HashRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// Acks of one command.
#[derive(Clone, Debug)]
pub struct Ack {
    /// Who.
    pub key: ConsumerKey,
    /// Where in the topic.
    pub slot: ConsumerSlot,
    /// The request to answer, if the client wants an answer.
    pub request: Option<u64>,
    /// What.
    pub ids: AckIds,
}

/// What is acked. The single entry, by far the most frequent, allocates nothing.
#[derive(Clone, Debug)]
pub enum AckIds {
    /// One whole entry.
    One(Position),
    /// Entries, each with what is left of its batch (none: all of it is acked) and the batch's size if the client said.
    Many(Vec<(Position, Option<ledger::AckSet>, Option<u32>)>),
    /// Everything up to and including this one, likewise.
    Cumulative(Position, Option<ledger::AckSet>, Option<u32>),
}

/// Where a seek goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekTo {
    /// This message is delivered next; (-1,-1) and (max,max) are earliest and latest.
    Message(Position),
    /// The first message published at or after this time, in milliseconds since the epoch.
    Time(u64),
}

/// What became of a read.
pub struct ReadOutcome {
    /// The request's tag.
    pub tag: Tag,
    /// The ledger read.
    pub ledger: LedgerId,
    /// Its entries, in order.
    pub entries: Result<Vec<StoredEntry>, StoreError>,
}
