//! The topic's chain of ledgers as it changes: rollover, trimming, and one recorded list at a time.

use std::collections::VecDeque;

use ledger::{LedgerId, LedgerState, ManagedLedger, Position, Purpose, Retention, StoreError};

use crate::effect::Change;
use crate::errand::{Errand, Errands};
use crate::lent::BackOff;
use crate::{Effect, TopicSettings, Turn};

/// The chain and what is being done to it.
#[derive(Debug)]
pub(crate) struct Ledgers {
    pub(crate) chain: ManagedLedger,
    version: i64,
    rollover: Rollover,
    /// Ledgers that the list being recorded no longer has; deleted when it is.
    recording: Option<VecDeque<LedgerId>>,
    properties: Revisions,
    ending: Ending,
    trim_wanted: bool,
    check_at: u64,
    creation: BackOff,
}

/// How often the topic's properties were changed, by now, in the list being recorded, and in the recorded one.
#[derive(Clone, Copy, Debug, Default)]
struct Revisions {
    now: u64,
    recording: u64,
    recorded: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rollover {
    No,
    /// The next ledger is being created.
    Creating,
    /// It exists; appends to the current one are still under way, or another list is being recorded.
    Created(LedgerId),
    /// The list with it is being recorded; the old ledger can be sealed then.
    Recording(LedgerId),
}

/// How far the chain is with being ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    No,
    /// Appends are still under way, or another list is being recorded.
    Wanted,
    /// The list with the end is being recorded; this ledger, the last one, can be sealed then.
    Recording(LedgerId),
}

/// What a recorded list brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// Appends go on in a new ledger.
    RolledOver,
    /// Ledgers are gone.
    Trimmed,
    /// Nothing is appended any more.
    Ended,
}

impl Ledgers {
    pub(crate) fn new(chain: ManagedLedger, version: i64, check_at: u64) -> Ledgers {
        Ledgers {
            chain,
            version,
            rollover: Rollover::No,
            recording: None,
            properties: Revisions::default(),
            ending: Ending::No,
            trim_wanted: true,
            check_at,
            creation: BackOff::default(),
        }
    }

    /// Begins a rollover if the current ledger is full.
    pub(crate) fn roll_if_full(&mut self, errands: &mut Errands, turn: &mut Turn<'_>) {
        if self.rollover == Rollover::No && !self.creation.is_waiting() && self.chain.is_full(turn.now.wall_ms) {
            self.chain.begin_rollover();
            self.rollover = Rollover::Creating;
            turn.out.push(Effect::CreateLedger { tag: errands.begin(Errand::NextLedger), purpose: Purpose::Data });
        }
    }

    /// The next ledger is there, or not: then appends go on in the current one, and creation is tried again later.
    pub(crate) fn created(&mut self, outcome: Result<LedgerId, StoreError>, errands: &mut Errands, turn: &mut Turn<'_>) {
        match outcome {
            Ok(next) if self.ending != Ending::No || self.chain.state() == LedgerState::Terminated => {
                self.rollover = Rollover::No;
                turn.out.push(Effect::DeleteLedgers(vec![next]));
                self.advance(errands, turn);
            }
            Ok(next) => {
                self.creation.worked();
                self.rollover = Rollover::Created(next);
                self.advance(errands, turn);
            }
            Err(error) => {
                self.rollover = Rollover::No;
                self.chain.cancel_rollover();
                self.advance(errands, turn);
                if self.creation.failed(turn.now) {
                    turn.out.push(Effect::Report { message: format!("the full ledger goes on, no next one could be created: {error}") });
                }
            }
        }
    }

    /// Records the next ledger once the current one has nothing under way.
    pub(crate) fn advance(&mut self, errands: &mut Errands, turn: &mut Turn<'_>) {
        if self.ending == Ending::Wanted && self.recording.is_none() && self.chain.unconfirmed() == 0 {
            return self.end(errands, turn);
        }
        if let Rollover::Created(next) = self.rollover
            && self.recording.is_none()
            && self.chain.unconfirmed() == 0
        {
            let old = self.chain.current();
            self.chain.next_ledger(next, turn.now.wall_ms);
            self.rollover = Rollover::Recording(old);
            self.record(errands, turn);
        }
        if self.recording.is_none() && self.properties.recorded < self.properties.now {
            self.record(errands, turn);
        }
    }

    /// Has the chain end after what is under way; the list that says so is recorded as soon as possible.
    pub(crate) fn terminate(&mut self) {
        if self.ending == Ending::No {
            self.ending = Ending::Wanted;
        }
    }

    fn end(&mut self, errands: &mut Errands, turn: &mut Turn<'_>) {
        if let Rollover::Created(next) = self.rollover {
            self.rollover = Rollover::No;
            turn.out.push(Effect::DeleteLedgers(vec![next]));
        }
        self.ending = Ending::Recording(self.chain.current());
        self.chain.terminate(turn.now.wall_ms);
        self.record(errands, turn);
    }

    /// Sets properties of the topic, or takes some away (none), and has that recorded; returns the revision to wait for.
    pub(crate) fn change_properties(&mut self, changes: Vec<(String, Option<String>)>, errands: &mut Errands, turn: &mut Turn<'_>) -> u64 {
        for (key, value) in changes {
            match value {
                Some(value) => self.chain.set_property(&key, value),
                None => drop(self.chain.remove_property(&key)),
            }
        }
        self.properties.now += 1;
        self.advance(errands, turn);
        self.properties.now
    }

    /// Sets a property of the topic and has it recorded as soon as possible; returns the revision to wait for.
    pub(crate) fn set_property(&mut self, key: &str, value: String, errands: &mut Errands, turn: &mut Turn<'_>) -> u64 {
        self.chain.set_property(key, value);
        self.properties.now += 1;
        self.advance(errands, turn);
        self.properties.now
    }

    /// The revision of the properties that is recorded.
    pub(crate) fn recorded_properties(&self) -> u64 {
        self.properties.recorded
    }

    fn record(&mut self, errands: &mut Errands, turn: &mut Turn<'_>) {
        self.recording = Some(self.chain.take_dropped().into());
        self.properties.recording = self.properties.now;
        let bytes = ManagedLedger::encode_list(&self.chain.list());
        let change = Change::Ledgers { bytes, expected: self.version };
        turn.out.push(Effect::Change { tag: errands.begin(Errand::LedgerList), change });
    }

    /// The list is recorded: only now may what it left out be deleted.
    pub(crate) fn recorded(&mut self, version: i64, turn: &mut Turn<'_>) -> Recorded {
        self.version = version;
        self.properties.recorded = self.properties.recording;
        let dropped = self.recording.take().unwrap_or_default();
        let mut outcome = Recorded::Trimmed;
        if let Rollover::Recording(old) = self.rollover {
            self.rollover = Rollover::No;
            self.chain.rolled();
            self.trim_wanted = true;
            outcome = Recorded::RolledOver;
            if !dropped.contains(&old) {
                turn.out.push(Effect::SealLedger(old));
            }
        }
        if let Ending::Recording(last) = self.ending {
            self.ending = Ending::No;
            outcome = Recorded::Ended;
            if !dropped.contains(&last) {
                turn.out.push(Effect::SealLedger(last));
            }
        }
        if !dropped.is_empty() {
            turn.out.push(Effect::DeleteLedgers(dropped.into()));
        }
        outcome
    }

    /// A cursor has left a ledger, or is gone: there may be something to trim.
    pub(crate) fn want_trim(&mut self) {
        self.trim_wanted = true;
    }

    /// Whether a trim is wanted and nothing stands in its way.
    pub(crate) fn may_trim(&self) -> bool {
        self.trim_wanted && self.rollover == Rollover::No && self.recording.is_none()
    }

    /// Drops ledgers that everybody has behind; returns whether the chain changed.
    pub(crate) fn trim(&mut self, slowest: Option<Position>, retention: Retention, errands: &mut Errands, turn: &mut Turn<'_>) -> bool {
        self.trim_wanted = false;
        let changed = self.chain.trim(slowest, retention, turn.now.wall_ms);
        if changed {
            self.record(errands, turn);
        }
        changed
    }

    /// When the chain wants to be looked at: for its age, for retention by time, for another attempt to create a ledger.
    pub(crate) fn deadline(&self) -> Option<u64> {
        let check = (self.chain.totals().0 > 0).then_some(self.check_at);
        [check, self.creation.until()].into_iter().flatten().min()
    }

    pub(crate) fn tick(&mut self, settings: &TopicSettings, errands: &mut Errands, turn: &mut Turn<'_>) {
        if self.creation.is_over(turn.now) {
            self.roll_if_full(errands, turn);
        }
        if self.check_at <= turn.now.monotonic_ms {
            self.check_at = turn.now.monotonic_ms + settings.retention_check_ms.max(1_000);
            self.trim_wanted = true;
            self.roll_if_full(errands, turn);
        }
    }
}
