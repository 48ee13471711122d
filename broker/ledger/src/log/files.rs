//! The seam between the log and the operating system: a directory of files that can be written, synced and renamed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What is written past the system's cache begins and ends at a multiple of this, in memory and in the file. Every disk and file
/// system that can do it at all can do it so.
pub const PAGE: usize = 4096;

/// The directory operations the log needs. A name is durable only after [`sync_dir`](Self::sync_dir).
pub trait FileLayer: Send + Sync + 'static {
    /// Makes the directory and its parents.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn LogFile>>;
    /// Creates an empty file, replacing one of the same name.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn LogFile>>;
    /// Gives a file another name, replacing whatever had it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a name.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The names in a directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Makes earlier creations, renames and removals durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Bytes an unprivileged writer may still allocate on the directory's file system.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;
}

/// A file of the log. Bytes written are durable only after [`sync_data`](Self::sync_data).
pub trait LogFile: Send + Sync {
    /// Writes as much of `parts` as the system takes in one call, at `offset`; returns how many bytes that was.
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize>;
    /// Whether [`write_pages`](Self::write_pages) goes past the system's cache. May change to no after a write.
    fn takes_pages(&self) -> bool {
        false
    }
    /// Writes whole pages, whose memory and `offset` begin at a multiple of [`PAGE`]; returns how many bytes that was. After an
    /// error any part of them may be written. What was written is durable only after a sync, as with [`write_at`](Self::write_at).
    fn write_pages(&self, pages: &[u8], offset: u64) -> io::Result<usize> {
        self.write_at(&[IoSlice::new(pages)], offset)
    }
    /// Reads at `offset` until `buffer` is full or the file ends; returns how many bytes were read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Makes everything written so far durable.
    fn sync_data(&self) -> io::Result<()>;
    /// Makes the file at least `len` bytes long and reserves the space.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// The operating system's files.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsFiles {
    /// Write pages past the system's cache, where the file system can.
    pub direct: bool,
}

impl OsFiles {
    fn file(self, file: File, path: &Path) -> OsFile {
        // Some file systems refuse to open a file like this, others the first write.
        let open = || OpenOptions::new().write(true).custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed()).open(path).ok();
        OsFile { file, direct: self.direct.then(open).flatten(), refused: AtomicBool::new(false) }
    }
}

impl FileLayer for OsFiles {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        Ok(Arc::new(self.file(OpenOptions::new().read(true).write(true).open(path)?, path)))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        // Messages are nobody else's to read, whatever the umask.
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(path)?;
        Ok(Arc::new(self.file(file, path)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(dir)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

struct OsFile {
    file: File,
    /// The same file, opened for writing past the cache.
    direct: Option<File>,
    /// Set when the file system refused a write past the cache.
    refused: AtomicBool,
}

impl LogFile for OsFile {
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        // The kernel takes at most 1,024 parts in one call; the caller goes on with the rest.
        let parts = parts.get(..1024).unwrap_or(parts);
        loop {
            match rustix::io::pwritev(&self.file, parts, offset) {
                Err(rustix::io::Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
    }

    fn takes_pages(&self) -> bool {
        self.direct.is_some() && !self.refused.load(Relaxed)
    }

    fn write_pages(&self, pages: &[u8], offset: u64) -> io::Result<usize> {
        let Some(direct) = self.direct.as_ref().filter(|_| self.takes_pages()) else {
            return self.write_at(&[IoSlice::new(pages)], offset);
        };
        loop {
            match rustix::io::pwrite(direct, pages, offset) {
                Err(rustix::io::Errno::INTR) => {}
                // Said of the call, before anything is written: this file system wants another alignment, or none of it.
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => {
                    self.refused.store(true, Relaxed);
                    return self.write_at(&[IoSlice::new(pages)], offset);
                }
                other => return Ok(other?),
            }
        }
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.file, rustix::fs::FallocateFlags::empty(), 0, len) {
            // A file system without fallocate still gives the length; running out of space then shows at the write.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => self.file.set_len(len),
            other => Ok(other?),
        }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

/// Writes all of `parts` at `offset`. The error tells how many bytes were written before it.
pub(crate) fn write_all(file: &dyn LogFile, mut parts: &mut [IoSlice<'_>], mut offset: u64) -> Result<(), WriteFailed> {
    let mut written = 0;
    while !parts.is_empty() {
        match file.write_at(parts, offset) {
            Ok(0) => return Err(WriteFailed { written, error: io::ErrorKind::WriteZero.into() }),
            Ok(n) => {
                written += n;
                offset += n as u64;
                IoSlice::advance_slices(&mut parts, n);
            }
            Err(error) => return Err(WriteFailed { written, error }),
        }
    }
    Ok(())
}

/// A write that did not go through.
#[derive(Debug)]
pub(crate) struct WriteFailed {
    /// Bytes that are known to be written, or to be there in part.
    written: usize,
    pub(crate) error: io::Error,
}

impl WriteFailed {
    /// Anything may have been written.
    pub(crate) fn half_way(error: io::Error) -> WriteFailed {
        WriteFailed { written: 1, error }
    }

    /// The disk was full and the file is provably as it was.
    pub(crate) fn changed_nothing(&self) -> bool {
        self.written == 0 && is_full(&self.error)
    }
}

/// Whether the error says that there is no space (or quota) left.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
