//! Reading our own source text: the files, and the parts of them that are not tests.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::crates::root;

/// Folders in which nothing is ours, or nothing is written by hand.
const SKIPPED: &[&str] = &["target", ".git", "data", ".cache", "corpus", "vectors"];

/// A text file of the repository.
#[derive(Debug)]
pub(crate) struct Source {
    /// From the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    /// The text before the tests at the end of a file.
    pub(crate) fn product(&self) -> &str {
        let tests = |at: &usize| self.text[*at..].lines().nth(1).is_some_and(|line| line.contains("mod ") && line.ends_with('{'));
        self.text.match_indices("#[cfg(test)]\n").map(|(at, _)| at).find(tests).map_or(&self.text, |end| &self.text[..end])
    }

    /// Whether the whole file is a test.
    pub(crate) fn is_test(&self) -> bool {
        !self.path.starts_with("broker/")
            || self.path.contains("/tests/")
            || self.path.ends_with("/tests.rs")
            || self.path.contains("/examples/")
            || self.path.contains("/sim/")
    }

    /// Its lines without what follows `//`, numbered from 1.
    pub(crate) fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
        text.lines().enumerate().map(|(number, line)| (number + 1, line.split("//").next().unwrap_or_default()))
    }
}

/// All files with this extension.
pub(crate) fn files(extension: &str) -> Vec<Source> {
    let mut found = Vec::new();
    gather(root(), extension, &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!found.is_empty(), "no file ends in .{extension}");
    found
}

fn gather(folder: &Path, extension: &str, found: &mut Vec<Source>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !SKIPPED.contains(&name) && !name.starts_with("target") {
                gather(&path, extension, found);
            }
        } else if path.extension().is_some_and(|end| end == extension) {
            found.push(read(path));
        }
    }
}

fn read(path: PathBuf) -> Source {
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let path = path.strip_prefix(root()).expect("in the repository").to_string_lossy().replace('\\', "/");
    Source { path, text }
}
