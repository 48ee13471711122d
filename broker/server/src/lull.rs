//! Connections that a busy loop does not read for a few milliseconds: what consumers say while they have permits to spare are
//! acknowledgements, which are read together as well as one by one.

use std::collections::VecDeque;
use std::rc::Rc;

use topic::ConnectionKey;

use crate::connection::Link;
use crate::worker::Worker;

/// How long a lull is, in milliseconds.
const LULL_MS: u64 = 5;
/// A connection whose last read brought more than this is read as soon as there is more.
const LITTLE: usize = 512;
/// A consumer with fewer permits than this may soon have none: its connection is read at once.
const FEW_PERMITS: i64 = 256;

/// The lulls of one worker's connections, in the order they end.
#[derive(Debug, Default)]
pub(crate) struct Lulls(VecDeque<(u64, Rc<Link>)>);

impl Lulls {
    /// When the next one ends.
    pub(crate) fn next(&self) -> Option<u64> {
        self.0.front().map(|(at, _)| *at)
    }
}

impl Worker {
    /// A connection was read: it may be one that need not be read again for a while.
    pub(crate) fn consider_lull(&mut self, key: ConnectionKey, read: usize) {
        if read > LITTLE || !self.gather.is_busy() {
            return;
        }
        let Some(connection) = self.connections.get_mut(key.slot, key.generation) else { return };
        if connection.producers.is_empty() && !connection.consumers.is_empty() && !connection.needs_permits {
            connection.link.begin_lull();
            self.lulls.0.push_back((self.now.monotonic_ms + LULL_MS, connection.link.clone()));
        }
    }

    /// Reads on where a lull is over.
    pub(crate) fn end_lulls(&mut self) {
        let now = self.now.monotonic_ms;
        while let Some((_, link)) = self.lulls.0.pop_front_if(|(at, _)| *at <= now) {
            link.end_lull();
        }
    }
}

/// Whether a consumer with so many permits left is about to need more.
pub(crate) fn are_few(permits: i64) -> bool {
    permits < FEW_PERMITS
}
