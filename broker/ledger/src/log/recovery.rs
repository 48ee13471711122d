//! What a directory holds: footers are believed if they pass, segments without one are walked block by block.
//! A torn end is cut at the last whole block; damage in front of durable blocks is reported, not skipped.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::errors::OpenError;
use super::files::{FileLayer, write_all};
use super::format::{LedgerRecord, SEGMENT_HEADER, SegmentHeader, Stamp, generation_of};
use super::ids::IdMap;
use super::index::Index;
use super::options::LogOptions;
use super::segment::{Segment, SegmentFiles};
use super::version::{VERSION_NEW, VersionFile, read_version, write_version};
use super::walk::{Bad, CHUNK, Content, Step, Walk, read, read_footer};
use crate::{LedgerId, Purpose};

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
                let (previous, previous_end, before) = last.map_or((0, 0, 0), |(segment, end)| (segment.generation(), end, segment.len()));
                let generation = previous.saturating_add(1);
                let header = SegmentHeader { directory: version.directory, generation, next_ledger, previous, previous_end, file_len: 0 };
                let begun = files.prepare(SEGMENT_HEADER as u64, before).and_then(|prepared| files.begin(prepared, header));
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

/// Deleted ledgers and the newest segment that says so.
fn deleted(found: &[Found]) -> IdMap<u64> {
    let mut deleted = IdMap::default();
    for found in found {
        deleted.extend(found.content.deleted.iter().map(|id| (*id, found.header.generation)));
    }
    deleted
}

pub(crate) fn failed(what: &'static str, path: &Path) -> impl Fn(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Io { what, path: path.clone(), source }
}
