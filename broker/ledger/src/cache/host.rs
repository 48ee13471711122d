//! The books of a cache: which entries are held, where cursors are, how many bytes that makes; and the policy that is asked what goes.
//!
//! The host keeps the limit whatever the policy says: it checks every victim, and asks the default, seeded with what is held, when a policy
//! names what is not there, frees too little, fails or panics. The same seeding makes a change of policy a matter of one call. (Where the
//! process is built to end at a panic it ends at this one too; a component's trap is a fault and never a panic.)

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::books::{Books, Cleared};
use super::events::{Event, Events};
use super::policies::Choice;
use super::policy::{EvictionPolicy, Page, PageSize, PolicyFault, Pressure, StorageRead};

/// Rows that are gathered before the policy is told.
const BATCH: usize = 256;

/// So many faults within the time below, and the policy is not asked again.
const FAULTS: usize = 3;
const FAULT_WINDOW_MS: u64 = 60_000;

/// Why a read happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPurpose {
    /// A cursor reads on.
    Cursor,
    /// A cursor reads again what was not acked.
    Replay,
    /// Somebody looks at a single entry: peek, first and last, searches. Nothing is expected and nothing kept.
    Look,
}

/// Limits of a cache.
#[derive(Clone, Copy, Debug)]
pub struct HostLimits {
    /// Bytes that may be held; 0 holds nothing.
    pub bytes: u64,
    /// For so long after a topic's last active cursor left, published entries are still kept.
    pub continue_ms: u64,
    /// How many entries are kept and evicted together.
    pub page: PageSize,
}

/// What a read found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Entries that were held.
    pub hits: u64,
    /// Their bytes.
    pub hit_bytes: u64,
    /// What has to be read from storage, in order.
    pub gaps: Vec<(u64, u64)>,
}

/// What happened since the host was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounts {
    /// Pages that the policy evicted.
    pub evicted: u64,
    /// Pages that the default evicted in its place, or the host itself.
    pub evicted_by_stand_in: u64,
    /// Answers of the policy that were wrong.
    pub faults: u64,
    /// Times a policy was given up.
    pub retired: u64,
}

/// The host. It holds no payloads: who does asks it what to let go of.
pub struct Host {
    limits: HostLimits,
    books: Books,
    policy: Box<dyn EvictionPolicy>,
    pending: Events,
    victims: Vec<Page>,
    evicted: Vec<Page>,
    now: u64,
    /// When the latest faults were.
    faults: Vec<u64>,
    last_fault: Option<PolicyFault>,
    counts: HostCounts,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host")
            .field("limits", &self.limits)
            .field("used", &self.used())
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

impl Host {
    /// A cache that holds nothing yet, under a policy that knows of nothing yet.
    #[must_use]
    pub fn new(limits: HostLimits, policy: Box<dyn EvictionPolicy>) -> Host {
        Host {
            limits,
            books: Books::new(limits.page),
            policy,
            pending: Events::default(),
            victims: Vec::new(),
            evicted: Vec::new(),
            now: 0,
            faults: Vec::new(),
            last_fault: None,
            counts: HostCounts::default(),
        }
    }

    /// Bytes held. Between calls never more than the limit.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.books.bytes()
    }

    /// Entries held.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.books.entries()
    }

    /// Whether an entry is held.
    #[must_use]
    pub fn holds(&self, topic: u32, entry: u64) -> bool {
        self.books.holds(topic, entry)
    }

    /// What happened so far.
    #[must_use]
    pub fn counts(&self) -> HostCounts {
        self.counts
    }

    /// The latest fault of a policy.
    #[must_use]
    pub fn last_fault(&self) -> Option<&PolicyFault> {
        self.last_fault.as_ref()
    }

    /// Bytes of the policy's own memory, roughly.
    #[must_use]
    pub fn policy_memory(&self) -> usize {
        self.policy.memory()
    }

    /// Pages evicted since this was last asked; removals that the caller asked for are not among them.
    pub fn take_evicted(&mut self) -> Vec<Page> {
        std::mem::take(&mut self.evicted)
    }

    /// A cursor is there, or its state changed. Active: somebody reads by it.
    pub fn set_cursor(&mut self, now: u64, topic: u32, cursor: u32, at: (u64, u64), active: bool) {
        let (at, mark_delete) = at;
        self.books.set_cursor(now, topic, cursor, (at, mark_delete), active);
        self.note(now, Event::Cursor { topic, cursor, at, mark_delete, active });
        self.tell_if_many();
    }

    /// A cursor reads next at `at`. One that the host does not know is ignored.
    pub fn move_cursor(&mut self, now: u64, topic: u32, cursor: u32, at: u64) {
        if self.books.move_cursor(topic, cursor, at) {
            self.note(now, Event::Moved { topic, cursor, at });
            self.tell_if_many();
        }
    }

    /// A cursor has everything below `at` behind it.
    pub fn mark_delete(&mut self, now: u64, topic: u32, cursor: u32, at: u64) {
        if self.books.mark_delete(topic, cursor, at) {
            self.note(now, Event::MarkDeleted { topic, cursor, at });
            self.tell_if_many();
        }
    }

    /// A cursor is deleted.
    pub fn remove_cursor(&mut self, now: u64, topic: u32, cursor: u32) {
        if self.books.remove_cursor(now, topic, cursor) {
            self.note(now, Event::CursorGone { topic, cursor });
            self.tell_if_many();
        }
    }

    /// A cursor will read entries again, or no longer.
    pub fn replay(&mut self, now: u64, topic: u32, cursor: u32, range: (u64, u64), more: bool) {
        let (first, until) = range;
        if first < until {
            self.books.replay(topic, cursor, range, more);
            self.note(
                now,
                if more { Event::Replayed { topic, cursor, first, until } } else { Event::ReplayDone { topic, cursor, first, until } },
            );
            self.tell_if_many();
        }
    }

    /// Entries were published. They are kept if somebody reads the topic or did lately, and not if one alone is over the limit.
    pub fn publish(&mut self, now: u64, topic: u32, first: u64, sizes: &[u32]) {
        self.clock(now);
        let active = self.books.active(topic);
        if active > 0 || self.books.left_lately(topic, now, self.limits.continue_ms) {
            self.insert(topic, first, sizes, active as u32, true);
        }
    }

    /// Entries were read from storage for a cursor, which may have moved past them already. The policy says whether they are kept; what is
    /// held already stays as it is.
    pub fn loaded(&mut self, now: u64, topic: u32, cursor: u32, purpose: ReadPurpose, (first, sizes): (u64, &[u32])) {
        self.clock(now);
        if purpose == ReadPurpose::Look || sizes.is_empty() {
            return;
        }
        let expected = if purpose == ReadPurpose::Cursor { self.books.expected(topic, cursor, first) } else { 0 };
        let until = first.saturating_add(sizes.len() as u64);
        let read = StorageRead { topic, cursor, first, until, expected };
        let admitted = self.call(|policy| Ok(policy.admits(&read))).unwrap_or_else(|fault| {
            self.fault(fault);
            expected > 0
        });
        if admitted {
            self.insert(topic, first, sizes, expected, false);
        }
    }

    /// What of a range is held.
    pub fn read(&mut self, now: u64, topic: u32, cursor: u32, range: (u64, u64)) -> Found {
        let mut found = Found::default();
        for (first, until, bytes) in self.books.runs(topic, range) {
            if let Some(bytes) = bytes {
                found.hits += until - first;
                found.hit_bytes += bytes;
                self.note(now, Event::Read { topic, cursor, first, until });
            } else {
                found.gaps.push((first, until));
                self.note(now, Event::Missed { topic, cursor, first, until });
            }
        }
        self.tell_if_many();
        found
    }

    /// Entries are gone: trimmed, truncated.
    pub fn invalidate(&mut self, now: u64, topic: u32, range: (u64, u64)) {
        for cleared in self.books.clear_range(topic, range) {
            self.note_removed(now, cleared);
        }
        self.tell_if_many();
    }

    /// A topic is deleted or unloaded.
    pub fn close(&mut self, now: u64, topic: u32) {
        self.invalidate(now, topic, (0, u64::MAX));
        self.books.close(topic);
        self.note(now, Event::Closed { topic });
        self.tell_if_many();
    }

    /// Time passes: what is too old goes. To be called every 10 ms or so.
    pub fn tick(&mut self, now: u64) {
        self.clock(now);
        self.tell();
        if self.books.bytes() > 0 {
            self.ask(0);
            self.make_room();
        }
    }

    /// Another limit, at once.
    pub fn set_limit(&mut self, now: u64, bytes: u64) {
        self.clock(now);
        self.limits.bytes = bytes;
        self.make_room();
    }

    /// Another policy, which is told what is held and where cursors are. Nothing is evicted by the change itself.
    pub fn swap(&mut self, now: u64, policy: Box<dyn EvictionPolicy>) {
        self.clock(now);
        self.pending.clear();
        self.faults.clear();
        discard(std::mem::replace(&mut self.policy, policy));
        if let Err(fault) = self.seed() {
            self.fault(fault);
        }
    }

    fn clock(&mut self, now: u64) {
        self.now = self.now.max(now);
    }

    fn note(&mut self, now: u64, event: Event) {
        self.clock(now);
        self.pending.push(event);
    }

    /// Called when the books say the same as the events: a policy that fails now is replaced by one that is told of the books.
    fn tell_if_many(&mut self) {
        if self.pending.len() >= BATCH {
            self.tell();
        }
    }

    fn note_removed(&mut self, now: u64, cleared: Cleared) {
        let Cleared { page, first, until, bytes, left } = cleared;
        self.note(now, Event::Removed { topic: page.topic, first, until, bytes, left });
    }

    fn insert(&mut self, topic: u32, first: u64, sizes: &[u32], expected: u32, published: bool) {
        let limit = self.limits.bytes;
        for (first, until, bytes) in self.books.insert(topic, first, sizes, limit) {
            let event = if published {
                Event::Published { topic, first, until, bytes, expected }
            } else {
                Event::Loaded { topic, first, until, bytes, expected }
            };
            self.note(self.now, event);
        }
        self.make_room();
        self.tell_if_many();
    }

    /// Tells the policy what is pending.
    fn tell(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let mut events = std::mem::take(&mut self.pending);
        events.now = self.now;
        let outcome = self.call(|policy| policy.apply(&events));
        events.clear();
        self.pending = events;
        if let Err(fault) = outcome {
            self.fault(fault);
        }
    }

    fn make_room(&mut self) {
        let limit = self.limits.bytes;
        let marks = self.policy.marks();
        // A share that is no share, from a guest, means the whole.
        let part = |share: f64| if share > 0.0 && share < 1.0 { (limit as f64 * share) as u64 } else { limit };
        if self.books.bytes() <= part(marks.trigger) {
            return;
        }
        self.tell();
        self.ask(self.books.bytes().saturating_sub(part(marks.target.min(marks.trigger))));
    }

    /// Asks the policy for victims and evicts them; the default steps in for what it does not free of what has to go.
    fn ask(&mut self, need: u64) {
        let pressure = Pressure { now: self.now, used: self.books.bytes(), limit: self.limits.bytes, need };
        let mut victims = std::mem::take(&mut self.victims);
        let outcome = self.call(|policy| policy.victims(&pressure, &mut victims));
        let (freed, wrong) = self.evict(&victims);
        victims.clear();
        self.victims = victims;
        let little = || (freed < need).then_some(PolicyFault::TooLittle { freed, need });
        if let Some(fault) = outcome.err().or(wrong).or_else(little) {
            self.fault(fault);
        }
        self.stand_in();
    }

    /// Evicts all named pages that are held, as the policy believes; what it freed, and the first wrong name.
    fn evict(&mut self, victims: &[Page]) -> (u64, Option<PolicyFault>) {
        let (mut freed, mut wrong) = (0, None);
        for (place, &page) in victims.iter().enumerate() {
            if let Some(cleared) = self.books.clear_page(page) {
                freed += cleared.bytes;
                self.counts.evicted += 1;
                self.evicted.push(page);
            } else if wrong.is_none() {
                let twice = victims.get(..place).is_some_and(|earlier| earlier.contains(&page));
                wrong = Some(if twice { PolicyFault::Duplicate(page) } else { PolicyFault::Unknown(page) });
            }
        }
        (freed, wrong)
    }

    /// Whatever the policy did: the limit holds. The default decides with what it can be told now, and if even that is too little,
    /// the oldest goes.
    fn stand_in(&mut self) {
        let Some(need) = self.books.bytes().checked_sub(self.limits.bytes).filter(|need| *need > 0) else { return };
        let mut policy = Choice::default().build(self.limits.page);
        let pressure = Pressure { now: self.now, used: self.books.bytes(), limit: self.limits.bytes, need };
        let mut victims = Vec::new();
        // What it cannot tell is made up for below.
        let _ = policy.apply(&self.books.snapshot(self.now)).and_then(|()| policy.victims(&pressure, &mut victims));
        for page in victims {
            self.evict_in_place_of_policy(page);
        }
        while self.books.bytes() > self.limits.bytes {
            let Some(page) = self.books.oldest() else { break };
            self.evict_in_place_of_policy(page);
        }
    }

    fn evict_in_place_of_policy(&mut self, page: Page) {
        if let Some(cleared) = self.books.clear_page(page) {
            self.counts.evicted_by_stand_in += 1;
            self.evicted.push(page);
            self.note_removed(self.now, cleared);
        }
    }

    /// Tells a policy that knows of nothing what there is.
    fn seed(&mut self) -> Result<(), PolicyFault> {
        let snapshot = self.books.snapshot(self.now);
        self.call(|policy| policy.apply(&snapshot))
    }

    /// A policy that was wrong is given up: at once when it failed, since nobody knows what it remembers, and else after a few wrong
    /// answers within a minute.
    fn fault(&mut self, fault: PolicyFault) {
        self.counts.faults += 1;
        let lost = matches!(fault, PolicyFault::Failed(_));
        self.last_fault = Some(fault);
        self.faults.retain(|at| self.now.saturating_sub(*at) < FAULT_WINDOW_MS);
        self.faults.push(self.now);
        if lost || self.faults.len() >= FAULTS {
            self.counts.retired += 1;
            self.faults.clear();
            self.pending.clear();
            discard(std::mem::replace(&mut self.policy, Choice::default().build(self.limits.page)));
            // The default takes what it is told; should it not, `stand_in` keeps the limit.
            let _ = self.seed();
        }
    }

    /// Calls the policy; a panic is a fault like others.
    fn call<T>(&mut self, question: impl FnOnce(&mut dyn EvictionPolicy) -> Result<T, PolicyFault>) -> Result<T, PolicyFault> {
        // After a panic the policy is replaced before it is asked again.
        match catch_unwind(AssertUnwindSafe(|| question(self.policy.as_mut()))) {
            Ok(answer) => answer,
            Err(panic) => {
                let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned()).or_else(|| panic.downcast_ref::<String>().cloned());
                Err(PolicyFault::Failed(text.unwrap_or_else(|| "it panicked".to_owned())))
            }
        }
    }
}

/// Drops a policy that may panic even then.
fn discard(policy: Box<dyn EvictionPolicy>) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(policy)));
}

#[cfg(test)]
mod tests;
