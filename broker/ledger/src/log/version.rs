//! The file that names a log's directory: its format, its id, and how often it was opened.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::IoSlice;
use std::path::Path;

use crc32c::crc32c;

use super::errors::OpenError;
use super::files::{FileLayer, write_all};
use super::format::{DirectoryId, FORMAT, generation_of};
use super::recovery::failed;
use super::walk::read;

pub(crate) const VERSION: &str = "VERSION";
pub(crate) const VERSION_NEW: &str = "VERSION.new";

/// The file that names the directory: its format, its id and how often it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VersionFile {
    pub(crate) directory: DirectoryId,
    pub(crate) run: u64,
}

/// Why a version file was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionRefused {
    Newer(u32),
    Unreadable,
}

impl VersionFile {
    pub(crate) fn encode(&self) -> String {
        let id = u128::from_be_bytes(self.directory.0);
        let text = format!("geminga-log\nformat {FORMAT}\ndirectory {id:032x}\nrun {}\n", self.run);
        let crc = crc32c(text.as_bytes());
        format!("{text}crc {crc:08x}\n")
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<VersionFile, VersionRefused> {
        let text = std::str::from_utf8(bytes).map_err(|_| VersionRefused::Unreadable)?;
        // The format stands first and is judged first: what follows is only ours to read if we know it.
        let format = field(text, "format ").and_then(|value| value.parse().ok()).ok_or(VersionRefused::Unreadable)?;
        if !text.starts_with("geminga-log\n") {
            return Err(VersionRefused::Unreadable);
        }
        if format > FORMAT {
            return Err(VersionRefused::Newer(format));
        }
        Self::decode_fields(text).ok_or(VersionRefused::Unreadable)
    }

    fn decode_fields(text: &str) -> Option<VersionFile> {
        let covered = text.get(..text.find("crc ")?)?;
        let crc = u32::from_str_radix(field(text, "crc ")?, 16).ok()?;
        let id = u128::from_str_radix(field(text, "directory ")?, 16).ok()?;
        let run = field(text, "run ")?.parse().ok()?;
        (crc == crc32c(covered.as_bytes())).then_some(VersionFile { directory: DirectoryId(id.to_be_bytes()), run })
    }
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name))
}

pub(crate) fn read_version(layer: &dyn FileLayer, dir: &Path, names: &[String]) -> Result<VersionFile, OpenError> {
    let refuse = |reason: &str| OpenError::NotALog { dir: dir.to_owned(), reason: reason.into() };
    if !names.iter().any(|name| name == VERSION) {
        if names.iter().any(|name| generation_of(name).is_some()) {
            return Err(refuse("it has segments but no VERSION file"));
        }
        // A new directory has to survive as well.
        if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            layer.sync_dir(parent).map_err(failed("syncing", parent))?;
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

pub(crate) fn write_version(layer: &dyn FileLayer, dir: &Path, version: VersionFile) -> Result<(), OpenError> {
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
