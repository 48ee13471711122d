//! A disk that fails: what the store says then, and ever after.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::{io, path::Path};

use redb::backends::InMemoryBackend;
use redb::{Database, StorageBackend};

use super::{EmbeddedOptions, EmbeddedStore};
use crate::Expected::Any;
use crate::{MetadataError, MetadataStore, Transaction, WatchEvent};

#[derive(Debug)]
struct FailingDisk {
    disk: InMemoryBackend,
    broken: Arc<AtomicBool>,
}

impl StorageBackend for FailingDisk {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        if self.broken.load(Ordering::SeqCst) { Err(io::Error::other("the disk is gone")) } else { self.disk.sync_data() }
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.write(offset, data)
    }
}

#[test]
fn after_a_failed_commit_everything_is_unknown() {
    let broken = Arc::new(AtomicBool::new(false));
    let disk = FailingDisk { disk: InMemoryBackend::new(), broken: Arc::clone(&broken) };
    let database = Database::builder().create_with_backend(disk).expect("a database");
    let store = EmbeddedStore::start(database, EmbeddedOptions::default(), Path::new("in memory")).expect("a store");
    let (hear, heard) = mpsc::channel();
    let _watch = store.watch("/", Box::new(move |event| drop(hear.send(event)))).expect("a watch");
    store.put("/before", b"", Any).expect("a healthy disk");
    assert_eq!(heard.try_iter().count(), 1);

    // A refusal in the failed group rests on a write that may never have been: it is unknown as well.
    let (go, wait) = mpsc::channel::<()>();
    store.submit(Transaction::new(), Box::new(move |_| wait.recv().expect("the test goes on")));
    let (tell, told) = mpsc::channel();
    for transaction in [Transaction::new().put("/x", b"", Any), Transaction::new().check("/x", crate::Expected::Absent)] {
        let tell = tell.clone();
        store.submit(transaction, Box::new(move |outcome| drop(tell.send(outcome))));
    }
    broken.store(true, Ordering::SeqCst);
    go.send(()).expect("the writer waits");
    for outcome in told.iter().take(2) {
        let Err(MetadataError::Unknown(reason)) = &outcome else { panic!("{outcome:?}") };
        assert!(reason.contains("the disk is gone"), "{reason}");
    }
    assert_eq!(heard.recv(), Ok(WatchEvent::Resync));

    broken.store(false, Ordering::SeqCst);
    let unknown = |error: MetadataError| assert!(matches!(error, MetadataError::Unknown(_)), "{error}");
    unknown(store.put("/after", b"", Any).expect_err("poisoned"));
    unknown(store.commit(Transaction::new()).expect_err("poisoned"));
    unknown(store.get("/before").expect_err("poisoned"));
    unknown(store.children("/").expect_err("poisoned"));
    unknown(store.sequence("/counters/x").expect_err("poisoned"));
    assert_eq!(heard.try_iter().count(), 0, "told once");
}
