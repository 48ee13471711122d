//! What the topic has asked of storage and metadata and not heard back about.

use std::collections::HashMap;

use ledger::Position;

use crate::{ConnectionKey, Tag};

/// A subscription's index in its topic.
pub(crate) type SubscriptionIndex = usize;

/// Why something was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Errand {
    /// The ledger that appends go to after a rollover.
    NextLedger,
    /// The list of ledgers.
    LedgerList,
    /// Entries to dispatch.
    Read(SubscriptionIndex),
    /// An entry whose publish time a search wants.
    Probe(SubscriptionIndex),
    /// An entry that may be too old to be kept.
    ExpiryProbe,
    /// An entry whose publish time a search of an administrator's wants.
    Finding(usize),
    /// A compaction.
    Compaction,
    /// The last entry that a compaction left, for its batch size.
    LastCompacted {
        /// Who asked.
        to: ConnectionKey,
        /// The request to answer.
        request: u64,
        /// The asking consumer's mark-delete position.
        mark_delete: Position,
    },
    /// The oldest entry that waits, for its publish time.
    QuotaProbe,
    /// A ledger for a cursor's states.
    CursorLedger(SubscriptionIndex),
    /// A cursor's state.
    CursorState(SubscriptionIndex),
    /// A cursor's record.
    CursorRecord(SubscriptionIndex),
    /// The first record of a new cursor.
    NewCursor(SubscriptionIndex),
    /// The removal of a cursor's record.
    GoneCursor(SubscriptionIndex),
    /// The newest entry, for its batch size.
    LastMessage {
        /// Who asked.
        to: ConnectionKey,
        /// The request to answer.
        request: u64,
        /// The asking consumer's mark-delete position.
        mark_delete: Position,
    },
}

impl Errand {
    fn subscription(self) -> Option<SubscriptionIndex> {
        match self {
            Errand::Read(index)
            | Errand::Probe(index)
            | Errand::CursorLedger(index)
            | Errand::CursorState(index)
            | Errand::CursorRecord(index)
            | Errand::NewCursor(index)
            | Errand::GoneCursor(index) => Some(index),
            Errand::NextLedger
            | Errand::LedgerList
            | Errand::ExpiryProbe
            | Errand::QuotaProbe
            | Errand::Finding(_)
            | Errand::Compaction
            | Errand::LastCompacted { .. }
            | Errand::LastMessage { .. } => None,
        }
    }

    /// Whether nobody needs to wait for it: a read, or a compaction that the next owner begins anew.
    fn may_be_left(self) -> bool {
        matches!(
            self,
            Errand::Read(_)
                | Errand::Probe(_)
                | Errand::ExpiryProbe
                | Errand::QuotaProbe
                | Errand::Finding(_)
                | Errand::Compaction
                | Errand::LastCompacted { .. }
                | Errand::LastMessage { .. }
        )
    }
}

/// The open errands by tag. A tag is never used twice.
#[derive(Debug, Default)]
pub(crate) struct Errands {
    next: u64,
    open: HashMap<Tag, Errand>,
}

impl Errands {
    pub(crate) fn begin(&mut self, errand: Errand) -> Tag {
        let tag = Tag(self.next);
        self.next += 1;
        self.open.insert(tag, errand);
        tag
    }

    /// The errand that is done; none if nobody waits for it any more.
    pub(crate) fn finish(&mut self, tag: Tag) -> Option<Errand> {
        self.open.remove(&tag)
    }

    /// A subscription is gone: its index may be used again, its answers must not reach the next one.
    pub(crate) fn forget(&mut self, index: SubscriptionIndex) {
        self.open.retain(|_, errand| errand.subscription() != Some(index));
    }

    /// Whether nothing is open that has to be waited for.
    pub(crate) fn nothing_to_write(&self) -> bool {
        self.open.values().all(|errand| errand.may_be_left())
    }

    /// Takes the open questions for the newest message.
    pub(crate) fn take_last_message(&mut self) -> Vec<(ConnectionKey, u64)> {
        let asked = |errand: &Errand| match *errand {
            Errand::LastMessage { to, request, .. } | Errand::LastCompacted { to, request, .. } => Some((to, request)),
            _ => None,
        };
        let questions = self.open.values().filter_map(asked).collect();
        self.open.retain(|_, errand| asked(errand).is_none());
        questions
    }
}
