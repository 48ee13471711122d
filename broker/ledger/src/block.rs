//! The buffer one sync covers: entries copied once, framed for the log, and sliced from then on.

use bytes::Bytes;

use crate::Position;

/// Where one entry lies in a block.
#[derive(Clone, Copy, Debug)]
pub struct BlockEntry {
    /// The entry's position.
    pub at: Position,
    /// Where its bytes begin in the block.
    pub offset: u32,
    /// How many bytes they are.
    pub len: u32,
}

/// A filled block on its way to the store.
#[derive(Clone, Debug)]
pub struct Block {
    /// Everything, as the log will write it.
    pub bytes: Bytes,
    /// The entries, in the order they were pushed.
    pub entries: Vec<BlockEntry>,
}

impl Block {
    /// The bytes of the entry at `index` in [`Block::entries`]: a slice that shares the block's memory.
    #[must_use]
    pub fn entry_bytes(&self, _index: usize) -> Bytes {
        todo!()
    }
}

/// Fills a block. Entries of many ledgers may share one.
#[derive(Debug, Default)]
pub struct BlockBuilder {}

impl BlockBuilder {
    /// An empty block.
    #[must_use]
    pub fn new() -> BlockBuilder {
        BlockBuilder::default()
    }

    /// Copies an entry in. `last_confirmed` is the ledger's last durable entry as its owner knows it, or -1.
    pub fn push(&mut self, _at: Position, _last_confirmed: i64, _bytes: &[u8]) {
        todo!()
    }

    /// Bytes so far, framing included.
    #[must_use]
    pub fn len(&self) -> usize {
        todo!()
    }

    /// Whether nothing was pushed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        todo!()
    }

    /// Closes the block and leaves an empty builder behind.
    pub fn finish(&mut self) -> Block {
        todo!()
    }
}
