//! The data directory: one broker at a time, a format that is checked before anything is touched, and an epoch that
//! tells one start from the next.
//!
//! `LOCK` is held, with the owner's pid in it, while a broker runs. `FORMAT` says how the rest is laid out; it is written
//! last when a directory is made, so a directory without it holds nothing. `INSTANCE` carries the instance's id, its epoch
//! and the inode of the directory: when that differs, the directory was copied or restored, and the copy becomes an
//! instance of its own.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::endpoints;

/// The layout that this version reads and writes.
pub const FORMAT: u32 = 1;

const LOCK_FILE: &str = "LOCK";
const FORMAT_FILE: &str = "FORMAT";
const INSTANCE_FILE: &str = "INSTANCE";
const FORMAT_WORD: &str = "geminga-data";

/// A data directory in use by this process; it is free again when this value goes.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    // Its lock ends with it.
    lock: File,
    /// Who this is: 32 hexadecimal digits, made when the directory was.
    pub instance: String,
    /// Counts the starts on this directory, from 1; never the same twice for one instance.
    pub epoch: u64,
    /// The instance that this directory was copied or restored from, seen at this start.
    pub copied_from: Option<String>,
}

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// Another process has it.
    #[error(
        "the data directory {path} is in use by another broker{}; stop that one, or give this one its own with --data DIR",
        .pid.as_ref().map(|pid| format!(" (process {pid})")).unwrap_or_default()
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The owner's process, as far as it said so.
        pid: Option<String>,
    },
    /// A later version wrote it.
    #[error(
        "the data directory {path} has format {found}, and this version reads up to {FORMAT}: it was used by a newer Geminga; start that \
         version, or give this one an empty directory with --data DIR"
    )]
    Newer {
        /// The directory.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// An earlier version wrote it in a format that is not read any more.
    #[error(
        "the data directory {path} has format {found}, which this version does not read (it reads {FORMAT}): start the Geminga that wrote it and \
         move its messages with a client, or give this one an empty directory with --data DIR"
    )]
    Older {
        /// The directory.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// There is something in it, and it is not ours.
    #[error(
        "{path} is not a data directory of Geminga's: it holds {found} and no readable FORMAT file; give an empty or a new directory with --data DIR"
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// One of the things in it.
        found: String,
    },
    /// A file of ours cannot be understood.
    #[error("{path} is damaged: {reason}; restore it from a backup, or give an empty directory with --data DIR")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The system refused.
    #[error("{doing} {path}: {error}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

#[derive(Serialize, Deserialize)]
struct Instance {
    instance: String,
    epoch: u64,
    inode: u64,
}

impl DataDir {
    /// Takes the directory, making it if it does not exist. The epoch is on the disk when this returns.
    pub fn open(path: &Path) -> Result<Self, DataDirError> {
        let lock = take(path)?;
        let format = read_format(path)?;
        match format {
            Some(FORMAT) => {}
            Some(found) if found > FORMAT => return Err(DataDirError::Newer { path: path.to_owned(), found }),
            Some(found) => return Err(DataDirError::Older { path: path.to_owned(), found }),
            None => refuse_foreign(path)?,
        }
        endpoints::remove_stale(path).map_err(failed("cannot remove what a killed broker left in", path))?;
        let (instance, copied_from) = next_instance(path)?;
        let text = serde_json::to_string(&instance).unwrap_or_default() + "\n";
        write_whole(path, INSTANCE_FILE, &text)?;
        if format.is_none() {
            write_whole(path, FORMAT_FILE, &format!("{FORMAT_WORD} {FORMAT}\n"))?;
        }
        let Instance { instance, epoch, .. } = instance;
        Ok(Self { path: path.to_owned(), lock, instance, epoch, copied_from })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        // The pid of a process that is gone would only mislead.
        let _ = self.lock.set_len(0);
    }
}

/// Deletes everything in the directory, if it is one of ours that no broker uses; one that does not exist is fine.
pub fn wipe(path: &Path) -> Result<(), DataDirError> {
    if !path.exists() {
        return Ok(());
    }
    let _lock = take(path)?;
    if read_format(path)?.is_none() {
        return refuse_foreign(path);
    }
    // FORMAT goes last: until then, the next attempt still knows whose directory this is.
    for name in entries(path)?.into_iter().filter(|name| name != FORMAT_FILE && name != LOCK_FILE).chain([FORMAT_FILE.to_owned()]) {
        let entry = path.join(name);
        let removed = if entry.is_dir() && !entry.is_symlink() { fs::remove_dir_all(&entry) } else { fs::remove_file(&entry) };
        removed.map_err(failed("cannot delete", &entry))?;
    }
    Ok(())
}

fn take(path: &Path) -> Result<File, DataDirError> {
    // Not even a lock is left in somebody else's directory.
    if path.exists() && read_format(path)?.is_none() {
        refuse_foreign(path)?;
    }
    fs::create_dir_all(path).map_err(failed("cannot create the data directory", path))?;
    let file = path.join(LOCK_FILE);
    let mut lock =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&file).map_err(failed("cannot open", &file))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(DataDirError::InUse { path: path.to_owned(), pid: owner(&mut lock) }),
        Err(TryLockError::Error(error)) => return Err(failed("cannot lock", &file)(error)),
    }
    let mark = |lock: &mut File| {
        lock.set_len(0)?;
        lock.rewind()?;
        writeln!(lock, "{}", std::process::id())
    };
    mark(&mut lock).map_err(failed("cannot write", &file))?;
    Ok(lock)
}

fn owner(lock: &mut File) -> Option<String> {
    let mut text = String::new();
    lock.take(32).read_to_string(&mut text).ok()?;
    let pid = text.trim();
    (!pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit())).then(|| pid.to_owned())
}

fn read_format(path: &Path) -> Result<Option<u32>, DataDirError> {
    let file = path.join(FORMAT_FILE);
    let text = match fs::read(&file) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("cannot read", &file)(error)),
    };
    let number = text.trim().strip_prefix(FORMAT_WORD).and_then(|number| number.trim().parse().ok());
    let reason = format!("it says {:?} instead of \"{FORMAT_WORD} <number>\"", text.chars().take(40).collect::<String>());
    number.map(Some).ok_or(DataDirError::Damaged { path: file, reason })
}

/// A directory without FORMAT may hold nothing but what a start that was cut short leaves.
fn refuse_foreign(path: &Path) -> Result<(), DataDirError> {
    let ours = |name: &String| {
        let name = name.strip_suffix(".new").unwrap_or(name);
        [LOCK_FILE, FORMAT_FILE, INSTANCE_FILE, "lost+found"].contains(&name)
    };
    match entries(path)?.into_iter().find(|name| !ours(name)) {
        Some(found) => Err(DataDirError::Foreign { path: path.to_owned(), found }),
        None => Ok(()),
    }
}

fn entries(path: &Path) -> Result<Vec<String>, DataDirError> {
    let names: io::Result<Vec<String>> =
        fs::read_dir(path).and_then(|all| all.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect());
    names.map_err(failed("cannot list", path))
}

/// What this start is: the epoch after the last one, or the first of a new instance when there is none or it was copied.
fn next_instance(path: &Path) -> Result<(Instance, Option<String>), DataDirError> {
    let inode = fs::metadata(path).map_err(failed("cannot look at", path))?.ino();
    let file = path.join(INSTANCE_FILE);
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Instance { instance: new_id()?, epoch: 1, inode }, None)),
        Err(error) => return Err(failed("cannot read", &file)(error)),
    };
    let last: Instance = serde_json::from_str(&text).map_err(|error| DataDirError::Damaged { path: file, reason: error.to_string() })?;
    let epoch = last.epoch.saturating_add(1);
    if last.inode == inode {
        return Ok((Instance { instance: last.instance, epoch, inode }, None));
    }
    Ok((Instance { instance: new_id()?, epoch, inode }, Some(last.instance)))
}

fn new_id() -> Result<String, DataDirError> {
    let path = Path::new("/dev/urandom");
    let mut bytes = [0; 16];
    File::open(path).and_then(|mut random| random.read_exact(&mut bytes)).map_err(failed("cannot read", path))?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

/// Replaces a file so that a crash leaves the old one or the new one, and the new one once this has returned.
fn write_whole(directory: &Path, name: &str, text: &str) -> Result<(), DataDirError> {
    let (path, draft) = (directory.join(name), directory.join(format!("{name}.new")));
    let write = || {
        let mut file = File::create(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, &path)?;
        File::open(directory)?.sync_all()
    };
    write().map_err(failed("cannot write", &path))
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DataDirError {
    let path = path.to_owned();
    move |error| DataDirError::Io { doing, path, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> tempfile::TempDir {
        tempfile::tempdir().expect("a directory")
    }
    fn refusal(path: &Path) -> String {
        DataDir::open(path).expect_err("refused").to_string()
    }

    #[test]
    fn each_start_has_the_next_epoch_of_the_same_instance() {
        let parent = directory();
        let path = parent.path().join("a/b");
        let first = DataDir::open(&path).expect("opened");
        let id = first.instance.clone();
        assert_eq!((first.epoch, id.len()), (1, 32));
        drop(first);
        for epoch in 2..5 {
            let next = DataDir::open(&path).expect("opened");
            assert_eq!((next.instance.as_str(), next.epoch, next.copied_from.as_ref()), (id.as_str(), epoch, None));
        }
    }

    #[test]
    fn a_second_broker_is_refused_and_told_who_has_it() {
        let parent = directory();
        let held = DataDir::open(parent.path()).expect("opened");
        let told = refusal(parent.path());
        assert!(told.contains("in use by another broker") && told.contains(&format!("process {}", std::process::id())), "{told}");
        assert!(wipe(parent.path()).is_err());
        drop(held);
        assert_eq!(DataDir::open(parent.path()).expect("free again").epoch, 2);
    }

    #[test]
    fn a_newer_format_is_refused_and_nothing_is_changed() {
        let parent = directory();
        drop(DataDir::open(parent.path()).expect("opened"));
        let instance = fs::read(parent.path().join(INSTANCE_FILE)).expect("read");
        fs::write(parent.path().join(FORMAT_FILE), "geminga-data 2\n").expect("written");
        let told = refusal(parent.path());
        assert!(told.contains("format 2") && told.contains("newer Geminga"), "{told}");
        assert_eq!(fs::read(parent.path().join(INSTANCE_FILE)).expect("read"), instance);
    }

    #[test]
    fn an_older_format_is_explained() {
        let parent = directory();
        fs::write(parent.path().join(FORMAT_FILE), "geminga-data 0\n").expect("written");
        let told = refusal(parent.path());
        assert!(told.contains("format 0") && told.contains("does not read"), "{told}");
    }

    #[test]
    fn a_format_file_that_cannot_be_read_is_damage_not_an_empty_directory() {
        let parent = directory();
        for text in ["", "other 1", "geminga-data", "geminga-data one", "geminga-data 99999999999"] {
            fs::write(parent.path().join(FORMAT_FILE), text).expect("written");
            assert!(refusal(parent.path()).contains("damaged"), "{text:?}");
        }
    }

    #[test]
    fn a_directory_with_other_things_in_it_is_left_alone() {
        let parent = directory();
        fs::write(parent.path().join("letter.txt"), "dear").expect("written");
        assert!(refusal(parent.path()).contains("letter.txt"));
        assert!(wipe(parent.path()).expect_err("refused").to_string().contains("letter.txt"));
        assert_eq!(entries(parent.path()).expect("listed"), ["letter.txt"]);
    }

    #[test]
    fn a_first_start_that_was_cut_short_is_begun_again() {
        let parent = directory();
        for left in [LOCK_FILE, "INSTANCE.new", "FORMAT.new"] {
            fs::write(parent.path().join(left), "").expect("written");
        }
        assert_eq!(DataDir::open(parent.path()).expect("opened").epoch, 1);
    }

    #[test]
    fn a_copied_directory_becomes_an_instance_of_its_own() {
        let parent = directory();
        let (from, to) = (parent.path().join("from"), parent.path().join("to"));
        let original = DataDir::open(&from).expect("opened");
        fs::create_dir(&to).expect("created");
        for name in [FORMAT_FILE, INSTANCE_FILE] {
            fs::copy(from.join(name), to.join(name)).expect("copied");
        }
        let copy = DataDir::open(&to).expect("opened");
        assert_eq!((copy.copied_from.as_deref(), copy.epoch), (Some(original.instance.as_str()), 2));
        assert_ne!(copy.instance, original.instance);
        drop(copy);
        assert_eq!(DataDir::open(&to).expect("opened").copied_from, None);
    }

    #[test]
    fn wiping_leaves_an_empty_directory_of_ours() {
        let parent = directory();
        let path = parent.path().join("data");
        wipe(&path).expect("nothing there is fine");
        drop(DataDir::open(&path).expect("opened"));
        fs::create_dir(path.join("log")).expect("created");
        fs::write(path.join("log/1"), "x").expect("written");
        wipe(&path).expect("wiped");
        assert_eq!(entries(&path).expect("listed"), [LOCK_FILE]);
        assert_eq!(DataDir::open(&path).expect("opened").epoch, 1);
    }

    #[test]
    fn endpoints_that_a_killed_broker_left_are_gone_after_the_start() {
        let parent = directory();
        drop(DataDir::open(parent.path()).expect("opened"));
        fs::write(parent.path().join(endpoints::FILE), "{}").expect("written");
        let _held = DataDir::open(parent.path()).expect("opened");
        assert!(!parent.path().join(endpoints::FILE).exists());
    }
}
