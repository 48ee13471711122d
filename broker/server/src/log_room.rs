//! How much of the room for blocks on their way to the log is taken. While none is left, connections that publish are not read.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// Counted when a block is handed over and when its outcome is known, so once per block and never per message.
///
/// The publish budget bounds what the connections of a worker have received; a block is a second copy of it, with a frame
/// around each entry, and blocks of a worker hold what the connections of all workers sent. So they have a bound of their own.
#[derive(Debug)]
pub(crate) struct LogRoom {
    room: usize,
    taken: AtomicUsize,
    /// Workers that stopped connections and want to be told when there is room again.
    waiting: Vec<AtomicBool>,
}

impl LogRoom {
    pub(crate) fn new(room: usize, workers: usize) -> LogRoom {
        LogRoom { room: room.max(1), taken: AtomicUsize::new(0), waiting: (0..workers).map(|_| AtomicBool::new(false)).collect() }
    }

    pub(crate) fn take(&self, bytes: usize) {
        self.taken.fetch_add(bytes, SeqCst);
    }

    /// Gives room back. Returns the workers to be told: only once half of it is free, so that they have something to do then.
    pub(crate) fn give(&self, bytes: usize) -> impl Iterator<Item = u16> + '_ {
        let before = self.taken.fetch_sub(bytes, SeqCst);
        let half = self.room / 2;
        let told = if before > half && before - bytes <= half { self.waiting.as_slice() } else { &[] };
        told.iter().zip(0..).filter(|(waiting, _)| waiting.swap(false, SeqCst)).map(|(_, worker)| worker)
    }

    /// Whether `worker` must wait; it is told when it need not any more.
    pub(crate) fn is_spent(&self, worker: u16) -> bool {
        if self.taken.load(SeqCst) < self.room {
            return false;
        }
        let Some(waiting) = self.waiting.get(usize::from(worker)) else { return false };
        waiting.store(true, SeqCst);
        // Looked at again: room that was given back in between would otherwise be told to nobody.
        self.taken.load(SeqCst) >= self.room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_must_wait_is_told_once_when_half_is_free() {
        let room = LogRoom::new(100, 3);
        room.take(60);
        assert!(!room.is_spent(1));
        room.take(60);
        assert!(room.is_spent(1) && room.is_spent(2));
        assert_eq!(room.give(60).count(), 0);
        assert!(!room.is_spent(0), "there is room for who comes now");
        assert_eq!(room.give(20).collect::<Vec<u16>>(), [1, 2]);
        assert_eq!(room.give(40).count(), 0);
    }

    #[test]
    fn a_block_larger_than_all_room_is_taken() {
        let room = LogRoom::new(0, 1);
        assert!(!room.is_spent(0));
        room.take(1000);
        assert!(room.is_spent(0));
        assert_eq!(room.give(1000).count(), 1);
        assert!(!room.is_spent(0));
    }
}
