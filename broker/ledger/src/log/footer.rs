//! The footer of a full segment, byte by byte: which entries it has, and where.

use crc32c::crc32c_append;

use super::format::{Extent, Fields, LedgerRecord, PART_ENTRIES, STATE_PAYLOAD, Stamp, TRAILER, TRAILER_MAGIC};

/// Consecutive entries of one ledger, as a footer's directory lists them; the part with their extents is loaded on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunRecord {
    pub(crate) ledger: i64,
    pub(crate) first: i64,
    pub(crate) count: u32,
    /// Payload bytes.
    pub(crate) bytes: u64,
    pub(crate) part_at: u32,
    pub(crate) part_len: u32,
}

/// What a full segment holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directory {
    pub(crate) runs: Vec<RunRecord>,
    pub(crate) states: Vec<(i64, LedgerRecord)>,
    pub(crate) deleted: Vec<i64>,
    /// Every ledger of which the segment has an entry or a record, dead ones too; ascending.
    pub(crate) mentions: Vec<i64>,
}

impl Directory {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for count in [self.runs.len(), self.states.len(), self.deleted.len(), self.mentions.len()] {
            out.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
        }
        for run in &self.runs {
            out.extend_from_slice(&run.ledger.to_le_bytes());
            out.extend_from_slice(&run.first.to_le_bytes());
            out.extend_from_slice(&run.bytes.to_le_bytes());
            for field in [run.count, run.part_at, run.part_len] {
                out.extend_from_slice(&field.to_le_bytes());
            }
        }
        for (ledger, state) in &self.states {
            out.extend_from_slice(&ledger.to_le_bytes());
            out.extend_from_slice(&state.entry().to_le_bytes());
            out.extend_from_slice(&state.encode());
        }
        for ledger in self.deleted.iter().chain(&self.mentions) {
            out.extend_from_slice(&ledger.to_le_bytes());
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Directory> {
        let mut fields = Fields(bytes);
        let [runs, states, deleted, mentions] = [fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?];
        let mut directory = Directory::default();
        for _ in 0..runs {
            let (ledger, first, bytes) = (fields.i64()?, fields.i64()?, fields.u64()?);
            let (count, part_at, part_len) = (fields.u32()?, fields.u32()?, fields.u32()?);
            first.checked_add(i64::from(count)).filter(|_| first >= 0 && count > 0)?;
            directory.runs.push(RunRecord { ledger, first, count, bytes, part_at, part_len });
        }
        for _ in 0..states {
            let (ledger, entry) = (fields.i64()?, fields.i64()?);
            directory.states.push((ledger, LedgerRecord::decode(entry, &fields.array::<STATE_PAYLOAD>()?)?));
        }
        for _ in 0..deleted {
            directory.deleted.push(fields.i64()?);
        }
        for _ in 0..mentions {
            directory.mentions.push(fields.i64()?);
        }
        fields.0.is_empty().then_some(directory)
    }
}

/// The end of a full segment's file: where its directory lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trailer {
    /// Where the blocks end.
    pub(crate) end: u64,
    pub(crate) directory_at: u64,
    pub(crate) directory_len: u32,
    pub(crate) directory_crc: u32,
    /// Over the parts, which lie between the blocks and the directory. Only looked at while they may be torn: each part has
    /// a checksum of its own.
    pub(crate) parts_crc: u32,
}

impl Trailer {
    pub(crate) fn encode(&self, stamp: Stamp) -> [u8; TRAILER] {
        let mut out = Vec::with_capacity(TRAILER);
        out.extend_from_slice(&TRAILER_MAGIC);
        out.extend_from_slice(&0u32.to_le_bytes());
        out.extend_from_slice(&stamp.generation.to_le_bytes());
        out.extend_from_slice(&self.end.to_le_bytes());
        out.extend_from_slice(&self.directory_at.to_le_bytes());
        out.extend_from_slice(&self.directory_len.to_le_bytes());
        out.extend_from_slice(&self.directory_crc.to_le_bytes());
        out.extend_from_slice(&self.parts_crc.to_le_bytes());
        out.resize(TRAILER - 4, 0);
        let crc = stamp.crc(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        let mut fixed = [0; TRAILER];
        fixed.copy_from_slice(&out);
        fixed
    }

    pub(crate) fn decode(bytes: &[u8], stamp: Stamp) -> Option<Trailer> {
        let (covered, crc) = bytes.split_at_checked(TRAILER - 4)?;
        if Fields(crc).u32()? != stamp.crc(covered) {
            return None;
        }
        let mut fields = Fields(covered);
        if fields.array::<4>()? != TRAILER_MAGIC {
            return None;
        }
        fields.u32()?;
        if fields.u64()? != stamp.generation {
            return None;
        }
        Some(Trailer {
            end: fields.u64()?,
            directory_at: fields.u64()?,
            directory_len: fields.u32()?,
            directory_crc: fields.u32()?,
            parts_crc: fields.u32()?,
        })
    }
}

/// The extents of one run: a checksum, then for each entry the distance from the record before and the payload's length.
pub(crate) fn encode_part(stamp: Stamp, ledger: i64, first: i64, extents: &[Extent]) -> Vec<u8> {
    let mut out = vec![0; 4];
    let mut before = 0;
    for extent in extents {
        // Moved entries may lie in any order, so distances wrap around.
        put_varint(&mut out, extent.offset.wrapping_sub(before));
        put_varint(&mut out, extent.len);
        before = extent.offset;
    }
    let crc = part_crc(stamp, ledger, first, out.get(4..).unwrap_or_default());
    if let Some(place) = out.first_chunk_mut::<4>() {
        *place = crc.to_le_bytes();
    }
    out
}

pub(crate) fn decode_part(stamp: Stamp, run: &RunRecord, bytes: &[u8]) -> Option<Vec<Extent>> {
    let mut fields = Fields(bytes);
    if fields.u32()? != part_crc(stamp, run.ledger, run.first, fields.0) {
        return None;
    }
    let mut extents = Vec::with_capacity(usize::try_from(run.count.min(PART_ENTRIES)).ok()?);
    let mut offset = 0u32;
    for _ in 0..run.count {
        offset = offset.wrapping_add(fields.varint()?);
        extents.push(Extent { offset, len: fields.varint()? });
    }
    fields.0.is_empty().then_some(extents)
}

fn part_crc(stamp: Stamp, ledger: i64, first: i64, bytes: &[u8]) -> u32 {
    crc32c_append(crc32c_append(stamp.crc(&ledger.to_le_bytes()), &first.to_le_bytes()), bytes)
}

fn put_varint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
