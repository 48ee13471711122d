//! Where an entry is: the ledger it was written to and its number there.

use std::fmt;

/// Names a ledger. Ids grow over the life of a store and have gaps; `-1` stands for "no ledger".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LedgerId(pub i64);

/// An entry's number within its ledger, from 0; `-1` stands for "before the first".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub i64);

impl EntryId {
    /// Before the first entry of a ledger.
    pub const NONE: EntryId = EntryId(-1);

    /// The number after this one.
    #[must_use]
    pub fn next(self) -> EntryId {
        EntryId(self.0 + 1)
    }

    /// The number before this one; the one before 0 is [`EntryId::NONE`].
    #[must_use]
    pub fn previous(self) -> EntryId {
        EntryId(self.0 - 1)
    }
}

/// A ledger and an entry in it. Ordered by ledger first; ledger ids have gaps, so two positions cannot be subtracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The ledger.
    pub ledger: LedgerId,
    /// The entry in it.
    pub entry: EntryId,
}

impl Position {
    /// Before everything a topic holds.
    pub const EARLIEST: Position = Position { ledger: LedgerId(-1), entry: EntryId(-1) };
    /// After everything a topic will ever hold.
    pub const LATEST: Position = Position { ledger: LedgerId(i64::MAX), entry: EntryId(i64::MAX) };

    /// The position of entry `entry` in ledger `ledger`.
    #[must_use]
    pub fn new(ledger: i64, entry: i64) -> Position {
        Position { ledger: LedgerId(ledger), entry: EntryId(entry) }
    }

    /// The following position in the same ledger, whether or not it exists.
    #[must_use]
    pub fn following(self) -> Position {
        Position { ledger: self.ledger, entry: self.entry.next() }
    }
}

impl fmt::Display for LedgerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.ledger.0, self.entry.0)
    }
}
