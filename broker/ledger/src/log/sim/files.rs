//! Files in memory that remember what was synced, so that a crash can drop, tear and reorder the rest.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::files::{FileLayer, LogFile, PAGE};

/// What a crash does with bytes and names that were not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// Nothing unsynced is left.
    Drop,
    /// Everything is left, as after a killed process.
    Keep,
    /// Each sector of 512 bytes is left or not, by the seed.
    Tear(u64),
}

/// A file layer in memory. Clones are the same disk.
#[derive(Clone, Default)]
pub struct SimFiles(Arc<Mutex<Disk>>);

#[derive(Default)]
struct Disk {
    files: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    unsynced_names: Vec<Naming>,
    operations: u64,
    crash_at: Option<u64>,
    fail_sync_at: Option<u64>,
    syncs: u64,
    capacity: Option<u64>,
    refuse_writes: bool,
    through_cache: bool,
}

#[derive(Clone, Default)]
struct Inode {
    current: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Unsynced>,
}

#[derive(Clone)]
enum Unsynced {
    Bytes(usize, Vec<u8>),
    Length(usize),
}

#[derive(Clone)]
enum Naming {
    Add(PathBuf, usize),
    Move(PathBuf, PathBuf),
    Remove(PathBuf),
}

const SECTOR: usize = 512;

impl SimFiles {
    /// An empty disk without limits.
    #[must_use]
    pub fn new() -> SimFiles {
        SimFiles::default()
    }

    /// Writes, syncs and changes of names so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// From the operation with this number on, everything fails; that operation's own effect may be there or not.
    pub fn crash_at(&self, operation: u64) {
        self.lock().crash_at = Some(operation);
    }

    /// The sync after `after` more ones fails once, and what it should have made durable counts as clean from then on.
    pub fn fail_sync_after(&self, after: u64) {
        let mut disk = self.lock();
        disk.fail_sync_at = Some(disk.syncs + after);
    }

    /// Files may be this long in sum.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.lock().capacity = bytes;
    }

    /// While set, writes fail for want of space and change nothing.
    pub fn refuse_writes(&self, refuse: bool) {
        self.lock().refuse_writes = refuse;
    }

    /// The same, but files are written through the system's cache, byte for byte instead of in pages.
    #[must_use]
    pub fn through_cache() -> SimFiles {
        let files = SimFiles::new();
        files.lock().through_cache = true;
        files
    }

    /// Flips bits of a byte on the disk.
    ///
    /// # Panics
    /// If there is no such byte.
    pub fn flip(&self, path: &Path, offset: usize, bits: u8) {
        let mut disk = self.lock();
        let id = disk.names[path];
        disk.files[id].current[offset] ^= bits;
        if let Some(byte) = disk.files[id].durable.get_mut(offset) {
            *byte ^= bits;
        }
    }

    /// What a file holds now.
    ///
    /// # Panics
    /// If there is no such file.
    #[must_use]
    pub fn content(&self, path: &Path) -> Vec<u8> {
        let disk = self.lock();
        disk.files[disk.names[path]].current.clone()
    }

    /// Whether there is such a file.
    #[must_use]
    pub fn exists(&self, path: &Path) -> bool {
        self.lock().names.contains_key(path)
    }

    /// Puts a durable file there.
    pub fn put(&self, path: &Path, content: Vec<u8>) {
        let mut disk = self.lock();
        let id = disk.files.len();
        disk.files.push(Inode { current: content.clone(), durable: content, unsynced: Vec::new() });
        disk.names.insert(path.to_owned(), id);
        disk.durable_names.insert(path.to_owned(), id);
    }

    /// Forgets a file, durably.
    pub fn lose(&self, path: &Path) {
        let mut disk = self.lock();
        disk.names.remove(path);
        disk.durable_names.remove(path);
    }

    /// The disk as it may be found after a crash now.
    #[must_use]
    pub fn after(&self, crash: Crash) -> SimFiles {
        let disk = self.lock();
        let mut random = Random(match crash {
            Crash::Tear(seed) => seed,
            _ => 0,
        });
        let mut names = disk.durable_names.clone();
        // A journalling file system keeps changes of names in order, so a prefix of them survives.
        let kept = match crash {
            Crash::Drop => 0,
            Crash::Keep => disk.unsynced_names.len(),
            Crash::Tear(_) => random.below(disk.unsynced_names.len() + 1),
        };
        for naming in &disk.unsynced_names[..kept] {
            naming.apply(&mut names);
        }
        let files: Vec<Inode> = disk.files.iter().map(|file| file.after(crash, &mut random)).collect();
        let (capacity, through_cache) = (disk.capacity, disk.through_cache);
        SimFiles(Arc::new(Mutex::new(Disk { files, durable_names: names.clone(), names, capacity, through_cache, ..Disk::default() })))
    }

    fn lock(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk {
    /// Counts an operation, whose effect was noted before as unsynced.
    fn operate(&mut self) -> io::Result<()> {
        self.operations += 1;
        if self.is_down() { Err(io::Error::other("simulated crash")) } else { Ok(()) }
    }

    fn is_down(&self) -> bool {
        self.crash_at.is_some_and(|at| self.operations >= at)
    }

    fn up(&self) -> io::Result<()> {
        if self.is_down() { Err(io::Error::other("simulated crash")) } else { Ok(()) }
    }

    fn name(&mut self, naming: Naming) -> io::Result<()> {
        self.up()?;
        naming.apply(&mut self.names);
        self.unsynced_names.push(naming);
        self.operate()
    }

    fn used(&self) -> u64 {
        self.names.values().map(|id| self.files[*id].current.len() as u64).sum()
    }

    fn free(&self) -> u64 {
        self.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(self.used()))
    }
}

impl Inode {
    fn after(&self, crash: Crash, random: &mut Random) -> Inode {
        let mut content = self.durable.clone();
        for unsynced in &self.unsynced {
            match unsynced {
                Unsynced::Length(len) if crash == Crash::Keep || (crash != Crash::Drop && random.half()) => grow(&mut content, *len),
                Unsynced::Length(_) => {}
                Unsynced::Bytes(at, bytes) => tear(&mut content, *at, bytes, crash, random),
            }
        }
        Inode { current: content.clone(), durable: content, unsynced: Vec::new() }
    }
}

impl Naming {
    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            Naming::Add(path, id) => {
                names.insert(path.clone(), *id);
            }
            Naming::Move(from, to) => {
                if let Some(id) = names.remove(from) {
                    names.insert(to.clone(), id);
                }
            }
            Naming::Remove(path) => {
                names.remove(path);
            }
        }
    }
}

fn tear(content: &mut Vec<u8>, at: usize, bytes: &[u8], crash: Crash, random: &mut Random) {
    // One in four writes is lost or kept as a whole, so that later writes of a group survive earlier ones.
    let whole = (random.below(4) == 0).then(|| random.half());
    let mut offset = 0;
    while offset < bytes.len() {
        let len = (SECTOR - (at + offset) % SECTOR).min(bytes.len() - offset);
        let kept = match crash {
            Crash::Drop => false,
            Crash::Keep => true,
            Crash::Tear(_) => whole.unwrap_or_else(|| random.half()),
        };
        if kept {
            put(content, at + offset, &bytes[offset..offset + len]);
        }
        offset += len;
    }
}

fn put(content: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    grow(content, at + bytes.len());
    content[at..at + bytes.len()].copy_from_slice(bytes);
}

fn grow(content: &mut Vec<u8>, len: usize) {
    if content.len() < len {
        content.extend_from_slice(&vec![0; len - content.len()]);
    }
}

impl FileLayer for SimFiles {
    fn create_dir(&self, _dir: &Path) -> io::Result<()> {
        self.lock().up()
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        let disk = self.lock();
        disk.up()?;
        let id = *disk.names.get(path).ok_or(ErrorKind::NotFound)?;
        Ok(Arc::new(SimFile { disk: self.clone(), id }))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        let mut disk = self.lock();
        let id = disk.files.len();
        disk.files.push(Inode::default());
        disk.name(Naming::Add(path.to_owned(), id))?;
        Ok(Arc::new(SimFile { disk: self.clone(), id }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.lock().name(Naming::Move(from.to_owned(), to.to_owned()))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.lock().name(Naming::Remove(path.to_owned()))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let disk = self.lock();
        disk.up()?;
        let inside = disk.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        let mut disk = self.lock();
        disk.operate()?;
        disk.durable_names = disk.names.clone();
        disk.unsynced_names.clear();
        Ok(())
    }

    fn free_bytes(&self, _dir: &Path) -> io::Result<u64> {
        Ok(self.lock().free())
    }
}

struct SimFile {
    disk: SimFiles,
    id: usize,
}

impl LogFile for SimFile {
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let mut disk = self.disk.lock();
        disk.up()?;
        if disk.refuse_writes {
            return Err(ErrorKind::StorageFull.into());
        }
        let bytes: Vec<u8> = parts.iter().map(|part| &**part).collect::<Vec<&[u8]>>().concat();
        let (at, len) = (usize::try_from(offset).unwrap_or(usize::MAX), bytes.len());
        let file = &mut disk.files[self.id];
        put(&mut file.current, at, &bytes);
        file.unsynced.push(Unsynced::Bytes(at, bytes));
        disk.operate()?;
        Ok(len)
    }

    fn takes_pages(&self) -> bool {
        !self.disk.lock().through_cache
    }

    fn write_pages(&self, pages: &[u8], offset: u64) -> io::Result<usize> {
        let aligned = pages.as_ptr().align_offset(PAGE) == 0 && pages.len().is_multiple_of(PAGE) && offset.is_multiple_of(PAGE as u64);
        if !aligned || pages.is_empty() {
            return Err(ErrorKind::InvalidInput.into());
        }
        self.write_at(&[IoSlice::new(pages)], offset)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let disk = self.disk.lock();
        disk.up()?;
        let content = &disk.files[self.id].current;
        let rest = usize::try_from(offset).ok().and_then(|at| content.get(at..)).unwrap_or(&[]);
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut disk = self.disk.lock();
        disk.operate()?;
        let fails = disk.fail_sync_at == Some(disk.syncs);
        disk.syncs += 1;
        let file = &mut disk.files[self.id];
        let unsynced = std::mem::take(&mut file.unsynced);
        if fails {
            return Err(io::Error::other("simulated sync failure"));
        }
        for unsynced in unsynced {
            match unsynced {
                Unsynced::Bytes(at, bytes) => put(&mut file.durable, at, &bytes),
                Unsynced::Length(len) => grow(&mut file.durable, len),
            }
        }
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let mut disk = self.disk.lock();
        disk.up()?;
        let wanted = usize::try_from(len).unwrap_or(usize::MAX);
        let more = wanted.saturating_sub(disk.files[self.id].current.len()) as u64;
        if more > disk.free() {
            return Err(ErrorKind::StorageFull.into());
        }
        let file = &mut disk.files[self.id];
        grow(&mut file.current, wanted);
        file.unsynced.push(Unsynced::Length(wanted));
        disk.operate()
    }

    fn len(&self) -> io::Result<u64> {
        let disk = self.disk.lock();
        disk.up()?;
        Ok(disk.files[self.id].current.len() as u64)
    }
}

/// A small generator, so that a crash depends on its seed alone.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).unwrap_or(0)
    }

    fn half(&mut self) -> bool {
        self.next() & 1 == 0
    }
}
