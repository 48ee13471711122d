//! Compaction: of each key only the newest message is kept, in a ledger of its own, for consumers that ask for no more.
//!
//! The topic decides when and up to where; the work is done elsewhere ([`job`]), while the topic goes on. What was done counts from
//! the moment on at which the record of the cursor `__compaction` names the new ledger: a crash before leaves the old one in force, and
//! the new one an orphan. The cursor holds back trimming, so that nothing goes that was not compacted. Names and bytes are Pulsar's.

pub(crate) mod job;
mod messages;
mod plan;
pub(crate) mod view;

use ledger::{EntryId, LedgerId, Position};

use crate::errand::{Errand, SubscriptionIndex};
use crate::event::StartAt;
use crate::stats::CompactionStats;
use crate::subscription::Subscription;
use crate::{Effect, Now, Tag, Topic, Turn};

pub use job::{CompactionDone, CompactionJob, CompactionStorage};
pub(crate) use messages::last_index;

/// The cursor that tells how far a topic is compacted; Pulsar's name for it.
pub const COMPACTION_CURSOR: &str = "__compaction";

/// The property of its position that names the compacted ledger.
const LEDGER_PROPERTY: &str = "CompactedTopicLedger";

/// When topics are compacted by themselves, and what stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionRules {
    /// Once so many bytes were published since the last time (`brokerServiceCompactionThresholdInBytes`, or the policy); 0 = never.
    pub threshold_bytes: u64,
    /// How often that is looked at, in milliseconds (`brokerServiceCompactionMonitorIntervalInSeconds`).
    pub check_ms: u64,
    /// Whether messages without a key stay (`topicCompactionRetainNullKey`).
    pub keep_without_key: bool,
}

impl Default for CompactionRules {
    /// Pulsar's defaults.
    fn default() -> CompactionRules {
        CompactionRules { threshold_bytes: 0, check_ms: 60_000, keep_without_key: false }
    }
}

/// What a compaction left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// The ledger with it.
    pub ledger: LedgerId,
    /// Its last entry; [`EntryId::NONE`] if nothing was left.
    pub last: EntryId,
    /// Up to here the topic is compacted.
    pub horizon: Position,
    /// Bytes of its entries.
    pub bytes: u64,
}

/// The compacted ledger that the properties of the cursor `__compaction` name.
#[must_use]
pub fn compacted_ledger(properties: &[(String, i64)]) -> Option<LedgerId> {
    properties.iter().find(|(name, _)| name == LEDGER_PROPERTY).map(|(_, ledger)| LedgerId(*ledger))
}

/// Whether a topic was, or is being, compacted since it was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CompactionStatus {
    /// Neither.
    #[default]
    NotRun,
    /// It is.
    Running,
    /// The last attempt worked.
    Success,
    /// The last attempt failed.
    Failed(String),
}

/// Why none was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotCompacted {
    /// One is under way.
    #[error("Compaction already in progress")]
    Running,
    /// The topic is being let go of.
    #[error("the topic is being unloaded")]
    Leaving,
}

/// What the topic knows of its compaction.
#[derive(Debug, Default)]
pub(crate) struct Compaction {
    /// What read-compacted consumers read.
    pub(crate) current: Option<Compacted>,
    status: CompactionStatus,
    step: Step,
    check_at: u64,
    began_ms: u64,
    last_removed: u64,
    last_duration_ms: u64,
    succeeded_at_ms: u64,
    failed_at_ms: u64,
    succeeded: u64,
    failed: u64,
    removed: u64,
}

#[derive(Clone, Copy, Debug, Default)]
enum Step {
    #[default]
    Idle,
    /// The cursor is being made.
    MakingCursor,
    /// The work is done elsewhere.
    Working,
    /// The cursor's record is about to name what came of it.
    Recording(CompactionDone),
}

impl Topic {
    /// For a topic that was just loaded: what an earlier compaction left.
    pub fn set_compacted(&mut self, found: Compacted) {
        self.compaction.current = Some(found);
    }

    /// Begins to compact what there is now.
    ///
    /// # Errors
    /// [`NotCompacted`] says why not.
    pub fn compact(&mut self, turn: &mut Turn<'_>) -> Result<(), NotCompacted> {
        if self.closing || self.fenced.is_some() {
            return Err(NotCompacted::Leaving);
        }
        if !matches!(self.compaction.step, Step::Idle) {
            return Err(NotCompacted::Running);
        }
        self.compaction.began_ms = turn.now.wall_ms;
        self.compaction.status = CompactionStatus::Running;
        match self.compaction_cursor() {
            Some(_) => self.begin_work(turn),
            None => {
                self.compaction.step = Step::MakingCursor;
                self.make_compaction_cursor(turn);
            }
        }
        Ok(())
    }

    /// Whether it was compacted, or is being.
    #[must_use]
    pub fn compaction_status(&self) -> &CompactionStatus {
        &self.compaction.status
    }

    pub(crate) fn compaction_stats(&self) -> CompactionStats {
        let Compaction { current, last_removed, last_duration_ms, succeeded_at_ms, failed_at_ms, succeeded, failed, removed, .. } =
            &self.compaction;
        CompactionStats {
            ledger: current.map(|compacted| (compacted.ledger.0, (compacted.last.0 + 1).unsigned_abs(), compacted.bytes)),
            horizon: current.map(|compacted| compacted.horizon.to_string()),
            last_removed: *last_removed,
            last_duration_ms: *last_duration_ms,
            succeeded: *succeeded,
            failed: *failed,
            removed: *removed,
            succeeded_at_ms: *succeeded_at_ms,
            failed_at_ms: *failed_at_ms,
        }
    }

    fn compaction_cursor(&self) -> Option<SubscriptionIndex> {
        let index = *self.by_name.get(COMPACTION_CURSOR)?;
        self.subscriptions.get(index).is_some_and(Subscription::is_open).then_some(index)
    }

    fn make_compaction_cursor(&mut self, turn: &mut Turn<'_>) {
        if !self.by_name.contains_key(COMPACTION_CURSOR) {
            self.begin_subscription(turn, COMPACTION_CURSOR.to_owned(), true, StartAt::Earliest, Vec::new());
        }
    }

    /// A subscription opened: perhaps the cursor that a compaction waits for.
    pub(crate) fn compaction_cursor_opened(&mut self, turn: &mut Turn<'_>) {
        if matches!(self.compaction.step, Step::MakingCursor) && self.compaction_cursor().is_some() && !self.closing {
            self.begin_work(turn);
        }
    }

    fn begin_work(&mut self, turn: &mut Turn<'_>) {
        let chain = &self.ledgers.chain;
        let horizon = chain.last_confirmed();
        let current = self.compaction.current;
        let after = current.map_or(chain.before_first(), |compacted| compacted.horizon);
        let runs: Vec<_> = chain.runs(after, horizon).collect();
        if runs.is_empty() {
            self.compaction.step = Step::Idle;
            return self.compaction_succeeded(turn.now, 0);
        }
        self.compaction.step = Step::Working;
        let partition = self.name.partition_index().and_then(|index| i32::try_from(index).ok()).unwrap_or(-1);
        let job = CompactionJob::new(current, runs, horizon, partition, self.settings.compaction.keep_without_key);
        turn.out.push(Effect::Compact { tag: self.errands.begin(Errand::Compaction), job: Box::new(job) });
    }

    /// The work is done, or was given up.
    pub fn compacted(&mut self, turn: &mut Turn<'_>, tag: Tag, outcome: Result<CompactionDone, String>) {
        let expected = self.errands.finish(tag) == Some(Errand::Compaction) && !self.closing && self.fenced.is_none();
        match (outcome, self.compaction_cursor().filter(|_| expected)) {
            (Ok(done), Some(cursor)) => self.record_compaction(turn, cursor, done),
            (Ok(done), None) => {
                // Whoever loads the topic next does not know of it.
                turn.out.push(Effect::DeleteLedgers(vec![done.compacted.ledger]));
                self.compaction_failed(turn, "the topic was let go of meanwhile".to_owned());
            }
            (Err(reason), _) => self.compaction_failed(turn, reason),
        }
    }

    fn compaction_failed(&mut self, turn: &mut Turn<'_>, reason: String) {
        turn.out.push(Effect::Report { message: format!("compaction failed, what was compacted before stays: {reason}") });
        self.compaction.step = Step::Idle;
        self.compaction.failed_at_ms = turn.now.wall_ms;
        self.compaction.failed += 1;
        self.compaction.status = CompactionStatus::Failed(reason);
    }

    fn compaction_succeeded(&mut self, now: Now, removed: u64) {
        self.compaction.status = CompactionStatus::Success;
        self.compaction.succeeded += 1;
        self.compaction.removed += removed;
        self.compaction.last_removed = removed;
        self.compaction.succeeded_at_ms = now.wall_ms;
        self.compaction.last_duration_ms = now.wall_ms.saturating_sub(self.compaction.began_ms);
    }

    /// Has the cursor's record name the new ledger.
    fn record_compaction(&mut self, turn: &mut Turn<'_>, cursor: SubscriptionIndex, done: CompactionDone) {
        self.compaction.step = Step::Recording(done);
        let (subscriptions, mut lent) = self.lend();
        let Some(Subscription { lane, persistence: Some(persistence), .. }) = subscriptions.get_mut(cursor) else { return };
        let CompactionDone { compacted: Compacted { ledger, horizon, .. }, .. } = done;
        lane.cursor.ack_cumulative(horizon, lent.ledger);
        lane.cursor.set_properties(vec![(LEDGER_PROPERTY.to_owned(), ledger.0)]);
        persistence.hurry(&lane.cursor, &mut lent, turn);
    }

    /// A cursor's record was written: if it is the one that names a new compacted ledger, that one is read from now on, and the
    /// one before it goes.
    pub(crate) fn compaction_recorded(&mut self, turn: &mut Turn<'_>, index: SubscriptionIndex) {
        let Step::Recording(done) = self.compaction.step else { return };
        let Some(cursor) = self.subscriptions.get(index).filter(|subscription| subscription.name == COMPACTION_CURSOR) else { return };
        if !cursor.persistence.as_ref().is_some_and(|persistence| persistence.is_settled(&cursor.lane.cursor)) {
            return;
        }
        self.compaction.step = Step::Idle;
        let before = self.compaction.current.replace(done.compacted);
        self.compaction_succeeded(turn.now, done.removed);
        if let Some(before) = before {
            turn.out.push(Effect::DeleteLedgers(vec![before.ledger]));
        }
        if self.closing {
            return;
        }
        self.ledgers.want_trim();
        self.trim(turn);
        self.want_all();
    }

    /// The cursor is gone, by an administrator's hand: so is what was compacted.
    pub(crate) fn forget_compaction(&mut self, turn: &mut Turn<'_>) {
        if let Some(compacted) = self.compaction.current.take() {
            turn.out.push(Effect::DeleteLedgers(vec![compacted.ledger]));
        }
    }

    /// When it is to be looked at whether enough was published.
    pub(crate) fn compaction_deadline(&self) -> Option<u64> {
        let wanted = self.settings.compaction.threshold_bytes > 0 && self.ledgers.chain.totals().0 > 0;
        wanted.then_some(self.compaction.check_at)
    }

    /// Compacts the topic if enough was published since the last time.
    pub(crate) fn tick_compaction(&mut self, turn: &mut Turn<'_>) {
        let rules = self.settings.compaction;
        if rules.threshold_bytes == 0 || self.compaction.check_at > turn.now.monotonic_ms {
            return;
        }
        self.compaction.check_at = turn.now.monotonic_ms + rules.check_ms.max(1_000);
        // From now on, so that nothing is trimmed that was not compacted.
        self.make_compaction_cursor(turn);
        let chain = &self.ledgers.chain;
        let after = self.compaction.current.map_or(chain.before_first(), |compacted| compacted.horizon);
        let published = if after < chain.before_first() { chain.totals().1 } else { chain.bytes_after(after) };
        if published > rules.threshold_bytes && matches!(self.compaction.step, Step::Idle) {
            // Refused only while the topic leaves, and then it does not tick.
            let _ = self.compact(turn);
        }
    }
}
