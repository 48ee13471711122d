//! Who speaks: connections and what they opened.

/// A connection: its worker, its slot there, and a generation that is never reused for that slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionKey {
    /// The worker that owns the connection.
    pub worker: u16,
    /// Its slot in that worker.
    pub slot: u32,
    /// Tells successive connections in one slot apart.
    pub generation: u32,
}

/// A producer: the connection and the id it chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerKey {
    /// The connection.
    pub connection: ConnectionKey,
    /// The client's producer id.
    pub id: u64,
}

/// A consumer: the connection and the id it chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerKey {
    /// The connection.
    pub connection: ConnectionKey,
    /// The client's consumer id.
    pub id: u64,
}

/// A producer's index in its topic, told on attach; events on the road carry it beside the key, which is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProducerSlot(pub u32);

/// A consumer's index in its topic, told on attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConsumerSlot(pub u32);
