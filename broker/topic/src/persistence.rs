//! How a durable cursor is kept: states go to a cursor ledger, the last one counts; the cursor's record says which ledger, or
//! holds the state itself after a clean unload and when a cursor ledger cannot be had.
//!
//! What is written is never ahead of what was acked, so after a crash an acked message may come again, but none is jumped over.

use ledger::{Cursor, CursorState, LedgerId, Position, Purpose, StoreError};

use crate::compaction::COMPACTION_CURSOR;
use crate::effect::Change;
use crate::errand::{Errand, SubscriptionIndex};
use crate::lent::Lent;
use crate::{Effect, StoredCursor, TopicSettings, Turn};

/// Up to this many ranges a clean unload puts the state into the record.
const RANGES_IN_RECORD: usize = 1_000;

/// The stored side of one durable cursor.
#[derive(Debug)]
pub(crate) struct Persistence {
    subscription: String,
    properties: Vec<(String, String)>,
    index: SubscriptionIndex,
    version: i64,
    /// The cursor ledger that takes states.
    ledger: Option<CursorLedger>,
    /// Cursor ledgers to delete once a newer state is recorded.
    stale: Vec<LedgerId>,
    step: Step,
    /// The revision that is durable.
    written: u64,
    last_write_ms: Option<u64>,
    urgent: bool,
    closing: bool,
    /// Whether what is noted on the subscription changed since the record was written.
    noted: bool,
    /// Whether states always go to the record, which then tells all there is to know: of a cursor that names a ledger nobody may take
    /// for an orphan.
    in_record: bool,
}

#[derive(Clone, Copy, Debug)]
struct CursorLedger {
    id: LedgerId,
    next: i64,
    /// Whether the record names it.
    recorded: bool,
}

/// What is under way; one thing at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Idle,
    CreatingLedger,
    Appending { revision: u64 },
    Recording { revision: u64 },
    Deleting,
}

impl Persistence {
    /// Of a cursor that was loaded.
    pub(crate) fn loaded(stored: StoredCursor, index: SubscriptionIndex, cursor: &Cursor) -> Persistence {
        let in_record = stored.subscription == COMPACTION_CURSOR;
        Persistence {
            subscription: stored.subscription,
            properties: stored.properties,
            index,
            version: stored.version,
            ledger: None,
            stale: stored.ledger.into_iter().collect(),
            step: Step::Idle,
            written: cursor.revision(),
            last_write_ms: None,
            urgent: false,
            closing: false,
            noted: false,
            in_record,
        }
    }

    /// Of a new cursor: asks for its first record.
    pub(crate) fn create(
        subscription: String,
        properties: Vec<(String, String)>,
        index: SubscriptionIndex,
        cursor: &Cursor,
        lent: &mut Lent<'_>,
        turn: &mut Turn<'_>,
    ) -> Persistence {
        let stored = StoredCursor { subscription, state: cursor.state(0, 0), version: -1, ledger: None, properties };
        let bytes = Cursor::encode_record(&stored.state, None, &stored.properties, turn.now.wall_ms);
        let change = Change::CreateCursor { subscription: stored.subscription.clone(), bytes };
        let mut persistence = Persistence::loaded(stored, index, cursor);
        persistence.step = Step::Recording { revision: persistence.written };
        turn.out.push(Effect::Change { tag: lent.errands.begin(Errand::NewCursor(index)), change });
        persistence
    }

    pub(crate) fn properties(&self) -> &[(String, String)] {
        &self.properties
    }

    /// Whether everything acked so far is durable, and nothing is under way.
    pub(crate) fn is_settled(&self, cursor: &Cursor) -> bool {
        self.step == Step::Idle && self.written == cursor.revision() && !self.noted && !(self.closing && self.wants_record(cursor))
    }

    /// When a dirty cursor wants to be written.
    pub(crate) fn deadline(&self, cursor: &Cursor, settings: &TopicSettings) -> Option<u64> {
        if self.step == Step::Idle && self.noted {
            return Some(0);
        }
        if self.step != Step::Idle || self.written == cursor.revision() {
            return None;
        }
        Some(self.last_write_ms.map_or(0, |last| last + interval_ms(settings)))
    }

    /// Writes the state if it changed and the rate allows.
    pub(crate) fn poll(&mut self, cursor: &Cursor, lent: &mut Lent<'_>, turn: &mut Turn<'_>) {
        if self.step != Step::Idle {
            return;
        }
        let dirty = self.written != cursor.revision();
        let due = self.last_write_ms.is_none_or(|last| last + interval_ms(lent.settings) <= turn.now.monotonic_ms);
        if dirty && (due || self.urgent || self.closing) || self.noted || (self.closing && self.wants_record(cursor)) {
            self.write(cursor, lent, turn);
        }
    }

    /// Replaces what is noted on the subscription and has it recorded.
    pub(crate) fn note(&mut self, properties: Vec<(String, String)>, cursor: &Cursor, lent: &mut Lent<'_>, turn: &mut Turn<'_>) {
        self.properties = properties;
        self.noted = true;
        self.poll(cursor, lent, turn);
    }

    /// Writes the state as soon as possible, whatever the rate.
    pub(crate) fn hurry(&mut self, cursor: &Cursor, lent: &mut Lent<'_>, turn: &mut Turn<'_>) {
        self.urgent = true;
        self.poll(cursor, lent, turn);
    }

    /// The topic is being unloaded: writes what is not written, so that the next load finds all of it.
    pub(crate) fn close(&mut self, cursor: &Cursor, lent: &mut Lent<'_>, turn: &mut Turn<'_>) {
        self.closing = true;
        self.poll(cursor, lent, turn);
    }

    /// Asks for the record to be removed; false while something else is under way.
    pub(crate) fn delete(&mut self, lent: &mut Lent<'_>, turn: &mut Turn<'_>) -> bool {
        if self.step != Step::Idle {
            return self.step == Step::Deleting;
        }
        self.step = Step::Deleting;
        let change = Change::DeleteCursor { subscription: self.subscription.clone(), expected: self.version };
        turn.out.push(Effect::Change { tag: lent.errands.begin(Errand::GoneCursor(self.index)), change });
        true
    }

    /// The record is gone: so may its ledgers be.
    pub(crate) fn deleted(&mut self, turn: &mut Turn<'_>) {
        self.stale.extend(self.ledger.take().map(|ledger| ledger.id));
        self.delete_stale(turn);
    }

    pub(crate) fn ledger_created(
        &mut self,
        outcome: Result<LedgerId, StoreError>,
        cursor: &Cursor,
        lent: &mut Lent<'_>,
        turn: &mut Turn<'_>,
    ) {
        match outcome {
            Ok(id) => {
                self.ledger = Some(CursorLedger { id, next: 0, recorded: false });
                self.append(id, 0, cursor, lent, turn);
            }
            Err(error) => self.fall_back(&error, cursor, lent, turn),
        }
    }

    pub(crate) fn appended(&mut self, outcome: Result<(), StoreError>, cursor: &Cursor, lent: &mut Lent<'_>, turn: &mut Turn<'_>) {
        let Step::Appending { revision } = self.step else { return };
        self.step = Step::Idle;
        match (outcome, &mut self.ledger) {
            (Ok(()), Some(ledger)) => {
                ledger.next += 1;
                if ledger.recorded {
                    self.written = revision;
                } else {
                    let id = ledger.id;
                    self.record(&cursor.state(0, 0), Some(id), revision, lent, turn);
                }
            }
            (Err(error), _) => self.fall_back(&error, cursor, lent, turn),
            (Ok(()), None) => {}
        }
    }

    /// The record was written under a new version.
    pub(crate) fn recorded(&mut self, version: i64, turn: &mut Turn<'_>) {
        let Step::Recording { revision } = self.step else { return };
        self.step = Step::Idle;
        self.version = version;
        self.written = revision;
        if let Some(ledger) = &mut self.ledger {
            ledger.recorded = true;
        }
        self.delete_stale(turn);
    }

    fn write(&mut self, cursor: &Cursor, lent: &mut Lent<'_>, turn: &mut Turn<'_>) {
        self.last_write_ms = Some(turn.now.monotonic_ms);
        self.urgent = false;
        if (self.closing && cursor.ranges() <= RANGES_IN_RECORD) || self.in_record {
            return self.record_state(cursor, lent, turn);
        }
        if self.noted {
            return match self.ledger {
                // The state stays where it is.
                Some(ledger) if ledger.recorded => self.record(&cursor.state(0, 0), Some(ledger.id), self.written, lent, turn),
                _ => self.record_state(cursor, lent, turn),
            };
        }
        match self.ledger {
            Some(ledger) if ledger.next < i64::try_from(lent.settings.cursor_ledger_max_entries).unwrap_or(i64::MAX) => {
                self.append(ledger.id, ledger.next, cursor, lent, turn);
            }
            _ => {
                self.stale.extend(self.ledger.take().map(|full| full.id));
                self.step = Step::CreatingLedger;
                let tag = lent.errands.begin(Errand::CursorLedger(self.index));
                turn.out.push(Effect::CreateLedger { tag, purpose: Purpose::Cursor });
            }
        }
    }

    fn append(&mut self, ledger: LedgerId, entry: i64, cursor: &Cursor, lent: &mut Lent<'_>, turn: &mut Turn<'_>) {
        self.step = Step::Appending { revision: cursor.revision() };
        let bytes = Cursor::encode_position(&whole_state(cursor, lent));
        let tag = lent.errands.begin(Errand::CursorState(self.index));
        turn.out.push(Effect::AppendCursor { tag, at: Position { ledger, entry: ledger::EntryId(entry) }, bytes });
    }

    fn fall_back(&mut self, error: &StoreError, cursor: &Cursor, lent: &mut Lent<'_>, turn: &mut Turn<'_>) {
        let message = format!("the cursor of '{}' goes to its record, its ledger failed: {error}", self.subscription);
        turn.out.push(Effect::Report { message });
        self.record_state(cursor, lent, turn);
    }

    /// Puts the state into the record itself; a cursor ledger is no longer needed then.
    fn record_state(&mut self, cursor: &Cursor, lent: &mut Lent<'_>, turn: &mut Turn<'_>) {
        self.stale.extend(self.ledger.take().map(|ledger| ledger.id));
        let state = whole_state(cursor, lent);
        self.record(&state, None, cursor.revision(), lent, turn);
    }

    fn record(&mut self, state: &CursorState, ledger: Option<LedgerId>, revision: u64, lent: &mut Lent<'_>, turn: &mut Turn<'_>) {
        self.step = Step::Recording { revision };
        self.noted = false;
        let bytes = Cursor::encode_record(state, ledger, &self.properties, turn.now.wall_ms);
        let change = Change::Cursor { subscription: self.subscription.clone(), bytes, expected: self.version };
        turn.out.push(Effect::Change { tag: lent.errands.begin(Errand::CursorRecord(self.index)), change });
    }

    /// Whether a clean unload still has to move the state from the cursor ledger into the record.
    fn wants_record(&self, cursor: &Cursor) -> bool {
        self.ledger.is_some() && cursor.ranges() <= RANGES_IN_RECORD
    }

    fn delete_stale(&mut self, turn: &mut Turn<'_>) {
        if !self.stale.is_empty() {
            turn.out.push(Effect::DeleteLedgers(std::mem::take(&mut self.stale)));
        }
    }
}

/// What is to be found again after a restart, as far as the limits allow.
fn whole_state(cursor: &Cursor, lent: &Lent<'_>) -> CursorState {
    let batches = if lent.faults.batch_bits_not_written { 0 } else { lent.settings.max_batches };
    cursor.state(lent.settings.max_ranges, batches)
}

/// The least time between two states of one cursor.
fn interval_ms(settings: &TopicSettings) -> u64 {
    if settings.mark_delete_rate <= 0.0 {
        return 0;
    }
    let interval = (1_000.0 / settings.mark_delete_rate).min(1e12);
    (interval as u64).min(settings.cursor_flush_ms)
}
