//! Every byte of a segment file, as told in `FORMAT.md`. Everything read here is a stranger's: it may be torn, stale or flipped.

use crc32c::{crc32c, crc32c_append};

use crate::{EntryId, Purpose, Sealed};

pub(crate) const FORMAT: u32 = 1;
pub(crate) const SEGMENT_MAGIC: [u8; 8] = *b"GmngSeg\x01";
pub(crate) const BLOCK_MAGIC: [u8; 4] = *b"GBlk";
pub(crate) const TRAILER_MAGIC: [u8; 4] = *b"GEnd";
/// Blocks begin here, so that no write of a block touches the sector of the header.
pub(crate) const SEGMENT_HEADER: usize = 512;
pub(crate) const BLOCK_HEADER: usize = 40;
pub(crate) const RECORD_HEADER: usize = 32;
/// The last bytes of the file; a multiple of nothing, but one sector for any file length that is a multiple of 512.
pub(crate) const TRAILER: usize = 64;
pub(crate) const STATE_PAYLOAD: usize = 16;
/// Entries one part of a footer describes at most: what a cold read has to load.
pub(crate) const PART_ENTRIES: u32 = 4096;

/// Ties a checksum to one life of one file: a frame of an earlier life, or of another directory, does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) generation: u64,
    seed: u32,
}

impl Stamp {
    pub(crate) fn new(directory: DirectoryId, generation: u64) -> Stamp {
        Stamp { generation, seed: crc32c_append(crc32c(&directory.0), &generation.to_le_bytes()) }
    }

    pub(crate) fn crc(self, bytes: &[u8]) -> u32 {
        crc32c_append(self.seed, bytes)
    }
}

/// Random, made once for a data directory; every segment carries it. Not secret, but unknown to producers, so that no
/// payload can look like a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryId(pub(crate) [u8; 16]);

/// The first bytes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) directory: DirectoryId,
    pub(crate) generation: u64,
    /// No ledger created before this segment has this id or a higher one.
    pub(crate) next_ledger: i64,
    /// The segment that was full when this one began, and where its blocks ended; zeros for the first.
    pub(crate) previous: u64,
    pub(crate) previous_end: u64,
    pub(crate) file_len: u64,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEADER] {
        let mut out = Vec::with_capacity(SEGMENT_HEADER);
        out.extend_from_slice(&SEGMENT_MAGIC);
        out.extend_from_slice(&FORMAT.to_le_bytes());
        out.extend_from_slice(&0u32.to_le_bytes());
        out.extend_from_slice(&self.directory.0);
        for field in [self.generation, self.next_ledger.cast_unsigned(), self.previous, self.previous_end, self.file_len] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        let crc = crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out.resize(SEGMENT_HEADER, 0);
        let mut fixed = [0; SEGMENT_HEADER];
        fixed.copy_from_slice(&out);
        fixed
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<SegmentHeader, &'static str> {
        let mut fields = Fields(bytes);
        let covered = bytes.get(..72).ok_or("the file is shorter than a segment header")?;
        let truncated = "the segment header is cut short";
        if fields.array::<8>().ok_or(truncated)? != SEGMENT_MAGIC {
            return Err("no segment header");
        }
        let format = fields.u32().ok_or(truncated)?;
        fields.u32().ok_or(truncated)?;
        let header = SegmentHeader {
            directory: DirectoryId(fields.array().ok_or(truncated)?),
            generation: fields.u64().ok_or(truncated)?,
            next_ledger: fields.i64().ok_or(truncated)?,
            previous: fields.u64().ok_or(truncated)?,
            previous_end: fields.u64().ok_or(truncated)?,
            file_len: fields.u64().ok_or(truncated)?,
        };
        if fields.u32() != Some(crc32c(covered)) {
            return Err("the segment header fails its checksum");
        }
        if format != FORMAT {
            return Err("the segment has another format than its directory");
        }
        Ok(header)
    }
}

/// What the writer puts in front of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    pub(crate) records: u32,
    /// Which opening of the directory wrote the block.
    pub(crate) run: u64,
    pub(crate) body_len: u32,
    /// Where the write of which this block is a part began: everything before it was durable by then.
    pub(crate) group_start: u32,
    /// crc32c over the record headers, in order.
    pub(crate) headers_crc: u32,
}

impl BlockHeader {
    pub(crate) fn encode(&self, stamp: Stamp) -> [u8; BLOCK_HEADER] {
        let mut out = Vec::with_capacity(BLOCK_HEADER);
        out.extend_from_slice(&BLOCK_MAGIC);
        out.extend_from_slice(&self.records.to_le_bytes());
        out.extend_from_slice(&stamp.generation.to_le_bytes());
        out.extend_from_slice(&self.run.to_le_bytes());
        for field in [self.body_len, self.group_start, self.headers_crc] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        let crc = stamp.crc(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        let mut fixed = [0; BLOCK_HEADER];
        fixed.copy_from_slice(&out);
        fixed
    }

    pub(crate) fn decode(bytes: &[u8], stamp: Stamp) -> Option<BlockHeader> {
        let covered = bytes.get(..36)?;
        let mut fields = Fields(bytes);
        if fields.array::<4>()? != BLOCK_MAGIC {
            return None;
        }
        let records = fields.u32()?;
        let generation = fields.u64()?;
        let header =
            BlockHeader { records, run: fields.u64()?, body_len: fields.u32()?, group_start: fields.u32()?, headers_crc: fields.u32()? };
        (generation == stamp.generation && fields.u32()? == stamp.crc(covered)).then_some(header)
    }
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An entry, appended by its ledger's owner.
    Entry,
    /// An entry that lay in an older segment before.
    Moved,
    /// What is known of a ledger beside its entries; the newest counts.
    Ledger,
    /// A ledger that is gone for good.
    Deleted,
    /// The log was closed in order.
    Closed,
}

impl Kind {
    fn byte(self) -> u8 {
        match self {
            Kind::Entry => 0,
            Kind::Moved => 1,
            Kind::Ledger => 2,
            Kind::Deleted => 3,
            Kind::Closed => 4,
        }
    }

    fn of(byte: u8) -> Option<Kind> {
        Some(match byte {
            0 => Kind::Entry,
            1 => Kind::Moved,
            2 => Kind::Ledger,
            3 => Kind::Deleted,
            4 => Kind::Closed,
            _ => return None,
        })
    }
}

/// A record without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) crc: u32,
    pub(crate) len: u32,
    pub(crate) kind: Kind,
    /// How far the last confirmed entry was behind this one; `u32::MAX` when farther or unknown.
    pub(crate) behind: u32,
    pub(crate) ledger: i64,
    pub(crate) entry: i64,
}

impl RecordHeader {
    pub(crate) fn decode(bytes: &[u8]) -> Option<RecordHeader> {
        let mut fields = Fields(bytes);
        let crc = fields.u32()?;
        let len = fields.u32()?;
        let [kind, ..] = fields.array::<4>()?;
        Some(RecordHeader { crc, len, kind: Kind::of(kind)?, behind: fields.u32()?, ledger: fields.i64()?, entry: fields.i64()? })
    }
}

/// Appends a record to a block's body and carries the checksum of the headers on.
#[inline]
pub(crate) fn put_record(body: &mut Vec<u8>, headers_crc: &mut u32, kind: Kind, behind: u32, ledger: i64, entry: i64, payload: &[u8]) {
    let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let mut header = [0u8; RECORD_HEADER];
    header[4..8].copy_from_slice(&len.to_le_bytes());
    header[8] = kind.byte();
    header[12..16].copy_from_slice(&behind.to_le_bytes());
    header[16..24].copy_from_slice(&ledger.to_le_bytes());
    header[24..32].copy_from_slice(&entry.to_le_bytes());
    let crc = crc32c_append(crc32c(&header[4..]), payload);
    header[..4].copy_from_slice(&crc.to_le_bytes());
    *headers_crc = crc32c_append(*headers_crc, &header);
    body.extend_from_slice(&header);
    body.extend_from_slice(payload);
}

/// Whether `record`, header and payload together, is what its checksum says.
pub(crate) fn record_is_whole(record: &[u8], header: &RecordHeader) -> bool {
    record.get(4..).is_some_and(|covered| crc32c(covered) == header.crc)
}

/// A record found in a block's body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) header: RecordHeader,
    /// Where its header begins in the body.
    pub(crate) offset: u32,
    pub(crate) payload: &'a [u8],
    /// Whether header and payload pass the record's own checksum.
    pub(crate) whole: bool,
}

/// Walks a body. None unless the record headers are exactly those the block header speaks of.
pub(crate) fn records<'a>(header: &BlockHeader, body: &'a [u8]) -> Option<Vec<Record<'a>>> {
    let mut found = Vec::new();
    let mut crc = 0;
    let mut rest = body;
    let mut offset = 0u32;
    while !rest.is_empty() {
        let head = rest.get(..RECORD_HEADER)?;
        let record = RecordHeader::decode(head)?;
        crc = crc32c_append(crc, head);
        let len = RECORD_HEADER.checked_add(usize::try_from(record.len).ok()?)?;
        let (this, after) = rest.split_at_checked(len)?;
        found.push(Record { header: record, offset, payload: this.get(RECORD_HEADER..)?, whole: record_is_whole(this, &record) });
        offset = offset.checked_add(u32::try_from(len).ok()?)?;
        rest = after;
    }
    (crc == header.headers_crc && u32::try_from(found.len()).ok()? == header.records).then_some(found)
}

/// What a [`Kind::Ledger`] record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LedgerRecord {
    pub(crate) purpose: Purpose,
    pub(crate) sealed: Option<Sealed>,
}

impl LedgerRecord {
    /// The record's entry field.
    pub(crate) fn entry(&self) -> i64 {
        self.sealed.map_or(-1, |sealed| sealed.last.0)
    }

    pub(crate) fn encode(&self) -> [u8; STATE_PAYLOAD] {
        let mut out = [0; STATE_PAYLOAD];
        out[0] = u8::from(self.purpose == Purpose::Cursor);
        out[1] = u8::from(self.sealed.is_some());
        out[8..].copy_from_slice(&self.sealed.map_or(0, |sealed| sealed.bytes).to_le_bytes());
        out
    }

    pub(crate) fn decode(entry: i64, payload: &[u8]) -> Option<LedgerRecord> {
        let mut fields = Fields(payload);
        let [purpose, sealed, ..] = fields.array::<8>()?;
        let bytes = fields.u64()?;
        let purpose = match purpose {
            0 => Purpose::Data,
            1 => Purpose::Cursor,
            _ => return None,
        };
        let sealed = match sealed {
            0 => None,
            1 => Some(Sealed { last: EntryId(entry), bytes }),
            _ => return None,
        };
        Some(LedgerRecord { purpose, sealed })
    }
}

/// Where a record lies: its header's offset in the file and its payload's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) offset: u32,
    pub(crate) len: u32,
}

impl Extent {
    /// Bytes on disk.
    pub(crate) fn cost(self) -> u64 {
        cost(self.len)
    }
}

/// Bytes a record with a payload of `len` takes on disk.
pub(crate) fn cost(len: u32) -> u64 {
    u64::from(len).saturating_add(RECORD_HEADER as u64)
}

/// Takes fields off the front of a stranger's bytes.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl Fields<'_> {
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    pub(crate) fn varint(&mut self) -> Option<u32> {
        let mut value = 0u32;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.array::<1>()?;
            value |= u32::from(byte & 0x7f).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

/// The name of a segment's file.
pub(crate) fn segment_name(generation: u64) -> String {
    format!("{generation:016x}.seg")
}

/// The generation in a segment's file name.
pub(crate) fn generation_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".seg").filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok()
}
