//! Opening the file, and saying clearly why not.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use redb::{Builder, Database, DatabaseError, StorageError};

use super::EmbeddedOptions;
use crate::OpenError;

pub(super) fn open(path: &Path, options: EmbeddedOptions) -> Result<Database, OpenError> {
    if !path.try_exists().map_err(|error| io_error(path, error))?
        && let Some(database) = create(path, options)?
    {
        return Ok(database);
    }
    let database = builder(options).open(path).map_err(|error| explain(path, error))?;
    remove_stillborn(path).map_err(|error| io_error(path, error))?;
    Ok(database)
}

fn builder(options: EmbeddedOptions) -> Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(options.cache_bytes).set_check_integrity_on_open(options.verify_on_open);
    builder
}

// Under another name until it is whole: killed half way, it must not leave a file that every later start refuses.
// The lock goes with the file, whatever its name. None when another process was faster.
fn create(path: &Path, options: EmbeddedOptions) -> Result<Option<Database>, OpenError> {
    let failed = |error| io_error(path, error);
    let young = young_name(path);
    remove_if_there(&young).map_err(failed)?;
    let database = builder(options).create(&young).map_err(|error| explain(path, error))?;
    match fs::hard_link(&young, path) {
        Ok(()) => remove_if_there(&young).map_err(failed)?,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            drop(database);
            remove_if_there(&young).map_err(failed)?;
            return Ok(None);
        }
        // A file system without links: nothing better than a rename is left.
        Err(_) => fs::rename(&young, path).map_err(failed)?,
    }
    sync_directory(path).map_err(failed)?;
    remove_stillborn(path).map_err(failed)?;
    Ok(Some(database))
}

fn young_name(path: &Path) -> PathBuf {
    let mut name = young_prefix(path);
    name.push(std::process::id().to_string());
    path.with_file_name(name)
}

fn young_prefix(path: &Path) -> OsString {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new-");
    name
}

// What a start that was killed has left; nobody else may be creating, since the file is there and ours.
fn remove_stillborn(path: &Path) -> io::Result<()> {
    let prefix = young_prefix(path);
    for entry in fs::read_dir(directory(path))? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(prefix.as_encoded_bytes()) {
            remove_if_there(&entry.path())?;
        }
    }
    Ok(())
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(directory(path))?.sync_all()
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn explain(path: &Path, error: DatabaseError) -> OpenError {
    let path = path.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch => OpenError::InUse { path },
        DatabaseError::UpgradeRequired(_) => OpenError::Foreign { path, reason: error.to_string() },
        DatabaseError::Storage(StorageError::Io(error)) if error.kind() == ErrorKind::InvalidData => {
            OpenError::Foreign { path, reason: error.to_string() }
        }
        DatabaseError::Storage(StorageError::Io(error)) if error.kind() == ErrorKind::UnexpectedEof => {
            OpenError::Damaged { path, reason: "the file ends too early".into() }
        }
        DatabaseError::Storage(StorageError::Io(error)) => OpenError::Io { path, error },
        other => OpenError::Damaged { path, reason: other.to_string() },
    }
}

pub(super) fn io_error(path: &Path, error: io::Error) -> OpenError {
    OpenError::Io { path: path.to_owned(), error }
}
