//! A disk made slower than it is, to measure what a broker does on a slow one. For tests and measurements only.

use std::io::{self, IoSlice};
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::files::{FileLayer, LogFile};

/// How much slower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slowness {
    /// Added to each sync of a file.
    pub added_sync: Duration,
    /// Bytes per second that become durable at most; a sync waits for what was written before it.
    pub bytes_per_second: Option<NonZeroU64>,
}

impl Slowness {
    /// Whether the disk is as fast as it is.
    pub(super) fn is_none(self) -> bool {
        self == Slowness::default()
    }
}

/// Files of another layer, synced late.
pub(super) struct SlowFiles {
    inner: Arc<dyn FileLayer>,
    disk: Arc<Disk>,
}

struct Disk {
    slowness: Slowness,
    /// When everything written so far would have reached a disk of this speed.
    busy_until: Mutex<Instant>,
}

impl SlowFiles {
    pub(super) fn new(inner: Arc<dyn FileLayer>, slowness: Slowness) -> SlowFiles {
        SlowFiles { inner, disk: Arc::new(Disk { slowness, busy_until: Mutex::new(Instant::now()) }) }
    }

    fn slow(&self, file: Arc<dyn LogFile>) -> Arc<dyn LogFile> {
        Arc::new(SlowFile { inner: file, disk: self.disk.clone() })
    }
}

impl Disk {
    /// Bytes were handed to the disk.
    fn written(&self, bytes: usize, now: Instant) {
        let Some(rate) = self.slowness.bytes_per_second else { return };
        let mut busy_until = self.busy_until.lock().unwrap_or_else(PoisonError::into_inner);
        *busy_until = now.max(*busy_until) + Duration::from_secs_f64(bytes as f64 / rate.get() as f64);
    }

    /// When a sync that was begun at `now` is over.
    fn synced_at(&self, now: Instant) -> Instant {
        let busy_until = *self.busy_until.lock().unwrap_or_else(PoisonError::into_inner);
        now.max(busy_until) + self.slowness.added_sync
    }
}

impl FileLayer for SlowFiles {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir(dir)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        Ok(self.slow(self.inner.open(path)?))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        Ok(self.slow(self.inner.create(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.inner.free_bytes(dir)
    }
}

struct SlowFile {
    inner: Arc<dyn LogFile>,
    disk: Arc<Disk>,
}

impl LogFile for SlowFile {
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let written = self.inner.write_at(parts, offset)?;
        self.disk.written(written, Instant::now());
        Ok(written)
    }

    fn takes_pages(&self) -> bool {
        self.inner.takes_pages()
    }

    fn write_pages(&self, pages: &[u8], offset: u64) -> io::Result<usize> {
        let written = self.inner.write_pages(pages, offset)?;
        self.disk.written(written, Instant::now());
        Ok(written)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        let over = self.disk.synced_at(Instant::now());
        self.inner.sync_data()?;
        thread::sleep(over.saturating_duration_since(Instant::now()));
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.inner.allocate(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(added_sync: Duration, bytes_per_second: u64) -> (Disk, Instant) {
        let now = Instant::now();
        let slowness = Slowness { added_sync, bytes_per_second: NonZeroU64::new(bytes_per_second) };
        (Disk { slowness, busy_until: Mutex::new(now) }, now)
    }

    #[test]
    fn a_sync_waits_for_what_was_written_before_it() {
        let (disk, now) = disk(Duration::from_millis(5), 1_000_000);
        assert_eq!(disk.synced_at(now), now + Duration::from_millis(5));
        disk.written(500_000, now);
        disk.written(500_000, now);
        assert_eq!(disk.synced_at(now), now + Duration::from_millis(1_005));
    }

    #[test]
    fn a_disk_without_work_saves_nothing_up() {
        let (disk, now) = disk(Duration::ZERO, 1_000_000);
        let later = now + Duration::from_secs(10);
        disk.written(1_000_000, later);
        assert_eq!(disk.synced_at(later), later + Duration::from_secs(1));
    }
}
