//! The event trace of a cache: written by a running broker, read by whoever wants to know what another policy would have done.
//! Every byte is told in TRACE.md beside this file.

use std::io::{self, Read, Write};

use record::{Fields, bounds, decode, encode};

pub use record::{Cause, Record};

mod record;

/// The version written here.
pub const VERSION: u16 = 1;

/// Most entries of a record.
pub const MOST_ENTRIES: usize = 4096;

const MAGIC: &[u8; 8] = b"GMCTRACE";
const BLOCK: &[u8; 4] = b"BLK1";
const HEADER_BYTES: usize = 16;
const BLOCK_HEADER_BYTES: usize = 24;
const MOST_BLOCK_BYTES: usize = 1 << 20;
/// A block is written when it has grown to this.
const FULL_BLOCK_BYTES: usize = 64 << 10;

/// A record and when it was, in microseconds since the recording began.
pub type Timed = (u64, Record);

/// Writes a trace into anything. A block is written when it is full, at the latest by [`TraceWriter::finish`].
#[derive(Debug)]
pub struct TraceWriter<W> {
    out: W,
    block: Vec<u8>,
    records: u32,
    /// The time of the block, and of the last record.
    base: u64,
    last: u64,
}

/// Why a record is not written.
#[derive(Debug, thiserror::Error)]
pub enum TraceWriteError {
    /// The record breaks a bound of the format; nothing of it was written.
    #[error("a record is out of bounds: {0}")]
    Bounds(&'static str),
    /// The output failed.
    #[error("the trace could not be written: {0}")]
    Io(#[from] io::Error),
}

impl<W: Write> TraceWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// When the output does.
    pub fn new(mut out: W) -> io::Result<TraceWriter<W>> {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend_from_slice(MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&0u16.to_le_bytes());
        header.extend_from_slice(&crc32c::crc32c(&header).to_le_bytes());
        out.write_all(&header)?;
        Ok(TraceWriter { out, block: Vec::new(), records: 0, base: 0, last: 0 })
    }

    /// Adds a record. A time before the last one's counts as the same.
    ///
    /// # Errors
    /// When the record has no or too many entries or the output fails.
    pub fn push(&mut self, time: u64, record: &Record) -> Result<(), TraceWriteError> {
        bounds(record).map_err(TraceWriteError::Bounds)?;
        let time = time.max(self.last);
        if self.records > 0 && (self.block.len() >= FULL_BLOCK_BYTES || u32::try_from(time - self.base).is_err()) {
            self.flush()?;
        }
        if self.records == 0 {
            self.base = time;
        }
        self.last = time;
        encode(record, (time - self.base) as u32, &mut self.block);
        self.records += 1;
        Ok(())
    }

    /// Writes what is waiting.
    ///
    /// # Errors
    /// When the output fails.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.records > 0 {
            let mut header = Vec::with_capacity(BLOCK_HEADER_BYTES);
            header.extend_from_slice(BLOCK);
            header.extend_from_slice(&(self.block.len() as u32).to_le_bytes());
            header.extend_from_slice(&self.records.to_le_bytes());
            header.extend_from_slice(&self.base.to_le_bytes());
            let checksum = crc32c::crc32c_append(crc32c::crc32c(&header), &self.block);
            header.extend_from_slice(&checksum.to_le_bytes());
            self.out.write_all(&header)?;
            self.out.write_all(&self.block)?;
            self.block.clear();
            self.records = 0;
        }
        self.out.flush()
    }

    /// Writes what is waiting and gives the output back.
    ///
    /// # Errors
    /// When the output fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        Ok(self.out)
    }
}

/// A trace that was read.
#[derive(Debug, Default)]
pub struct Trace {
    /// What happened.
    pub records: Vec<Timed>,
    /// Why reading stopped before the end, if it did.
    pub damage: Option<Damage>,
}

impl Trace {
    /// Records that the recorder left out.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.records.iter().map(|(_, record)| if let Record::Lost(count) = record { *count } else { 0 }).fold(0, u64::saturating_add)
    }
}

/// Where a trace stops to be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the trace is cut at byte {at}: {what}; what came before is whole")]
pub struct Damage {
    /// The byte at which the first block begins that is not used.
    pub at: u64,
    /// What is wrong with it.
    pub what: &'static str,
}

/// Why nothing of a trace can be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceReadError {
    /// It does not begin as a trace does.
    #[error("this is not a cache trace")]
    NotATrace,
    /// It was written by a later version.
    #[error("the trace has version {0}, this program reads version {VERSION}")]
    Version(u16),
    /// It has more records than the caller takes.
    #[error("the trace has more than {0} records: raise the limit or cut it")]
    TooMany(usize),
    /// The input failed.
    #[error("the trace could not be read: {0}")]
    Io(#[from] io::Error),
}

/// Reads a trace of at most `most` records. A file that was cut or damaged gives what came before the damage.
///
/// # Errors
/// When the header is not that of a trace of this version, there are more records than that, or the input fails.
pub fn read_trace(mut input: impl Read, most: usize) -> Result<Trace, TraceReadError> {
    let mut header = [0; HEADER_BYTES];
    if fill(&mut input, &mut header)? < HEADER_BYTES || !header.starts_with(MAGIC) {
        return Err(TraceReadError::NotATrace);
    }
    let mut fields = Fields(&header[..]);
    let (_, version, flags) = (fields.u64(), fields.u16().unwrap_or(0), fields.u16());
    if version != VERSION {
        return Err(TraceReadError::Version(version));
    }
    if flags != Some(0) || fields.u32() != header.first_chunk::<12>().map(|checked| crc32c::crc32c(checked)) {
        return Err(TraceReadError::NotATrace);
    }
    let mut trace = Trace::default();
    let (mut at, mut last) = (HEADER_BYTES as u64, 0);
    let mut block = Vec::new();
    loop {
        match read_block(&mut input, &mut block, &mut last, &mut trace.records, most)? {
            Block::Whole(bytes) => at += bytes,
            Block::End => return Ok(trace),
            Block::Damaged(what) => {
                trace.damage = Some(Damage { at, what });
                return Ok(trace);
            }
        }
    }
}

/// What there was in place of a block.
enum Block {
    Whole(u64),
    End,
    Damaged(&'static str),
}

fn read_block(
    input: &mut impl Read,
    block: &mut Vec<u8>,
    last: &mut u64,
    records: &mut Vec<Timed>,
    most: usize,
) -> Result<Block, TraceReadError> {
    let mut header = [0; BLOCK_HEADER_BYTES];
    let got = fill(input, &mut header)?;
    if got == 0 {
        return Ok(Block::End);
    }
    if got < BLOCK_HEADER_BYTES {
        return Ok(Block::Damaged("the header of a block is cut"));
    }
    let mut fields = Fields(&header[..]);
    let (Some(magic), Some(length), Some(count), Some(base), Some(checksum)) =
        (fields.u32(), fields.u32(), fields.u32(), fields.u64(), fields.u32())
    else {
        return Ok(Block::Damaged("the header of a block is cut"));
    };
    let length = length as usize;
    if magic.to_le_bytes() != *BLOCK || length > MOST_BLOCK_BYTES || count == 0 {
        return Ok(Block::Damaged("no block begins here"));
    }
    block.clear();
    block.resize(length, 0);
    if fill(input, block)? < length {
        return Ok(Block::Damaged("a block is cut"));
    }
    let checked = header.first_chunk::<20>().map_or(0, |checked| crc32c::crc32c(checked));
    if crc32c::crc32c_append(checked, block) != checksum {
        return Ok(Block::Damaged("a block has another checksum than it should"));
    }
    if records.len().saturating_add(count as usize) > most {
        return Err(TraceReadError::TooMany(most));
    }
    let before = records.len();
    match decode_all(block, count, base, *last, records) {
        Some(time) => *last = time,
        None => {
            // A block counts as a whole or not at all.
            records.truncate(before);
            return Ok(Block::Damaged("a record is not one"));
        }
    }
    Ok(Block::Whole((BLOCK_HEADER_BYTES + length) as u64))
}

fn decode_all(block: &[u8], count: u32, base: u64, mut last: u64, records: &mut Vec<Timed>) -> Option<u64> {
    if base < last {
        return None;
    }
    let mut fields = Fields(block);
    for _ in 0..count {
        let (time, record) = decode(&mut fields, base)?;
        if time < last || bounds(&record).is_err() {
            return None;
        }
        last = time;
        records.push((time, record));
    }
    fields.0.is_empty().then_some(last)
}

/// Fills a buffer as far as the input goes.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while let Some(rest) = buffer.get_mut(got..).filter(|rest| !rest.is_empty()) {
        match input.read(rest) {
            Ok(0) => break,
            Ok(bytes) => got += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

#[cfg(test)]
mod tests;
