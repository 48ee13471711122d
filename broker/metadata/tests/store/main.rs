//! The store seen from outside: what every engine promises, what the file survives, and the rooms of the tree.

mod conformance;
mod crash;
mod file;
mod random;
mod rooms;

extern crate geminga_metadata as metadata;

use std::path::Path;

use metadata::{EmbeddedOptions, EmbeddedStore};

fn open(path: &Path) -> EmbeddedStore {
    EmbeddedStore::open(path, EmbeddedOptions::default()).expect("the store opens")
}
