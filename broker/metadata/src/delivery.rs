//! Calling completions and watchers, and knowing that one is being called.

use std::cell::Cell;

thread_local! {
    static DELIVERING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside a completion or a watcher of a store.
pub(crate) fn on_store_thread() -> bool {
    DELIVERING.get()
}

/// Runs `deliver` marked as such.
pub(crate) fn delivering(deliver: impl FnOnce()) {
    let _unmark = Unmark { before: DELIVERING.replace(true) };
    deliver();
}

// Also when a completion panics, so that the thread is not taken for the store's for ever.
struct Unmark {
    before: bool,
}

impl Drop for Unmark {
    fn drop(&mut self) {
        DELIVERING.set(self.before);
    }
}
