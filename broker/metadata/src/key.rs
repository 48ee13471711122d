//! Which paths name nodes, and how a node's path becomes its key.
//!
//! A key is the node's depth in one byte, then its path. So the children of a node lie side by side, in order, and nothing else
//! lies between them: listing the 100,000 topics of a namespace does not step over their cursors.

use std::ops::Range;

use crate::Rejected;

/// Longest path, in bytes.
pub const MAX_PATH: usize = 4096;
/// Deepest path, in components.
pub const MAX_DEPTH: usize = 32;
/// Largest value of a node, in bytes; ZooKeeper's own default limit.
pub const MAX_VALUE: usize = 1024 * 1024;

/// The key of the node at `path`, which was checked.
pub(crate) fn key(path: &str) -> Vec<u8> {
    with_depth(depth(path), path)
}

/// The keys of the direct children of `path`, which was checked or is the root.
pub(crate) fn children(path: &str) -> Range<Vec<u8>> {
    let (depth, stem) = if path == "/" { (1, "") } else { (depth(path) + 1, path) };
    // '0' is the character after '/'.
    with_depth(depth, &format!("{stem}/"))..with_depth(depth, &format!("{stem}0"))
}

/// The path in a key.
pub(crate) fn path_of(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.get(1..)?).ok()
}

/// The last component.
pub(crate) fn name_of(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// The parent, unless that is the root.
pub(crate) fn parent(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(parent, _)| parent).filter(|parent| !parent.is_empty())
}

/// Refuses what cannot name a node.
pub(crate) fn check(path: &str) -> Result<(), Rejected> {
    match fault(path) {
        None => Ok(()),
        Some(reason) => Err(Rejected::BadPath { path: path.to_owned(), reason }),
    }
}

/// Like [`check`], and takes the root too.
pub(crate) fn check_or_root(path: &str) -> Result<(), Rejected> {
    if path == "/" { Ok(()) } else { check(path) }
}

fn fault(path: &str) -> Option<&'static str> {
    let Some(rest) = path.strip_prefix('/') else { return Some("it does not start with /") };
    if rest.is_empty() {
        return Some("the root is not a node");
    }
    if path.len() > MAX_PATH {
        return Some("it is longer than 4096 bytes");
    }
    if depth(path) > MAX_DEPTH {
        return Some("it is deeper than 32 components");
    }
    if path.chars().any(char::is_control) {
        return Some("it has a control character");
    }
    rest.split('/').find_map(|component| match component {
        "" => Some("a component is empty"),
        "." | ".." => Some("a component is . or .."),
        _ => None,
    })
}

fn depth(path: &str) -> usize {
    path.bytes().filter(|byte| *byte == b'/').count()
}

fn with_depth(depth: usize, path: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + path.len());
    key.push(u8::try_from(depth).unwrap_or(u8::MAX));
    key.extend_from_slice(path.as_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_paths_are_told_apart() {
        for (path, word) in
            [("a", "start"), ("/", "root"), ("", "start"), ("/a/", "empty"), ("//a", "empty"), ("/a/../b", ".."), ("/a\n", "control")]
        {
            let Err(Rejected::BadPath { reason, .. }) = check(path) else { panic!("{path:?} was taken") };
            assert!(reason.contains(word), "{path:?}: {reason}");
        }
        assert!(check(&format!("/{}", "x".repeat(MAX_PATH))).is_err());
        assert!(check(&"/x".repeat(MAX_DEPTH + 1)).is_err());
        assert!(check(&"/x".repeat(MAX_DEPTH)).is_ok());
        assert!(check("/a/ü b+c%2F").is_ok());
    }

    #[test]
    fn the_range_of_children_holds_them_and_nothing_else() {
        let range = children("/a");
        for inside in ["/a/b", "/a/ü", "/a/-"] {
            assert!(range.contains(&key(inside)), "{inside}");
        }
        for outside in ["/a", "/a/b/c", "/a-b", "/a0", "/b/c", "/ab/c"] {
            assert!(!range.contains(&key(outside)), "{outside}");
        }
        assert!(children("/").contains(&key("/a")));
        assert!(!children("/").contains(&key("/a/b")));
    }
}
