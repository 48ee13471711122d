//! What a policy is told, as columns of plain numbers: a list of rows costs a component tens of nanoseconds a row, columns one or two.

/// One thing that happened. Ranges of entries are half-open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the doc of a variant tells its fields")]
pub enum Event {
    /// Entries of one page were published and are now held; so many cursors are expected to read them.
    Published { topic: u32, first: u64, until: u64, bytes: u64, expected: u32 },
    /// Entries of one page were read from storage and are now held; so many cursors were expected to read them, the one that has just
    /// done so among them.
    Loaded { topic: u32, first: u64, until: u64, bytes: u64, expected: u32 },
    /// Entries of one page are no longer held: trimmed, cleared, or evicted by someone else. So many of the page are left.
    Removed { topic: u32, first: u64, until: u64, bytes: u64, left: u32 },
    /// A cursor is there, reads next at `at`, and has everything below `mark_delete` behind it. Active: somebody reads by it.
    Cursor { topic: u32, cursor: u32, at: u64, mark_delete: u64, active: bool },
    /// A cursor reads next at `at`: it read on, or it was set.
    Moved { topic: u32, cursor: u32, at: u64 },
    /// A cursor has everything below `at` behind it.
    MarkDeleted { topic: u32, cursor: u32, at: u64 },
    /// A cursor was deleted.
    CursorGone { topic: u32, cursor: u32 },
    /// A cursor was served these entries from the cache.
    Read { topic: u32, cursor: u32, first: u64, until: u64 },
    /// A cursor asked for these entries in vain.
    Missed { topic: u32, cursor: u32, first: u64, until: u64 },
    /// A cursor will read these again: negatively acked, timed out, or read and not deliverable yet.
    Replayed { topic: u32, cursor: u32, first: u64, until: u64 },
    /// A cursor will not read these again.
    ReplayDone { topic: u32, cursor: u32, first: u64, until: u64 },
    /// A topic is gone, its cursors with it; its pages were removed before.
    Closed { topic: u32 },
}

/// What a row is, in the first column. Numbers are never given again.
mod kind {
    pub(super) const PUBLISHED: u8 = 0;
    pub(super) const LOADED: u8 = 1;
    pub(super) const REMOVED: u8 = 2;
    pub(super) const ACTIVE: u8 = 3;
    pub(super) const IDLE: u8 = 4;
    pub(super) const MOVED: u8 = 5;
    pub(super) const MARK_DELETED: u8 = 6;
    pub(super) const CURSOR_GONE: u8 = 7;
    pub(super) const READ: u8 = 8;
    pub(super) const MISSED: u8 = 9;
    pub(super) const REPLAYED: u8 = 10;
    pub(super) const REPLAY_DONE: u8 = 11;
    pub(super) const CLOSED: u8 = 12;
}

/// A batch of events at one moment. All columns have the same length; what a kind has no use for is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Milliseconds of a clock that only grows.
    pub now: u64,
    /// What the row is: 0 published, 1 loaded, 2 removed, 3 active cursor, 4 idle cursor, 5 moved, 6 mark-deleted, 7 cursor gone, 8 read,
    /// 9 missed, 10 replayed, 11 replay done, 12 topic closed. A policy skips kinds that it does not know.
    pub kinds: Vec<u8>,
    /// The topic.
    pub topics: Vec<u32>,
    /// The cursor; numbers are dense within a topic.
    pub cursors: Vec<u32>,
    /// The first entry, or a cursor's position.
    pub firsts: Vec<u64>,
    /// The entry after the last, or a cursor's mark-delete position.
    pub untils: Vec<u64>,
    /// Bytes.
    pub bytes: Vec<u64>,
    /// Expected reads, or entries left.
    pub counts: Vec<u32>,
}

impl Events {
    /// Adds a row.
    pub fn push(&mut self, event: Event) {
        use Event as E;
        match event {
            E::Published { topic, first, until, bytes, expected } => {
                self.row(kind::PUBLISHED, (topic, 0), (first, until), (bytes, expected));
            }
            E::Loaded { topic, first, until, bytes, expected } => self.row(kind::LOADED, (topic, 0), (first, until), (bytes, expected)),
            E::Removed { topic, first, until, bytes, left } => self.row(kind::REMOVED, (topic, 0), (first, until), (bytes, left)),
            E::Cursor { topic, cursor, at, mark_delete, active } => {
                self.row(if active { kind::ACTIVE } else { kind::IDLE }, (topic, cursor), (at, mark_delete), (0, 0));
            }
            E::Moved { topic, cursor, at } => self.row(kind::MOVED, (topic, cursor), (at, 0), (0, 0)),
            E::MarkDeleted { topic, cursor, at } => self.row(kind::MARK_DELETED, (topic, cursor), (at, 0), (0, 0)),
            E::CursorGone { topic, cursor } => self.row(kind::CURSOR_GONE, (topic, cursor), (0, 0), (0, 0)),
            E::Read { topic, cursor, first, until } => self.row(kind::READ, (topic, cursor), (first, until), (0, 0)),
            E::Missed { topic, cursor, first, until } => self.row(kind::MISSED, (topic, cursor), (first, until), (0, 0)),
            E::Replayed { topic, cursor, first, until } => self.row(kind::REPLAYED, (topic, cursor), (first, until), (0, 0)),
            E::ReplayDone { topic, cursor, first, until } => self.row(kind::REPLAY_DONE, (topic, cursor), (first, until), (0, 0)),
            E::Closed { topic } => self.row(kind::CLOSED, (topic, 0), (0, 0), (0, 0)),
        }
    }

    /// The rows in order. Kinds of a later version are skipped, and so is what lies beyond the shortest column.
    pub fn iter(&self) -> impl Iterator<Item = Event> {
        let whom = self.topics.iter().zip(&self.cursors);
        let ranges = self.firsts.iter().zip(&self.untils);
        let amounts = self.bytes.iter().zip(&self.counts);
        self.kinds.iter().zip(whom).zip(ranges).zip(amounts).filter_map(
            |(((&kind, (&topic, &cursor)), (&first, &until)), (&bytes, &count))| {
                Some(match kind {
                    kind::PUBLISHED => Event::Published { topic, first, until, bytes, expected: count },
                    kind::LOADED => Event::Loaded { topic, first, until, bytes, expected: count },
                    kind::REMOVED => Event::Removed { topic, first, until, bytes, left: count },
                    kind::ACTIVE => Event::Cursor { topic, cursor, at: first, mark_delete: until, active: true },
                    kind::IDLE => Event::Cursor { topic, cursor, at: first, mark_delete: until, active: false },
                    kind::MOVED => Event::Moved { topic, cursor, at: first },
                    kind::MARK_DELETED => Event::MarkDeleted { topic, cursor, at: first },
                    kind::CURSOR_GONE => Event::CursorGone { topic, cursor },
                    kind::READ => Event::Read { topic, cursor, first, until },
                    kind::MISSED => Event::Missed { topic, cursor, first, until },
                    kind::REPLAYED => Event::Replayed { topic, cursor, first, until },
                    kind::REPLAY_DONE => Event::ReplayDone { topic, cursor, first, until },
                    kind::CLOSED => Event::Closed { topic },
                    _ => return None,
                })
            },
        )
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether nothing happened.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Takes all rows out and keeps the room.
    pub fn clear(&mut self) {
        self.kinds.clear();
        self.topics.clear();
        self.cursors.clear();
        self.firsts.clear();
        self.untils.clear();
        self.bytes.clear();
        self.counts.clear();
    }

    fn row(&mut self, kind: u8, whom: (u32, u32), range: (u64, u64), amounts: (u64, u32)) {
        self.kinds.push(kind);
        self.topics.push(whom.0);
        self.cursors.push(whom.1);
        self.firsts.push(range.0);
        self.untils.push(range.1);
        self.bytes.push(amounts.0);
        self.counts.push(amounts.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_out_as_they_went_in_and_kinds_of_tomorrow_are_skipped() {
        let rows = [
            Event::Published { topic: 1, first: 2, until: 3, bytes: 4, expected: 5 },
            Event::Loaded { topic: 1, first: 2, until: 3, bytes: 4, expected: 5 },
            Event::Removed { topic: 1, first: 2, until: 3, bytes: 4, left: 5 },
            Event::Cursor { topic: 1, cursor: 2, at: 3, mark_delete: 4, active: true },
            Event::Cursor { topic: 1, cursor: 2, at: 3, mark_delete: 4, active: false },
            Event::Moved { topic: 1, cursor: 2, at: 3 },
            Event::MarkDeleted { topic: 1, cursor: 2, at: 3 },
            Event::CursorGone { topic: 1, cursor: 2 },
            Event::Read { topic: 1, cursor: 2, first: 3, until: 4 },
            Event::Missed { topic: 1, cursor: 2, first: 3, until: 4 },
            Event::Replayed { topic: 1, cursor: 2, first: 3, until: 4 },
            Event::ReplayDone { topic: 1, cursor: 2, first: 3, until: 4 },
            Event::Closed { topic: 1 },
        ];
        let mut events = Events::default();
        rows.into_iter().for_each(|row| events.push(row));
        events.row(200, (1, 1), (1, 1), (1, 1));
        assert_eq!(events.iter().collect::<Vec<_>>(), rows);
        events.topics.truncate(3);
        assert_eq!(events.iter().count(), 3);
        events.clear();
        assert!(events.is_empty());
    }
}
