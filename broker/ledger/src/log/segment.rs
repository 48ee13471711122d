//! The files of the log: made ahead of use, given a header, filled, and used again once nothing in them is needed.

use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::files::{FileLayer, LogFile, PAGE, is_full, write_all};
use super::footer::{Directory, RunRecord, Trailer, encode_part};
use super::format::{DirectoryId, Extent, SEGMENT_HEADER, SegmentHeader, Stamp, TRAILER, segment_name};

/// One file, for as long as it carries one generation. Whoever reads from it holds it, and so keeps it from being used again.
pub(crate) struct Segment {
    stamp: Stamp,
    file: Arc<dyn LogFile>,
    len: u64,
}

impl Segment {
    pub(crate) fn new(stamp: Stamp, file: Arc<dyn LogFile>, len: u64) -> Segment {
        Segment { stamp, file, len }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.stamp.generation
    }

    pub(crate) fn stamp(&self) -> Stamp {
        self.stamp
    }

    pub(crate) fn file(&self) -> &dyn LogFile {
        &*self.file
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Whether blocks are written in whole pages, past the system's cache.
    pub(crate) fn takes_pages(&self) -> bool {
        self.len.is_multiple_of(PAGE as u64) && self.file.takes_pages()
    }

    /// Writes the footer of a full segment; the caller syncs.
    pub(crate) fn write_footer(&self, footer: Footer, end: u64) -> io::Result<Directory> {
        let (bytes, trailer, directory) = footer.lay(self.stamp, end)?;
        let trailer_at = self.len.saturating_sub(TRAILER as u64);
        if end + bytes.len() as u64 > trailer_at {
            return Err(io::Error::other("the footer does not fit its segment"));
        }
        write_all(self.file(), &mut [IoSlice::new(&bytes)], end).map_err(|failed| failed.error)?;
        write_all(self.file(), &mut [IoSlice::new(&trailer.encode(self.stamp))], trailer_at).map_err(|failed| failed.error)?;
        Ok(directory)
    }
}

/// What is written behind the blocks of a full segment.
#[derive(Debug, Default)]
pub(crate) struct Footer {
    pub(crate) directory: Directory,
    parts: Vec<u8>,
}

impl Footer {
    /// Adds the extents of a run.
    pub(crate) fn add(&mut self, stamp: Stamp, ledger: i64, first: i64, bytes: u64, extents: &[Extent]) {
        let part = encode_part(stamp, ledger, first, extents);
        let [count, part_at, part_len] = [extents.len(), self.parts.len(), part.len()].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        self.directory.runs.push(RunRecord { ledger, first, count, bytes, part_at, part_len });
        self.parts.extend_from_slice(&part);
    }

    fn lay(mut self, stamp: Stamp, end: u64) -> io::Result<(Vec<u8>, Trailer, Directory)> {
        let too_far = || io::Error::other("the segment is longer than offsets reach");
        let shift = u32::try_from(end).map_err(|_| too_far())?;
        for run in &mut self.directory.runs {
            run.part_at = run.part_at.checked_add(shift).ok_or_else(too_far)?;
        }
        let encoded = self.directory.encode();
        let trailer = Trailer {
            end,
            directory_at: end + self.parts.len() as u64,
            directory_len: u32::try_from(encoded.len()).map_err(|_| too_far())?,
            directory_crc: stamp.crc(&encoded),
            parts_crc: stamp.crc(&self.parts),
        };
        self.parts.extend_from_slice(&encoded);
        Ok((self.parts, trailer, self.directory))
    }
}

/// Length of a new log's first file; each further one is twice as long as the one before, up to the length that was set. A broker
/// that keeps little takes little.
const FIRST: u64 = 16 << 20;
/// On a full disk a file may be this short.
const SMALLEST: u64 = 1 << 20;

/// Makes segments and takes them back.
pub(crate) struct SegmentFiles {
    pub(crate) layer: Arc<dyn FileLayer>,
    pub(crate) dir: PathBuf,
    pub(crate) directory: DirectoryId,
    pub(crate) segment_bytes: u64,
    /// How many spare files are kept.
    pub(crate) recycle: usize,
    pub(crate) sync: bool,
    spares: Mutex<Vec<Spare>>,
}

struct Spare {
    name: String,
    segment: Arc<Segment>,
}

/// A file with its space reserved and no header yet.
pub(crate) struct Prepared {
    name: String,
    file: Arc<dyn LogFile>,
    len: u64,
}

impl SegmentFiles {
    pub(crate) fn new(
        layer: Arc<dyn FileLayer>,
        dir: PathBuf,
        directory: DirectoryId,
        segment_bytes: u64,
        recycle: usize,
        sync: bool,
    ) -> SegmentFiles {
        SegmentFiles { layer, dir, directory, segment_bytes, recycle, sync, spares: Mutex::default() }
    }

    /// Reserves a file of at least `needed` bytes behind a segment of `before`; nothing of the log changes, whatever the outcome.
    pub(crate) fn prepare(&self, needed: u64, before: u64) -> io::Result<Prepared> {
        if needed <= self.segment_bytes
            && let Some(spare) = self.take_spare()
        {
            return Ok(Prepared { name: spare.name, len: spare.segment.len, file: spare.segment.file.clone() });
        }
        // Room for an odd giant, in whole pages; such a file is not used again.
        let least = needed.max(SMALLEST.min(self.segment_bytes)).next_multiple_of(PAGE as u64);
        let mut len = before.saturating_mul(2).clamp(FIRST.min(self.segment_bytes), self.segment_bytes).max(least);
        let name = "next.new".to_owned();
        let path = self.dir.join(&name);
        loop {
            let file = self.layer.create(&path)?;
            match file.allocate(len) {
                Ok(()) => return Ok(Prepared { name, file, len }),
                // The last of a disk is used in smaller pieces.
                Err(error) if is_full(&error) && len > least => len = (len / 2).next_multiple_of(PAGE as u64).max(least),
                Err(error) => {
                    drop(file);
                    let _ = self.layer.remove(&path);
                    return Err(error);
                }
            }
        }
    }

    /// Turns a prepared file into the segment `header` describes. When this returns, name and header are durable.
    pub(crate) fn begin(&self, prepared: Prepared, mut header: SegmentHeader) -> io::Result<Arc<Segment>> {
        header.file_len = prepared.len;
        let encoded: [u8; SEGMENT_HEADER] = header.encode();
        write_all(&*prepared.file, &mut [IoSlice::new(&encoded)], 0).map_err(|failed| failed.error)?;
        self.sync(&*prepared.file)?;
        self.layer.rename(&self.dir.join(&prepared.name), &self.dir.join(segment_name(header.generation)))?;
        self.layer.sync_dir(&self.dir)?;
        Ok(Arc::new(Segment::new(Stamp::new(self.directory, header.generation), prepared.file, prepared.len)))
    }

    /// Takes the name from a segment in which nothing is live; durable when this returns.
    pub(crate) fn retire(&self, segment: Arc<Segment>) -> io::Result<()> {
        let path = self.dir.join(segment_name(segment.generation()));
        let keep = segment.len == self.segment_bytes && self.lock().len() < self.recycle;
        if keep {
            let name = format!("{:016x}.spare", segment.generation());
            self.layer.rename(&path, &self.dir.join(&name))?;
            self.layer.sync_dir(&self.dir)?;
            self.lock().push(Spare { name, segment });
        } else {
            self.layer.remove(&path)?;
            self.layer.sync_dir(&self.dir)?;
        }
        Ok(())
    }

    /// Takes over a spare file that an earlier run left, or removes it if it is not wanted.
    pub(crate) fn adopt_spare(&self, name: String) -> io::Result<()> {
        let path = self.dir.join(&name);
        let file = self.layer.open(&path)?;
        let len = file.len()?;
        if len == self.segment_bytes && self.lock().len() < self.recycle {
            let segment = Arc::new(Segment::new(Stamp::new(self.directory, 0), file, len));
            self.lock().push(Spare { name, segment });
            return Ok(());
        }
        self.layer.remove(&path)
    }

    /// Bytes in spare files: space the log has already.
    pub(crate) fn spare_bytes(&self) -> u64 {
        self.lock().iter().map(|spare| spare.segment.len).sum()
    }

    /// Syncs, unless syncing was switched off.
    pub(crate) fn sync(&self, file: &dyn LogFile) -> io::Result<()> {
        if self.sync { file.sync_data() } else { Ok(()) }
    }

    /// A spare nobody reads from any more.
    fn take_spare(&self) -> Option<Spare> {
        let mut spares = self.lock();
        let at = spares.iter().position(|spare| Arc::strong_count(&spare.segment) == 1)?;
        Some(spares.swap_remove(at))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Spare>> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
