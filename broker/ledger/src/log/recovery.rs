//! What a directory holds: footers are believed if they pass, segments without one are walked block by block.
//! A torn end is cut at the last whole block; damage in front of durable blocks is reported, not skipped.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::errors::OpenError;
use super::files::{FileLayer, LogFile, write_all};
use super::format::{
    BLOCK_HEADER, BLOCK_MAGIC, BlockHeader, Directory, DirectoryId, Extent, FORMAT, Kind, LedgerRecord, Record, SEGMENT_HEADER,
    SegmentHeader, Stamp, TRAILER, Trailer, VersionFile, VersionRefused, generation_of, records,
};
use super::index::{IdMap, Index, Run, extend};
use super::options::LogOptions;
use super::segment::{Segment, SegmentFiles};
use crate::{LedgerId, Purpose};

const VERSION: &str = "VERSION";
const VERSION_NEW: &str = "VERSION.new";
const CHUNK: usize = 1 << 20;

/// What opening a log found.
#[derive(Clone, Debug, Default)]
pub struct RecoveryReport {
    /// The file and the offset at which the log was cut: what lay behind was never reported durable.
    pub cut: Option<(PathBuf, u64)>,
    /// Damage that was tolerated because the options said so.
    pub damage: Vec<String>,
    /// Segments found.
    pub segments: usize,
    /// Segments that had to be walked because they have no footer.
    pub walked: usize,
    /// How long it took.
    pub took: Duration,
}

/// A log as it was found, ready to be written to.
pub(crate) struct Recovered {
    pub(crate) index: Index,
    pub(crate) files: SegmentFiles,
    pub(crate) active: Arc<Segment>,
    pub(crate) end: u64,
    pub(crate) next_ledger: i64,
    pub(crate) run: u64,
    pub(crate) report: RecoveryReport,
}

/// What one segment holds.
struct Found {
    header: SegmentHeader,
    segment: Arc<Segment>,
    content: Content,
    full: bool,
    end: u64,
    last_group: Option<u64>,
}

#[derive(Default)]
struct Content {
    runs: Vec<(i64, Run)>,
    states: Vec<(i64, LedgerRecord)>,
    deleted: Vec<i64>,
    mentions: Vec<i64>,
}

struct Recovery<'a> {
    layer: &'a Arc<dyn FileLayer>,
    dir: &'a Path,
    options: &'a LogOptions,
    version: VersionFile,
    report: RecoveryReport,
}

/// Opens what is in `dir`, or makes a new log there.
pub(crate) fn recover(layer: &Arc<dyn FileLayer>, dir: &Path, options: &LogOptions) -> Result<Recovered, OpenError> {
    let began = Instant::now();
    options.check()?;
    layer.create_dir(dir).map_err(failed("creating", dir))?;
    let names = layer.list(dir).map_err(failed("listing", dir))?;
    let version = read_version(&**layer, dir, &names)?;
    let mut recovery = Recovery { layer, dir, options, version, report: RecoveryReport::default() };
    let found = recovery.segments(&names)?;
    let mut recovered = recovery.assemble(found, &names)?;
    recovered.report.took = began.elapsed();
    Ok(recovered)
}

impl Recovery<'_> {
    /// Reads every segment, oldest first.
    fn segments(&mut self, names: &[String]) -> Result<Vec<Found>, OpenError> {
        let mut generations: Vec<u64> = names.iter().filter_map(|name| generation_of(name)).collect();
        generations.sort_unstable();
        let mut opened = Vec::with_capacity(generations.len());
        for generation in generations {
            opened.extend(self.open_segment(generation)?);
        }
        self.report.segments = opened.len();
        let mut found = Vec::with_capacity(opened.len());
        let mut rest = opened.into_iter().peekable();
        while let Some((header, segment)) = rest.next() {
            let next = rest.peek().map(|(next, _)| next);
            found.push(self.read_segment(header, segment, next)?);
        }
        Ok(found)
    }

    fn open_segment(&mut self, generation: u64) -> Result<Option<(SegmentHeader, Arc<Segment>)>, OpenError> {
        let path = self.path_of(generation);
        let file = self.layer.open(&path).map_err(failed("opening", &path))?;
        let len = file.len().map_err(failed("measuring", &path))?;
        let bytes = read(&*file, 0, SEGMENT_HEADER as u64).map_err(failed("reading", &path))?;
        let header = SegmentHeader::decode(&bytes).and_then(|header| {
            if header.directory != self.version.directory {
                Err("the segment belongs to another directory")
            } else if header.generation != generation {
                Err("the segment has another generation than its name says")
            } else if header.file_len > len {
                Err("the file is shorter than it was made")
            } else {
                Ok(header)
            }
        });
        match header {
            Ok(header) => {
                let stamp = Stamp::new(self.version.directory, generation);
                Ok(Some((header, Arc::new(Segment::new(stamp, file, header.file_len)))))
            }
            Err(reason) => {
                // A header is durable before its file has this name, so no crash explains it.
                self.tolerate(path, 0, reason, Vec::new())?;
                Ok(None)
            }
        }
    }

    fn read_segment(&mut self, header: SegmentHeader, segment: Arc<Segment>, next: Option<&SegmentHeader>) -> Result<Found, OpenError> {
        let path = self.path_of(header.generation);
        if let Some((end, directory)) = read_footer(&segment, next.is_none()).map_err(failed("reading", &path))? {
            let content = Content::of(directory, header.generation);
            return Ok(Found { header, segment, content, full: true, end, last_group: None });
        }
        self.report.walked += 1;
        let known_end = next.map(|next| if next.previous == header.generation { Some(next.previous_end) } else { None });
        let mut walk = Walk::new(&segment, self.version.run);
        self.walk(&mut walk, &path, known_end)?;
        let Walk { at: end, last_group, content, .. } = walk;
        Ok(Found { header, content, full: next.is_some(), end, last_group, segment })
    }

    /// Walks a segment without a footer. `known_end` is given for one that is not the newest: its end, if that is known.
    fn walk(&mut self, walk: &mut Walk<'_>, path: &Path, known_end: Option<Option<u64>>) -> Result<(), OpenError> {
        let io = failed("reading", path);
        loop {
            if known_end.flatten() == Some(walk.at) {
                return Ok(());
            }
            let bad = match walk.block().map_err(&io)? {
                Step::Taken => continue,
                Step::Bad(bad) => bad,
            };
            let newer = if walk.closed_in_order() { None } else { walk.newer_block(known_end.is_some()).map_err(&io)? };
            let (offset, ledgers) = (walk.at, bad.ledgers());
            if let Some(end) = known_end {
                // The next segment was begun when this one was durable: every byte up to its end should be good.
                if newer.is_some() || end.is_some_and(|end| end > offset) {
                    self.tolerate(path.to_owned(), offset, "a block fails its checksum in front of newer data", ledgers)?;
                } else if end.is_none() {
                    self.tolerate(path.to_owned(), offset, "the footer fails its checksum", ledgers)?;
                }
            } else if newer.is_some() {
                self.tolerate(path.to_owned(), offset, "a block fails its checksum in front of newer durable blocks", ledgers)?;
            } else {
                if !matches!(bad, Bad::Nothing) {
                    self.report.cut = Some((path.to_owned(), offset));
                }
                return Ok(());
            }
            walk.salvage(&bad);
            match newer {
                Some(next) => walk.at = next,
                None => return Ok(()),
            }
        }
    }

    /// Puts what was found together.
    fn assemble(mut self, found: Vec<Found>, names: &[String]) -> Result<Recovered, OpenError> {
        let mut index = Index::default();
        let next_ledger = found.iter().map(Found::next_ledger).max().unwrap_or(0).max(0);
        let newest = found.last().map(|found| found.header.generation);
        let resume = found.last().filter(|found| !found.full).map(|found| found.header.generation);
        for found in &found {
            index.add_segment(found.segment.clone());
            for (id, state) in &found.content.states {
                index.set_state(*id, *state, found.header.generation);
            }
        }
        let deleted = deleted(&found);
        for id in deleted.keys() {
            index.ledgers.remove(id);
        }
        self.adopt_unknown(&mut index, &found, &deleted)?;
        let mut last = None;
        for found in found {
            let generation = found.header.generation;
            if Some(generation) == newest {
                self.make_durable(&found)?;
            }
            last = Some((found.segment.clone(), found.end));
            for (id, run) in found.content.runs {
                index.recover_run(id, run);
            }
            index.recover_mentions(generation, found.content.mentions, resume);
        }
        let deleted: Vec<(i64, u64)> = deleted.into_iter().collect();
        let holes = index.settle(resume, &deleted);
        if let Some((_, reason)) = holes.first() {
            let ledgers: Vec<LedgerId> = holes.iter().map(|(id, _)| *id).collect();
            let reason = format!("of ledger {}, {reason}", ledgers.first().map_or(-1, |id| id.0));
            self.tolerate(self.dir.to_owned(), 0, &reason, ledgers)?;
        }
        self.begin(index, last, resume.is_some(), next_ledger, names)
    }

    /// Entries of a ledger nobody created: its record was lost.
    fn adopt_unknown(&mut self, index: &mut Index, found: &[Found], deleted: &IdMap<u64>) -> Result<(), OpenError> {
        let mut unknown: Vec<(LedgerId, u64)> = Vec::new();
        for found in found {
            for (id, _) in &found.content.runs {
                if !index.ledgers.contains_key(id) && !deleted.contains_key(id) {
                    unknown.push((LedgerId(*id), found.header.generation));
                }
            }
        }
        unknown.sort_unstable();
        unknown.dedup_by_key(|(id, _)| *id);
        if !unknown.is_empty() {
            let ledgers = unknown.iter().map(|(id, _)| *id).collect();
            self.tolerate(self.dir.to_owned(), 0, "there are entries of ledgers whose creation is not recorded", ledgers)?;
        }
        for (id, home) in unknown {
            index.set_state(id.0, LedgerRecord { purpose: Purpose::Data, sealed: None }, home);
        }
        Ok(())
    }

    /// What was read may so far be only in the system's cache, or in no disk's list of things to write after a failed
    /// sync: the last group is written once more, and synced, before anything in it is believed.
    fn make_durable(&self, found: &Found) -> Result<(), OpenError> {
        let path = self.path_of(found.header.generation);
        let file = found.segment.file();
        let mut at = found.last_group.unwrap_or(found.end);
        while at < found.end {
            let bytes = read(file, at, (found.end - at).min(CHUNK as u64)).map_err(failed("reading", &path))?;
            if bytes.is_empty() {
                break;
            }
            write_all(file, &mut [IoSlice::new(&bytes)], at).map_err(|refused| failed("writing", &path)(refused.error))?;
            at += bytes.len() as u64;
        }
        if self.options.sync { file.sync_data().map_err(failed("syncing", &path)) } else { Ok(()) }
    }

    /// Removes what an interrupted run left, counts this run, and sees to a segment to write to.
    fn begin(
        self,
        mut index: Index,
        last: Option<(Arc<Segment>, u64)>,
        resume: bool,
        next_ledger: i64,
        names: &[String],
    ) -> Result<Recovered, OpenError> {
        let options = self.options;
        let version = VersionFile { run: self.version.run.saturating_add(1), ..self.version };
        write_version(&**self.layer, self.dir, version)?;
        let files = SegmentFiles::new(
            self.layer.clone(),
            self.dir.to_owned(),
            version.directory,
            options.segment_bytes,
            options.recycle,
            options.sync,
        );
        for name in names {
            let path = self.dir.join(name);
            if name.ends_with(".new") && name != VERSION_NEW {
                self.layer.remove(&path).map_err(failed("removing", &path))?;
            } else if name.ends_with(".spare") {
                files.adopt_spare(name.clone()).map_err(failed("adopting", &path))?;
            }
        }
        let (active, end) = match last {
            Some((segment, end)) if resume => (segment, end),
            last => {
                let (previous, previous_end) = last.map_or((0, 0), |(segment, end)| (segment.generation(), end));
                let generation = previous.saturating_add(1);
                let header = SegmentHeader { directory: version.directory, generation, next_ledger, previous, previous_end, file_len: 0 };
                let begun = files.prepare(SEGMENT_HEADER as u64).and_then(|prepared| files.begin(prepared, header));
                let segment = begun.map_err(failed("beginning a segment in", self.dir))?;
                index.add_segment(segment.clone());
                (segment, SEGMENT_HEADER as u64)
            }
        };
        Ok(Recovered { index, files, active, end, next_ledger, run: version.run, report: self.report })
    }

    /// Refuses damage, or notes it if the operator said to go on.
    fn tolerate(&mut self, file: PathBuf, offset: u64, reason: &str, ledgers: Vec<LedgerId>) -> Result<(), OpenError> {
        let damage = OpenError::Damaged { file, offset, reason: reason.to_owned(), ledgers };
        if !self.options.allow_damage {
            return Err(damage);
        }
        self.report.damage.push(damage.to_string());
        Ok(())
    }

    fn path_of(&self, generation: u64) -> PathBuf {
        self.dir.join(super::format::segment_name(generation))
    }
}

impl Found {
    fn next_ledger(&self) -> i64 {
        let seen = self.content.mentions.iter().max().map_or(0, |id| id.saturating_add(1));
        self.header.next_ledger.max(seen)
    }
}

impl Content {
    fn of(directory: Directory, generation: u64) -> Content {
        let runs = directory.runs.iter().map(|record| (record.ledger, Run::listed(record, generation))).collect();
        Content { runs, states: directory.states, deleted: directory.deleted, mentions: directory.mentions }
    }
}

/// Deleted ledgers and the newest segment that says so.
fn deleted(found: &[Found]) -> IdMap<u64> {
    let mut deleted = IdMap::default();
    for found in found {
        deleted.extend(found.content.deleted.iter().map(|id| (*id, found.header.generation)));
    }
    deleted
}

/// Goes through the blocks of a segment.
struct Walk<'a> {
    segment: &'a Segment,
    /// The newest run that opened the directory.
    newest_run: u64,
    at: u64,
    run: u64,
    last_group: Option<u64>,
    closed: bool,
    content: Content,
    open_runs: IdMap<usize>,
}

enum Step {
    Taken,
    Bad(Bad),
}

/// What lies where a block should begin.
enum Bad {
    /// No block header of this segment's, or one of a run that was cut here.
    Nothing,
    /// A block whose records cannot be told apart.
    Headers,
    /// A block of which some payloads are damaged.
    Payloads(Vec<Seen>),
}

/// A record, remembered without its payload.
struct Seen {
    kind: Kind,
    ledger: i64,
    entry: i64,
    extent: Extent,
    whole: bool,
    state: Option<LedgerRecord>,
}

impl Bad {
    fn ledgers(&self) -> Vec<LedgerId> {
        let Bad::Payloads(seen) = self else { return Vec::new() };
        let mut ledgers: Vec<LedgerId> = seen.iter().filter(|seen| !seen.whole).map(|seen| LedgerId(seen.ledger)).collect();
        ledgers.sort_unstable();
        ledgers.dedup();
        ledgers
    }
}

impl<'a> Walk<'a> {
    fn new(segment: &'a Segment, newest_run: u64) -> Walk<'a> {
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
    fn closed_in_order(&self) -> bool {
        self.closed && self.run == self.newest_run
    }

    /// Takes the block at the current offset if it is whole.
    fn block(&mut self) -> io::Result<Step> {
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
    fn salvage(&mut self, bad: &Bad) {
        if let Bad::Payloads(seen) = bad {
            self.take(seen);
        }
    }

    /// The next block header behind the current offset that proves durable data there: in the newest segment one that was
    /// written after everything at the current offset had been synced, in an older one any.
    fn newer_block(&self, any: bool) -> io::Result<Option<u64>> {
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
fn read_footer(segment: &Segment, newest: bool) -> io::Result<Option<(u64, Directory)>> {
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

fn read_version(layer: &dyn FileLayer, dir: &Path, names: &[String]) -> Result<VersionFile, OpenError> {
    let refuse = |reason: &str| OpenError::NotALog { dir: dir.to_owned(), reason: reason.into() };
    if !names.iter().any(|name| name == VERSION) {
        if names.iter().any(|name| generation_of(name).is_some()) {
            return Err(refuse("it has segments but no VERSION file"));
        }
        return Ok(VersionFile { directory: random_id(), run: 0 });
    }
    let path = dir.join(VERSION);
    let file = layer.open(&path).map_err(failed("opening", &path))?;
    let bytes = read(&*file, 0, 4096).map_err(failed("reading", &path))?;
    match VersionFile::decode(&bytes) {
        Ok(version) => Ok(version),
        Err(VersionRefused::Newer(found)) => Err(OpenError::Newer { dir: dir.to_owned(), found, known: FORMAT }),
        Err(VersionRefused::Unreadable) => Err(refuse("its VERSION file is damaged")),
    }
}

fn write_version(layer: &dyn FileLayer, dir: &Path, version: VersionFile) -> Result<(), OpenError> {
    let new = dir.join(VERSION_NEW);
    let write = || {
        let file = layer.create(&new)?;
        write_all(&*file, &mut [IoSlice::new(version.encode().as_bytes())], 0).map_err(|refused| refused.error)?;
        file.sync_data()?;
        layer.rename(&new, &dir.join(VERSION))?;
        layer.sync_dir(dir)
    };
    write().map_err(failed("writing", &new))
}

/// The standard library seeds each of these from the system's randomness.
fn random_id() -> DirectoryId {
    let mut id = [0; 16];
    for half in id.chunks_exact_mut(8) {
        half.copy_from_slice(&RandomState::new().build_hasher().finish().to_le_bytes());
    }
    DirectoryId(id)
}

/// Reads up to `len` bytes; fewer if the file ends.
fn read(file: &dyn LogFile, at: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(len).map_err(|_| io::Error::other("longer than memory"))?];
    let read = file.read_at(&mut bytes, at)?;
    bytes.truncate(read);
    Ok(bytes)
}

fn failed(what: &'static str, path: &Path) -> impl Fn(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Io { what, path: path.clone(), source }
}
