//! What commands point at: stored messages and transactions.

/// The request id of a command that the broker sends unasked; it is never answered.
pub const NO_REQUEST: u64 = u64::MAX;

/// Where a message is stored, as commands carry it (`MessageIdData`). −1 is written as `u64::MAX`.
///
/// `None` is "not sent", which encodes to nothing; the methods of the same name give the protocol's default instead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageId {
    /// The ledger.
    pub ledger: u64,
    /// The entry in it.
    pub entry: u64,
    /// The partition of the topic.
    pub partition: Option<i32>,
    /// The message's index in its batch.
    pub batch_index: Option<i32>,
    /// How many messages the batch has.
    pub batch_size: Option<i32>,
    /// A bit per message of the batch, lowest word first; a set bit is still unacked. Empty: not sent.
    pub ack_set: Vec<u64>,
    /// Of a chunked message: its first chunk.
    pub first_chunk: Option<Box<MessageId>>,
}

impl MessageId {
    /// Before the first message of a topic.
    pub const EARLIEST: Self = Self::new(u64::MAX, u64::MAX);
    /// After the last message of a topic.
    pub const LATEST: Self = Self::new(i64::MAX as u64, i64::MAX as u64);

    /// An entry, with nothing said about partition or batch.
    pub const fn new(ledger: u64, entry: u64) -> Self {
        Self { ledger, entry, partition: None, batch_index: None, batch_size: None, ack_set: Vec::new(), first_chunk: None }
    }

    /// An entry of a partition; a negative index stands for a topic that is none and is not sent.
    pub const fn of_partition(ledger: u64, entry: u64, partition: i32) -> Self {
        let mut id = Self::new(ledger, entry);
        if partition >= 0 {
            id.partition = Some(partition);
        }
        id
    }

    /// The partition, −1 when not sent.
    pub fn partition(&self) -> i32 {
        self.partition.unwrap_or(-1)
    }

    /// The index in the batch, −1 when not sent.
    pub fn batch_index(&self) -> i32 {
        self.batch_index.unwrap_or(-1)
    }
}

/// A transaction: the coordinator is in the most significant bits, its counter in the least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxnId {
    /// `txnid_most_bits`.
    pub most: u64,
    /// `txnid_least_bits`.
    pub least: u64,
}

impl TxnId {
    /// The transaction of a command's two optional halves; a half that was not sent is zero, two of them are no transaction.
    pub fn from_halves(most: Option<u64>, least: Option<u64>) -> Option<Self> {
        (most.is_some() || least.is_some()).then(|| Self { most: most.unwrap_or(0), least: least.unwrap_or(0) })
    }
}

impl std::fmt::Display for TxnId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "({},{})", self.most, self.least)
    }
}
