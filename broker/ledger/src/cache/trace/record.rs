//! A record of a trace, and its bytes.

use super::{MOST_ENTRIES, Timed};
use crate::cache::host::ReadPurpose;

/// No entry number reaches this, so that sums of positions and counts do not overflow.
const MOST_POSITION: u64 = 1 << 63;

/// Why entries are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Retention took the ledger.
    Trimmed,
    /// The topic was truncated.
    Truncated,
    /// The topic was closed or deleted, its cursors with it.
    Closed,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the doc of a variant tells its fields, and TRACE.md more")]
pub enum Record {
    /// Entries from `first` on were confirmed.
    Published { topic: u32, first: u64, sizes: Vec<u32> },
    /// A cursor read `count` entries of `bytes` bytes together; the cache served those with a bit in `hits`.
    Read { topic: u32, cursor: u32, first: u64, count: u16, purpose: ReadPurpose, bytes: u64, hits: Vec<u8> },
    /// A cursor is there or its state changed.
    Cursor { topic: u32, cursor: u32, at: u64, mark_delete: u64, active: bool },
    /// A cursor was set by other means than reading.
    Moved { topic: u32, cursor: u32, at: u64 },
    /// A cursor has everything below `at` behind it.
    MarkDeleted { topic: u32, cursor: u32, at: u64 },
    /// A cursor was deleted.
    CursorGone { topic: u32, cursor: u32 },
    /// Entries are gone.
    Invalidated { topic: u32, first: u64, until: u64, cause: Cause },
    /// The cache is empty and no cursor is there.
    Restart,
    /// A cursor will read entries again, or no longer.
    Replay { topic: u32, cursor: u32, first: u64, count: u16, more: bool },
    /// So many records were left out.
    Lost(u64),
}

/// What about a record the format does not take.
pub(super) fn bounds(record: &Record) -> Result<(), &'static str> {
    let (first, count) = match record {
        Record::Published { first, sizes, .. } => (*first, sizes.len()),
        Record::Read { first, count, hits, .. } => {
            if hits.len() != usize::from(*count).div_ceil(8) {
                return Err("as many hit bits as entries, filled to whole bytes");
            }
            (*first, usize::from(*count))
        }
        Record::Replay { first, count, .. } => (*first, usize::from(*count)),
        Record::Cursor { at, mark_delete, .. } => ((*at).max(*mark_delete), 1),
        Record::Moved { at, .. } | Record::MarkDeleted { at, .. } => (*at, 1),
        Record::Invalidated { first, .. } => (*first, 1),
        Record::CursorGone { .. } | Record::Restart | Record::Lost(_) => (0, 1),
    };
    if count == 0 || count > MOST_ENTRIES {
        return Err("1 to 4,096 entries");
    }
    if first > MOST_POSITION - MOST_ENTRIES as u64 {
        return Err("positions below 2^63");
    }
    Ok(())
}

/// Writes a record, so many microseconds after its block.
pub(super) fn encode(record: &Record, since: u32, out: &mut Vec<u8>) {
    let mut head = |kind: u8| {
        out.push(kind);
        out.extend_from_slice(&since.to_le_bytes());
    };
    match record {
        Record::Published { .. } => head(1),
        Record::Read { .. } => head(2),
        Record::Cursor { .. } => head(3),
        Record::Moved { .. } => head(4),
        Record::MarkDeleted { .. } => head(5),
        Record::CursorGone { .. } => head(6),
        Record::Invalidated { .. } => head(7),
        Record::Restart => head(8),
        Record::Replay { .. } => head(9),
        Record::Lost(_) => head(10),
    }
    let mut put = |bytes: &[u8]| out.extend_from_slice(bytes);
    match record {
        Record::Published { topic, first, sizes } => {
            put(&topic.to_le_bytes());
            put(&first.to_le_bytes());
            put(&(sizes.len() as u16).to_le_bytes());
            sizes.iter().for_each(|size| put(&size.to_le_bytes()));
        }
        Record::Read { topic, cursor, first, count, purpose, bytes, hits } => {
            put(&topic.to_le_bytes());
            put(&cursor.to_le_bytes());
            put(&first.to_le_bytes());
            put(&count.to_le_bytes());
            put(&[match purpose {
                ReadPurpose::Cursor => 0,
                ReadPurpose::Replay => 1,
                ReadPurpose::Look => 2,
            }]);
            put(&bytes.to_le_bytes());
            put(hits);
        }
        Record::Cursor { topic, cursor, at, mark_delete, active } => {
            put(&topic.to_le_bytes());
            put(&cursor.to_le_bytes());
            put(&at.to_le_bytes());
            put(&mark_delete.to_le_bytes());
            put(&[u8::from(*active)]);
        }
        Record::Moved { topic, cursor, at } | Record::MarkDeleted { topic, cursor, at } => {
            put(&topic.to_le_bytes());
            put(&cursor.to_le_bytes());
            put(&at.to_le_bytes());
        }
        Record::CursorGone { topic, cursor } => {
            put(&topic.to_le_bytes());
            put(&cursor.to_le_bytes());
        }
        Record::Invalidated { topic, first, until, cause } => {
            put(&topic.to_le_bytes());
            put(&first.to_le_bytes());
            put(&until.to_le_bytes());
            put(&[match cause {
                Cause::Trimmed => 0,
                Cause::Truncated => 1,
                Cause::Closed => 2,
            }]);
        }
        Record::Restart => {}
        Record::Replay { topic, cursor, first, count, more } => {
            put(&topic.to_le_bytes());
            put(&cursor.to_le_bytes());
            put(&first.to_le_bytes());
            put(&count.to_le_bytes());
            put(&[u8::from(*more)]);
        }
        Record::Lost(count) => put(&count.to_le_bytes()),
    }
}

/// Reads a record of a block of this time.
pub(super) fn decode(fields: &mut Fields<'_>, base: u64) -> Option<Timed> {
    let kind = fields.u8()?;
    let time = base.checked_add(u64::from(fields.u32()?))?;
    let record = match kind {
        1 => {
            let (topic, first, count) = (fields.u32()?, fields.u64()?, fields.u16()?);
            // The bytes are there before room is made for them.
            let sizes = fields.take(usize::from(count) * 4)?.chunks_exact(4).filter_map(|size| size.first_chunk().copied());
            Record::Published { topic, first, sizes: sizes.map(u32::from_le_bytes).collect() }
        }
        2 => {
            let (topic, cursor, first, count) = (fields.u32()?, fields.u32()?, fields.u64()?, fields.u16()?);
            let purpose = match fields.u8()? {
                0 => ReadPurpose::Cursor,
                1 => ReadPurpose::Replay,
                2 => ReadPurpose::Look,
                _ => return None,
            };
            let bytes = fields.u64()?;
            Record::Read { topic, cursor, first, count, purpose, bytes, hits: fields.take(usize::from(count).div_ceil(8))?.to_vec() }
        }
        3 => {
            let (topic, cursor, at, mark_delete) = (fields.u32()?, fields.u32()?, fields.u64()?, fields.u64()?);
            Record::Cursor { topic, cursor, at, mark_delete, active: fields.bool()? }
        }
        4 => Record::Moved { topic: fields.u32()?, cursor: fields.u32()?, at: fields.u64()? },
        5 => Record::MarkDeleted { topic: fields.u32()?, cursor: fields.u32()?, at: fields.u64()? },
        6 => Record::CursorGone { topic: fields.u32()?, cursor: fields.u32()? },
        7 => {
            let (topic, first, until) = (fields.u32()?, fields.u64()?, fields.u64()?);
            let cause = match fields.u8()? {
                0 => Cause::Trimmed,
                1 => Cause::Truncated,
                2 => Cause::Closed,
                _ => return None,
            };
            Record::Invalidated { topic, first, until, cause }
        }
        8 => Record::Restart,
        9 => {
            let (topic, cursor, first, count) = (fields.u32()?, fields.u32()?, fields.u64()?, fields.u16()?);
            Record::Replay { topic, cursor, first, count, more: fields.bool()? }
        }
        10 => Record::Lost(fields.u64()?),
        _ => return None,
    };
    Some((time, record))
}

/// Bytes of a stranger, taken from the front.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.first_chunk().copied()
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.chunk::<1>().map(u8::from_le_bytes)
    }

    pub(super) fn bool(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.chunk().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.chunk().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.chunk().map(u64::from_le_bytes)
    }
}
