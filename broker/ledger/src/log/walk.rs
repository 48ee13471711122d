//! The content of one segment: from its footer, or from its blocks one by one.

use std::io;

use super::files::LogFile;
use super::footer::{Directory, Trailer};
use super::format::{BLOCK_HEADER, BLOCK_MAGIC, BlockHeader, Extent, Kind, LedgerRecord, Record, SEGMENT_HEADER, TRAILER, records};
use super::ids::IdMap;
use super::runs::{Run, extend};
use super::segment::Segment;
use crate::LedgerId;

pub(crate) const CHUNK: usize = 1 << 20;

#[derive(Default)]
pub(crate) struct Content {
    pub(crate) runs: Vec<(i64, Run)>,
    pub(crate) states: Vec<(i64, LedgerRecord)>,
    pub(crate) deleted: Vec<i64>,
    pub(crate) mentions: Vec<i64>,
}

impl Content {
    pub(crate) fn of(directory: Directory, generation: u64) -> Content {
        let runs = directory.runs.iter().map(|record| (record.ledger, Run::listed(record, generation))).collect();
        Content { runs, states: directory.states, deleted: directory.deleted, mentions: directory.mentions }
    }
}

/// Goes through the blocks of a segment.
pub(crate) struct Walk<'a> {
    segment: &'a Segment,
    /// The newest run that opened the directory.
    newest_run: u64,
    pub(crate) at: u64,
    run: u64,
    pub(crate) last_group: Option<u64>,
    closed: bool,
    pub(crate) content: Content,
    open_runs: IdMap<usize>,
}

pub(crate) enum Step {
    Taken,
    Bad(Bad),
}

/// What lies where a block should begin.
pub(crate) enum Bad {
    /// No block header of this segment's, or one of a run that was cut here.
    Nothing,
    /// A block whose records cannot be told apart.
    Headers,
    /// A block of which some payloads are damaged.
    Payloads(Vec<Seen>),
}

/// A record, remembered without its payload.
pub(crate) struct Seen {
    kind: Kind,
    ledger: i64,
    entry: i64,
    extent: Extent,
    whole: bool,
    state: Option<LedgerRecord>,
}

impl Bad {
    pub(crate) fn ledgers(&self) -> Vec<LedgerId> {
        let Bad::Payloads(seen) = self else { return Vec::new() };
        let mut ledgers: Vec<LedgerId> = seen.iter().filter(|seen| !seen.whole).map(|seen| LedgerId(seen.ledger)).collect();
        ledgers.sort_unstable();
        ledgers.dedup();
        ledgers
    }
}

impl<'a> Walk<'a> {
    pub(crate) fn new(segment: &'a Segment, newest_run: u64) -> Walk<'a> {
        Walk {
            segment,
            newest_run,
            at: SEGMENT_HEADER as u64,
            run: 0,
            last_group: None,
            closed: false,
            content: Content::default(),
            open_runs: IdMap::default(),
        }
    }

    /// The last block closed the log, and the log was not opened since: nothing durable lies behind it.
    pub(crate) fn closed_in_order(&self) -> bool {
        self.closed && self.run == self.newest_run
    }

    /// Takes the block at the current offset if it is whole.
    pub(crate) fn block(&mut self) -> io::Result<Step> {
        let Some(header) = self.header_at(self.at)? else { return Ok(Step::Bad(Bad::Nothing)) };
        let body_at = self.at.saturating_add(BLOCK_HEADER as u64);
        let body = read(self.segment.file(), body_at, u64::from(header.body_len))?;
        let base = u32::try_from(body_at).unwrap_or(u32::MAX);
        let seen: Option<Vec<Seen>> = records(&header, &body).and_then(|found| found.iter().map(|record| Seen::of(record, base)).collect());
        Ok(match seen {
            None => Step::Bad(Bad::Headers),
            Some(seen) if seen.iter().any(|seen| !seen.whole) => Step::Bad(Bad::Payloads(seen)),
            Some(seen) => {
                self.take(&seen);
                self.at = body_at.saturating_add(u64::from(header.body_len));
                self.run = header.run;
                self.last_group = Some(u64::from(header.group_start));
                Step::Taken
            }
        })
    }

    /// A block header that may stand at `at`.
    fn header_at(&self, at: u64) -> io::Result<Option<BlockHeader>> {
        let bytes = read(self.segment.file(), at, BLOCK_HEADER as u64)?;
        Ok(BlockHeader::decode(&bytes, self.segment.stamp()).filter(|header| self.may_stand(header, at)))
    }

    fn may_stand(&self, header: &BlockHeader, at: u64) -> bool {
        let end = at.saturating_add(BLOCK_HEADER as u64).saturating_add(u64::from(header.body_len));
        let group = u64::from(header.group_start);
        // Blocks of an earlier run behind those of a later one are leftovers of a torn end that was cut.
        header.run >= self.run && end <= self.segment.len() && group <= at && group >= SEGMENT_HEADER as u64
    }

    fn take(&mut self, seen: &[Seen]) {
        self.closed = false;
        for seen in seen {
            match seen.kind {
                Kind::Entry | Kind::Moved => self.entry(seen),
                Kind::Ledger => self.content.states.extend(seen.state.map(|state| (seen.ledger, state))),
                Kind::Deleted => self.content.deleted.push(seen.ledger),
                Kind::Closed => self.closed = true,
            }
            if seen.kind != Kind::Closed {
                self.content.mentions.push(seen.ledger);
            }
        }
        if self.content.mentions.len() > 1 << 16 {
            self.content.mentions.sort_unstable();
            self.content.mentions.dedup();
        }
    }

    fn entry(&mut self, seen: &Seen) {
        let generation = self.segment.generation();
        let runs = &mut self.content.runs;
        let open = self.open_runs.get(&seen.ledger).and_then(|at| runs.get_mut(*at)).map(|(_, run)| run);
        if !extend(open, seen.entry, seen.extent, generation) {
            self.open_runs.insert(seen.ledger, runs.len());
            runs.push((seen.ledger, Run::of(seen.entry, seen.extent, generation)));
        }
    }

    /// Takes what a damaged block still says: entries whose bytes fail are known to have been there, and are never served.
    pub(crate) fn salvage(&mut self, bad: &Bad) {
        if let Bad::Payloads(seen) = bad {
            self.take(seen);
        }
    }

    /// The next block header behind the current offset that proves durable data there: in the newest segment one that was
    /// written after everything at the current offset had been synced, in an older one any.
    pub(crate) fn newer_block(&self, any: bool) -> io::Result<Option<u64>> {
        let mut base = self.at.saturating_add(1);
        while base < self.segment.len() {
            let rest = self.segment.len().saturating_sub(base);
            let chunk = read(self.segment.file(), base, rest.min((CHUNK + BLOCK_HEADER) as u64))?;
            if chunk.is_empty() {
                return Ok(None);
            }
            let magic = |window: &[u8]| window.starts_with(&BLOCK_MAGIC);
            // Most of a fresh file is zeros, and comparing those is fast.
            let candidates = if chunk.iter().all(|byte| *byte == 0) { &[] } else { chunk.get(..CHUNK.min(chunk.len())).unwrap_or(&[]) };
            for (offset, _) in candidates.iter().enumerate().filter(|(_, byte)| **byte == b'G') {
                let Some(window) = chunk.get(offset..).filter(|window| magic(window)) else { continue };
                let at = base.saturating_add(offset as u64);
                let header = BlockHeader::decode(window, self.segment.stamp()).filter(|header| self.may_stand(header, at));
                if header.is_some_and(|header| any || u64::from(header.group_start) > self.at) {
                    return Ok(Some(at));
                }
            }
            base = base.saturating_add(CHUNK as u64);
        }
        Ok(None)
    }
}

impl Seen {
    fn of(record: &Record<'_>, base: u32) -> Option<Seen> {
        let header = record.header;
        let state = match header.kind {
            Kind::Ledger if record.whole => Some(LedgerRecord::decode(header.entry, record.payload)?),
            _ => None,
        };
        // Ids and numbers near the end of their range would overflow later; ours are never there.
        let plausible = |number: i64| (0..i64::MAX / 2).contains(&number);
        let named = plausible(header.ledger) && (header.kind == Kind::Ledger || plausible(header.entry));
        let extent = Extent { offset: base.checked_add(record.offset)?, len: header.len };
        named.then_some(Seen { kind: header.kind, ledger: header.ledger, entry: header.entry, extent, whole: record.whole, state })
    }
}

/// The directory of a segment, if it has a footer that passes. The newest one's may be torn: nothing proves yet that its sync
/// came back, so its parts are checked as well.
pub(crate) fn read_footer(segment: &Segment, newest: bool) -> io::Result<Option<(u64, Directory)>> {
    let stamp = segment.stamp();
    let trailer = read(segment.file(), segment.len().saturating_sub(TRAILER as u64), TRAILER as u64)?;
    let Some(trailer) = Trailer::decode(&trailer, stamp) else { return Ok(None) };
    if trailer.directory_at.saturating_add(u64::from(trailer.directory_len)) > segment.len() {
        return Ok(None);
    }
    let bytes = read(segment.file(), trailer.directory_at, u64::from(trailer.directory_len))?;
    if stamp.crc(&bytes) != trailer.directory_crc {
        return Ok(None);
    }
    if newest {
        let parts = read(segment.file(), trailer.end, trailer.directory_at.saturating_sub(trailer.end).min(segment.len()))?;
        if stamp.crc(&parts) != trailer.parts_crc {
            return Ok(None);
        }
    }
    Ok(Directory::decode(&bytes).map(|directory| (trailer.end, directory)))
}

/// Reads up to `len` bytes; fewer if the file ends.
pub(crate) fn read(file: &dyn LogFile, at: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(len).map_err(|_| io::Error::other("longer than memory"))?];
    let read = file.read_at(&mut bytes, at)?;
    bytes.truncate(read);
    Ok(bytes)
}
