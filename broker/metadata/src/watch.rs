//! Watches: who wants to hear of changes, and telling them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::OnChange;

/// Something changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// This node was created, replaced or deleted; read it to know which. Parents created on the way are told as well.
    Changed {
        /// The node.
        path: String,
    },
    /// Changes may have been missed: read everything below the watched prefix again.
    Resync,
}

/// Keeps a watch going; dropping it ends it.
#[derive(Debug)]
#[must_use = "dropping it ends the watch"]
pub struct Watch {
    id: u64,
    watchers: Weak<Watchers>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(watchers) = self.watchers.upgrade() {
            watchers.watchers.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
        }
    }
}

/// All watches of one store.
#[derive(Default)]
pub(crate) struct Watchers {
    watchers: Mutex<HashMap<u64, Arc<Watcher>>>,
    next: AtomicU64,
}

struct Watcher {
    prefix: String,
    on_change: OnChange,
}

impl std::fmt::Debug for Watchers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watchers")
    }
}

impl Watchers {
    pub(crate) fn add(self: &Arc<Self>, prefix: &str, on_change: OnChange) -> Watch {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let watcher = Watcher { prefix: prefix.to_owned(), on_change };
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner).insert(id, Arc::new(watcher));
        Watch { id, watchers: Arc::downgrade(self) }
    }

    /// Tells those that watch `path` or something above it.
    pub(crate) fn changed(&self, path: &str) {
        for watcher in self.select(|watcher| covers(&watcher.prefix, path)) {
            (watcher.on_change)(WatchEvent::Changed { path: path.to_owned() });
        }
    }

    /// Tells everybody to read again.
    pub(crate) fn resync(&self) {
        for watcher in self.select(|_| true) {
            (watcher.on_change)(WatchEvent::Resync);
        }
    }

    // Callbacks run outside the lock: one may add or drop a watch.
    fn select(&self, wanted: impl Fn(&Watcher) -> bool) -> Vec<Arc<Watcher>> {
        let watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.values().filter(|watcher| wanted(watcher)).cloned().collect()
    }
}

fn covers(prefix: &str, path: &str) -> bool {
    prefix == "/" || path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::covers;

    #[test]
    fn a_prefix_ends_at_a_slash() {
        assert!(covers("/a", "/a"));
        assert!(covers("/a", "/a/b"));
        assert!(!covers("/a", "/ab"));
        assert!(covers("/", "/x"));
    }
}
