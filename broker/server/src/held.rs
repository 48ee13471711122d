//! Publishes that topics hold back because their rates are spent: what a connection may have of them before it is not read any more.
//!
//! They wait in their topics and not on the connection, so whatever else comes over it goes on. What they hold is bounded three times: by
//! connection; for all connections of a worker by half of its publish budget, beyond which each may have little; and by that budget.

use topic::ConnectionKey;

use crate::worker::Worker;

/// What a connection may have held when all together have more than they should.
const SCARCE_HELD_BYTES: usize = 64 * 1024;
/// What a held publish takes besides its bytes, about.
const OVERHEAD: usize = 128;

/// Bytes that may be held of one connection's publishes, when `held` are of its worker's, which has `share` for all that is published.
fn held_limit(limit: usize, share: usize, held: usize) -> usize {
    let half = (share / 2).max(1);
    let limit = limit.min(half);
    if held < half { limit } else { limit.min(SCARCE_HELD_BYTES) }
}

impl Worker {
    /// A topic holds a publish back: it does not wait for the disk any more.
    pub(crate) fn publish_held(&mut self, key: ConnectionKey, bytes: u32) {
        let size = bytes as usize + OVERHEAD;
        self.held_publishes += size;
        let Some(connection) = self.connections.get_mut(key.slot, key.generation) else { return };
        connection.held_publishes += size;
        connection.pending_publishes = connection.pending_publishes.saturating_sub(1);
        if !connection.link.is_paused() {
            if self.has_too_much_held(key) {
                self.pause(key);
            }
        } else {
            self.reconsider_pause(key.slot, key.generation);
        }
    }

    /// A publish that was held back waits for the disk now, or is forgotten.
    pub(crate) fn publish_released(&mut self, key: ConnectionKey, bytes: u32) {
        let size = bytes as usize + OVERHEAD;
        self.held_publishes = self.held_publishes.saturating_sub(size);
        if let Some(connection) = self.connections.get_mut(key.slot, key.generation) {
            connection.held_publishes = connection.held_publishes.saturating_sub(size);
            connection.pending_publishes += 1;
        }
    }

    /// Whether a connection is not to be read for what is held of it.
    pub(crate) fn has_too_much_held(&mut self, key: ConnectionKey) -> bool {
        let limit = held_limit(self.shared.settings.held_publish_bytes, self.shares.publish_bytes, self.held_publishes);
        let held = self.connections.get_mut(key.slot, key.generation).map_or(0, |connection| connection.held_publishes);
        held > 0 && held >= limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_connection_gets_its_limit_and_all_together_half_of_the_budget() {
        assert_eq!(held_limit(16 << 20, 64 << 20, 0), 16 << 20);
        assert_eq!(held_limit(16 << 20, 64 << 20, 32 << 20), SCARCE_HELD_BYTES);
        assert_eq!(held_limit(16 << 20, 8 << 20, 0), 4 << 20, "never more than half of the budget");
        assert_eq!(held_limit(16 << 20, 1, 0), 1, "one is always let through");
    }
}
