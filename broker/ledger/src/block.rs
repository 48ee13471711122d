//! The buffer one sync covers: entries copied once, framed for the log, and sliced from then on.

use bytes::Bytes;

use crate::Position;
use crate::log::format::{BLOCK_HEADER, Kind, RECORD_HEADER, put_record};

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
    /// The entries as the log will write them, behind a header that the log puts in front.
    pub bytes: Bytes,
    /// The entries, in the order they were pushed.
    pub entries: Vec<BlockEntry>,
    pub(crate) headers_crc: u32,
}

impl Block {
    /// The bytes of the entry at `index` in [`Block::entries`]: a slice that shares the block's memory.
    ///
    /// # Panics
    /// If there is no such entry.
    #[must_use]
    pub fn entry_bytes(&self, index: usize) -> Bytes {
        let entry = self.entries[index];
        let start = entry.offset as usize;
        self.bytes.slice(start..start + entry.len as usize)
    }
}

/// Fills a block. Entries of many ledgers may share one.
#[derive(Debug, Default)]
pub struct BlockBuilder {
    body: Vec<u8>,
    entries: Vec<BlockEntry>,
    headers_crc: u32,
    /// How large the last blocks were, so that the next one is allocated once.
    usual: Usual,
}

#[derive(Debug, Default)]
struct Usual {
    bytes: usize,
    entries: usize,
}

impl BlockBuilder {
    /// An empty block.
    #[must_use]
    pub fn new() -> BlockBuilder {
        BlockBuilder::default()
    }

    /// Copies an entry in. `last_confirmed` is the ledger's last durable entry as its owner knows it, or -1.
    pub fn push(&mut self, at: Position, last_confirmed: i64, bytes: &[u8]) {
        self.push_as(Kind::Entry, at, last_confirmed, bytes);
    }

    pub(crate) fn push_as(&mut self, kind: Kind, at: Position, last_confirmed: i64, bytes: &[u8]) {
        if self.entries.is_empty() {
            self.body.reserve(self.usual.bytes.max(RECORD_HEADER + bytes.len()));
            self.entries.reserve(self.usual.entries);
        }
        let behind = u32::try_from(at.entry.0.saturating_sub(last_confirmed)).unwrap_or(u32::MAX);
        let offset = self.body.len() + RECORD_HEADER;
        put_record(&mut self.body, &mut self.headers_crc, kind, behind, at.ledger.0, at.entry.0, bytes);
        // The store refuses a block far below four gigabytes.
        self.entries.push(BlockEntry { at, offset: offset as u32, len: bytes.len() as u32 });
    }

    /// Bytes so far, framing included.
    #[must_use]
    pub fn len(&self) -> usize {
        BLOCK_HEADER + self.body.len()
    }

    /// Whether nothing was pushed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Closes the block and leaves an empty builder behind.
    pub fn finish(&mut self) -> Block {
        let mut body = std::mem::take(&mut self.body);
        let entries = std::mem::take(&mut self.entries);
        self.usual.bytes = usual(self.usual.bytes, body.len());
        self.usual.entries = usual(self.usual.entries, entries.len());
        // A cached slice keeps the whole allocation alive: a small block must not hold the memory of a large one.
        if body.capacity() > 2 * body.len() + 512 {
            body.shrink_to_fit();
        }
        let block = Block { bytes: Bytes::from(body), entries, headers_crc: self.headers_crc };
        self.headers_crc = 0;
        block
    }
}

/// Follows growth at once and shrinks slowly; one giant entry is not remembered as usual.
fn usual(before: usize, now: usize) -> usize {
    const GIANT: usize = 512 * 1024;
    now.min(GIANT).max(before - before / 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::format::{BlockHeader, records};

    #[test]
    fn entries_are_slices_of_the_block() {
        let mut builder = BlockBuilder::new();
        builder.push(Position::new(3, 0), -1, b"first");
        builder.push(Position::new(4, 7), 5, b"");
        builder.push(Position::new(3, 1), -1, &vec![9; 6 << 20]);
        let len = builder.len();
        let block = builder.finish();
        assert_eq!(block.bytes.len() + BLOCK_HEADER, len);
        assert_eq!(block.entry_bytes(0), "first");
        assert!(block.entry_bytes(1).is_empty());
        assert_eq!(block.entry_bytes(2).len(), 6 << 20);
        assert!(block.bytes.as_ptr_range().contains(&block.entry_bytes(2).as_ptr()));
        assert!(builder.is_empty());
    }

    #[test]
    fn a_block_walks_back_into_its_records() {
        let mut builder = BlockBuilder::new();
        builder.push(Position::new(3, 9), 4, b"abc");
        builder.push(Position::new(5, 0), -1, b"");
        for _ in 0..2 {
            let block = builder.finish();
            let header = BlockHeader {
                records: block.entries.len() as u32,
                run: 1,
                body_len: block.bytes.len() as u32,
                group_start: 0,
                headers_crc: block.headers_crc,
            };
            let found = records(&header, &block.bytes).expect("its own records");
            assert!(found.iter().all(|record| record.whole));
            assert_eq!(found[0].header.behind, 5);
            assert_eq!(found[0].payload, b"abc");
            builder.push(Position::new(3, 9), 4, b"abc");
        }
    }

    #[test]
    fn a_small_block_does_not_keep_the_memory_of_a_large_one() {
        let mut builder = BlockBuilder::new();
        builder.push(Position::new(1, 0), -1, &vec![0; 200_000]);
        drop(builder.finish());
        builder.push(Position::new(1, 1), 0, b"small");
        let block = builder.finish();
        let vec: Vec<u8> = block.bytes.try_into_mut().expect("unique").into();
        assert!(vec.capacity() < 2048, "capacity {}", vec.capacity());
    }
}
