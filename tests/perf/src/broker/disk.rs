//! Where a broker that is started here keeps its data.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use tempfile::TempDir;

use super::BrokerChoice;

/// Where Linux has memory that looks like a disk.
const TMPFS: &str = "/dev/shm";

/// A fresh directory, gone at the end unless it is to be kept.
pub(super) fn fresh(choice: &BrokerChoice) -> anyhow::Result<TempDir> {
    let below = match (&choice.data_below, choice.tmpfs) {
        (Some(directory), _) => directory.clone(),
        (None, true) => PathBuf::from(TMPFS),
        (None, false) => std::env::temp_dir(),
    };
    if choice.tmpfs && file_system(&below) != "tmpfs" {
        anyhow::bail!("{TMPFS} is not a tmpfs on this machine: mount one and give it by --data-below");
    }
    fs::create_dir_all(&below).with_context(|| format!("{} cannot be made", below.display()))?;
    let mut directory = tempfile::Builder::new()
        .prefix("geminga-perf-")
        .tempdir_in(&below)
        .with_context(|| format!("no directory can be made below {}", below.display()))?;
    directory.disable_cleanup(choice.keep_data);
    Ok(directory)
}

/// The file system that a path is on, by the kernel's name for it; `unknown` when it does not tell.
pub(super) fn file_system(path: &Path) -> String {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    of_mounts(&mounts, &path).unwrap_or("unknown").to_owned()
}

fn of_mounts<'a>(mounts: &'a str, path: &Path) -> Option<&'a str> {
    let entry = |line: &'a str| {
        let mut fields = line.split_whitespace();
        let (_, at, kind) = (fields.next()?, fields.next()?, fields.next()?);
        path.starts_with(at).then_some((at.len(), kind))
    };
    // Of mounts on one another the last counts; max_by_key keeps the last of equals.
    mounts.lines().filter_map(entry).max_by_key(|(depth, _)| *depth).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_mount_counts() {
        let mounts = "/dev/vda / ext4 rw 0 0\ntmpfs /dev/shm tmpfs rw 0 0\n/dev/vdb /data xfs rw 0 0\n";
        assert_eq!(of_mounts(mounts, Path::new("/dev/shm/x")), Some("tmpfs"));
        assert_eq!(of_mounts(mounts, Path::new("/database")), Some("ext4"));
        assert_eq!(of_mounts("", Path::new("/x")), None);
    }
}
