//! The topic's owner in the simulation: carries out effects against the [`World`], each kind in its order, kinds in any order.

use std::collections::VecDeque;

use bytes::Bytes;
use ledger::{CacheKey, EntryCache, LedgerLimits, Position, Retention, StoreError};
use topic::faults::Faults;
use topic::{Change, CompactionJob, Deduplication, Effect, Effects, Now, ReadOutcome, Reply, Sequences, Tag, Topic, TopicSettings, Turn};
use wire::TopicName;

use super::world::World;

/// A topic with its clocks, its cache, and what it has asked for.
pub(crate) struct Owner {
    /// What survives.
    pub(crate) world: World,
    /// The topic.
    pub(crate) topic: Topic,
    /// The clocks.
    pub(crate) now: Now,
    /// What clients get to hear, in order.
    pub(crate) heard: Vec<Effect>,
    /// How often the topic asked to be deleted.
    pub(crate) deserted: u32,
    /// Why the topic asked to be let go of, if it did.
    pub(crate) unload_reason: Option<String>,
    /// Everything the topic reported.
    pub(crate) reports: Vec<String>,
    /// Reads carried out.
    pub(crate) reads: usize,
    /// Keys that a compaction compares at a time.
    pub(crate) compare_keys: usize,
    /// Entries read.
    pub(crate) entries_read: usize,
    /// A deliberate mistake: appends are confirmed although they are not stored before [`Owner::sync`].
    pub(crate) confirm_early: bool,
    /// After how many calls consumers are served; the topic's deadline has it done earlier.
    pub(crate) serves_each: usize,
    calls: usize,
    settings: TopicSettings,
    faults: Faults,
    cache: EntryCache,
    key: CacheKey,
    effects: Effects,
    appends: VecDeque<(Position, Bytes)>,
    unsynced: VecDeque<(Position, Bytes)>,
    writes: VecDeque<Write>,
    reading: Vec<Read>,
    ticked_at: u64,
}

/// A write that is not an entry of the topic; carried out in order.
enum Write {
    Cursor { tag: Tag, at: Position, bytes: Bytes },
    Create { tag: Tag },
    Change { tag: Tag, change: Change },
    Delete(Vec<ledger::LedgerId>),
    Compact { tag: Tag, job: Box<CompactionJob> },
}

struct Read {
    tag: Tag,
    from: Position,
    last: Position,
    max_entries: usize,
    max_bytes: usize,
}

/// Settings with small limits, so that everything happens often, and with all consumed data retained.
pub(crate) fn small_settings() -> TopicSettings {
    TopicSettings {
        ledger: LedgerLimits { max_entries: 20, max_bytes: 1 << 20, min_age_ms: 0, max_age_ms: 3_600_000 },
        retention: Retention { time_ms: -1, size_bytes: -1 },
        max_entry_bytes: 1 << 20,
        max_read_entries: 7,
        min_read_entries: 1,
        max_read_bytes: 10_000,
        max_round_robin: 2,
        failover_delay_ms: 1_000,
        max_unacked_per_consumer: 0,
        max_unacked_per_subscription: 0,
        max_look_ahead_per_consumer: 0,
        max_look_ahead_per_subscription: 0,
        key_shared_points: 0,
        mark_delete_rate: 1.0,
        cursor_flush_ms: 60_000,
        max_ranges: 1_000,
        max_batches: 1_000,
        cursor_ledger_max_entries: 4,
        batch_index_ack: true,
        non_durable_grace_ms: 5_000,
        retention_check_ms: 120_000,
        deduplication: Deduplication { snapshot_entries: 10, snapshot_ms: 20_000, ..Deduplication::default() },
        delayed_tick_ms: 1_000,
        max_delay_ms: 0,
        message_ttl_ms: 0,
        expiry_check_ms: 300_000,
        limits: topic::Limits::default(),
        idle: topic::Idleness::default(),
        compaction: topic::CompactionRules::default(),
        auto_subscription: true,
        rates: topic::Rates::default(),
        quota: topic::Quotas::default(),
        producer_name_prefix: "standalone-1".to_owned(),
    }
}

impl Owner {
    /// A new topic.
    pub(crate) fn new(settings: TopicSettings) -> Owner {
        Owner::over(World::default(), settings, 1 << 20, Faults::default())
    }

    /// The topic as it is found in a world.
    pub(crate) fn over(mut world: World, settings: TopicSettings, cache_bytes: usize, faults: Faults) -> Owner {
        let now = Now { monotonic_ms: 1_000, wall_ms: 1_700_000_000_000 };
        let mut cache = EntryCache::new(cache_bytes);
        let key = cache.open();
        let (topic, found) = load(&mut world, &settings, key, now, faults);
        let mut owner = Owner {
            world,
            topic,
            now,
            heard: Vec::new(),
            unload_reason: None,
            deserted: 0,
            reports: Vec::new(),
            reads: 0,
            compare_keys: 3,
            entries_read: 0,
            confirm_early: false,
            serves_each: 1,
            calls: 0,
            settings,
            faults,
            cache,
            key,
            effects: Vec::new(),
            appends: VecDeque::new(),
            unsynced: VecDeque::new(),
            writes: VecDeque::new(),
            reading: Vec::new(),
            ticked_at: 0,
        };
        owner.deduplicate(found);
        owner
    }

    fn deduplicate(&mut self, found: Option<Sequences>) {
        if let Some(found) = found {
            self.call(|topic, turn| topic.deduplicate(turn, found));
        }
    }

    /// Calls the topic and takes note of what it wants. Consumers are served at once, or not before a few more calls.
    pub(crate) fn call<T>(&mut self, work: impl FnOnce(&mut Topic, &mut Turn<'_>) -> T) -> T {
        let mut turn = Turn { now: self.now, cache: &mut self.cache, out: &mut self.effects };
        let result = work(&mut self.topic, &mut turn);
        self.calls += 1;
        if self.calls.is_multiple_of(self.serves_each) {
            self.topic.serve(&mut turn);
        }
        for effect in self.effects.drain(..) {
            match effect {
                Effect::Append { at, bytes } => self.appends.push_back((at, bytes)),
                Effect::AppendCursor { tag, at, bytes } => self.writes.push_back(Write::Cursor { tag, at, bytes: bytes.into() }),
                Effect::CreateLedger { tag, .. } => self.writes.push_back(Write::Create { tag }),
                Effect::Change { tag, change } => self.writes.push_back(Write::Change { tag, change }),
                Effect::DeleteLedgers(ledgers) => self.writes.push_back(Write::Delete(ledgers)),
                Effect::Compact { tag, job } => self.writes.push_back(Write::Compact { tag, job }),
                Effect::SealLedger(_) => {}
                Effect::Read { tag, from, last, max_entries, max_bytes } => {
                    assert_eq!(from.ledger, last.ledger, "a read stays in one ledger");
                    self.reading.push(Read { tag, from, last, max_entries, max_bytes });
                }
                Effect::Unload { reason } => self.unload_reason = Some(reason),
                Effect::Deserted => self.deserted += 1,
                Effect::Report { message } => self.reports.push(message),
                heard => self.heard.push(heard),
            }
        }
        result
    }

    /// The topic follows other settings, now and whenever it is loaded again.
    pub(crate) fn change_settings(&mut self, settings: TopicSettings) {
        self.settings = settings.clone();
        self.call(|topic, turn| topic.update_settings(turn, settings));
    }

    /// Time passes; the topic is called if it wants to be.
    pub(crate) fn wait(&mut self, ms: u64) {
        self.now.monotonic_ms += ms;
        self.now.wall_ms += ms;
        self.tick();
    }

    /// Calls the topic if its deadline has come. Returns whether it had.
    pub(crate) fn tick(&mut self) -> bool {
        let due = self.topic.next_deadline().is_some_and(|at| at <= self.now.monotonic_ms);
        if due {
            self.ticked_at = self.now.monotonic_ms;
            self.call(Topic::tick);
        }
        due
    }

    /// Carries out all that was asked for, until nothing is left.
    pub(crate) fn settle(&mut self) {
        for _ in 0..100_000 {
            let appended = self.finish_appends(usize::MAX);
            let written = self.finish_write();
            let read = self.finish_read(0);
            if !(appended || written || read || self.tick()) {
                return;
            }
        }
        panic!("the topic never comes to rest");
    }

    /// The oldest appends become durable, at most `most`.
    pub(crate) fn finish_appends(&mut self, most: usize) -> bool {
        let mut last = None;
        for _ in 0..most.min(self.appends.len()) {
            let Some((at, bytes)) = self.appends.pop_front() else { break };
            last = Some(at);
            if self.confirm_early {
                self.unsynced.push_back((at, bytes));
            } else {
                self.world.append(at, bytes);
            }
        }
        if let Some(upto) = last {
            self.call(|topic, turn| topic.appended(turn, upto));
        }
        last.is_some()
    }

    /// With [`Owner::confirm_early`]: stores what was only said to be stored.
    pub(crate) fn sync(&mut self) {
        for (at, bytes) in self.unsynced.drain(..) {
            // What was said to be stored may have been acked, and its ledger deleted, meanwhile.
            if !self.world.deleted.contains(&at.ledger) {
                self.world.append(at, bytes);
            }
        }
    }

    /// The oldest append fails, and all after it; `stored` of them reach the disk all the same.
    pub(crate) fn fail_appends(&mut self, stored: usize) -> bool {
        let Some(from) = self.appends.front().map(|(at, _)| *at) else { return false };
        self.sync();
        for (at, bytes) in std::mem::take(&mut self.appends).into_iter().take(stored) {
            self.world.append(at, bytes);
        }
        self.call(|topic, turn| topic.append_failed(turn, from, &StoreError::Unknown("simulated".to_owned())));
        true
    }

    /// The oldest other write is carried out.
    pub(crate) fn finish_write(&mut self) -> bool {
        match self.writes.pop_front() {
            Some(Write::Cursor { tag, at, bytes }) => {
                self.world.append(at, bytes);
                self.call(|topic, turn| topic.cursor_appended(turn, tag, Ok(())));
            }
            Some(Write::Create { tag }) => {
                let ledger = self.world.create();
                self.call(|topic, turn| topic.ledger_created(turn, tag, Ok(ledger)));
            }
            Some(Write::Change { tag, change }) => {
                let outcome = self.world.change(change);
                self.call(|topic, turn| topic.changed(turn, tag, outcome));
            }
            Some(Write::Delete(ledgers)) => self.world.delete(ledgers),
            Some(Write::Compact { tag, job }) => {
                let outcome = job.comparing(self.compare_keys).run(&mut self.world);
                self.call(|topic, turn| topic.compacted(turn, tag, outcome));
            }
            None => return false,
        }
        true
    }

    /// The oldest other write is refused if it is a change of metadata: somebody else may own the topic.
    pub(crate) fn refuse_change(&mut self) -> bool {
        let Some(Write::Change { tag, .. }) = self.writes.front() else { return false };
        let tag = *tag;
        self.writes.pop_front();
        self.sync();
        self.call(|topic, turn| topic.changed(turn, tag, Err("simulated".to_owned())));
        true
    }

    /// The oldest other write fails if it is one that a topic survives: a cursor's state or the creation of a ledger.
    pub(crate) fn fail_write(&mut self) -> bool {
        let full = || StoreError::DiskNearlyFull("simulated".to_owned());
        match self.writes.front() {
            Some(Write::Cursor { tag, .. }) => {
                let tag = *tag;
                self.writes.pop_front();
                self.call(|topic, turn| topic.cursor_appended(turn, tag, Err(full())));
            }
            Some(Write::Create { tag }) => {
                let tag = *tag;
                self.writes.pop_front();
                self.call(|topic, turn| topic.ledger_created(turn, tag, Err(full())));
            }
            _ => return false,
        }
        true
    }

    /// One of the reads in flight ends.
    pub(crate) fn finish_read(&mut self, which: usize) -> bool {
        let Some(read) = self.take_read(which) else { return false };
        let entries = self.world.read(read.from, read.last, read.max_entries, read.max_bytes);
        self.reads += 1;
        self.entries_read += entries.as_ref().map_or(0, Vec::len);
        let outcome = ReadOutcome { tag: read.tag, ledger: read.from.ledger, entries };
        self.call(|topic, turn| topic.read_done(turn, outcome));
        true
    }

    /// One of the reads in flight fails.
    pub(crate) fn fail_read(&mut self, which: usize) -> bool {
        let Some(read) = self.take_read(which) else { return false };
        let entries = Err(StoreError::Io("simulated".to_owned()));
        let outcome = ReadOutcome { tag: read.tag, ledger: read.from.ledger, entries };
        self.call(|topic, turn| topic.read_done(turn, outcome));
        true
    }

    fn take_read(&mut self, which: usize) -> Option<Read> {
        let count = self.reading.len();
        (count > 0).then(|| self.reading.remove(which % count))
    }

    /// Reads in flight.
    pub(crate) fn reads_open(&self) -> usize {
        self.reading.len()
    }

    /// Appends in flight.
    pub(crate) fn appends_open(&self) -> usize {
        self.appends.len()
    }

    /// Lets go of the topic in order and loads it again.
    pub(crate) fn unload_and_load(&mut self) {
        self.call(Topic::unload);
        for _ in 0..10_000 {
            if self.topic.unloaded() {
                break;
            }
            let moved = self.finish_appends(usize::MAX) | self.finish_write();
            assert!(moved, "the topic waits for nothing and is not unloaded");
        }
        assert!(self.topic.unloaded(), "the topic is never unloaded");
        while self.finish_write() {}
        self.sync();
        self.load();
    }

    /// The broker dies: what was not carried out never is, except for `stored` appends and `written` other writes.
    pub(crate) fn crash(&mut self, stored: usize, written: usize) {
        if self.unsynced.is_empty() {
            for (at, bytes) in self.appends.drain(..).take(stored) {
                self.world.append(at, bytes);
            }
        }
        for write in self.writes.drain(..).take(written) {
            match write {
                Write::Cursor { at, bytes, .. } => self.world.append(at, bytes),
                Write::Create { .. } => drop(self.world.create()),
                Write::Change { change, .. } => drop(self.world.change(change)),
                Write::Delete(ledgers) => self.world.delete(ledgers),
                // It ran to its end, and nobody knows of it.
                Write::Compact { job, .. } => drop(job.comparing(self.compare_keys).run(&mut self.world)),
            }
        }
        self.load();
    }

    fn load(&mut self) {
        self.appends.clear();
        self.unsynced.clear();
        self.writes.clear();
        self.reading.clear();
        self.unload_reason = None;
        self.cache.close(self.key);
        self.key = self.cache.open();
        let (topic, found) = load(&mut self.world, &self.settings, self.key, self.now, self.faults);
        self.topic = topic;
        self.deduplicate(found);
    }

    /// Bytes in the cache.
    pub(crate) fn cached_bytes(&self) -> usize {
        self.cache.bytes()
    }

    /// What clients heard since the last call, answers to requests only.
    pub(crate) fn replies(&mut self) -> Vec<Reply> {
        let (replies, others) = std::mem::take(&mut self.heard).into_iter().partition(|effect| matches!(effect, Effect::Reply { .. }));
        self.heard = others;
        let reply = |effect| match effect {
            Effect::Reply { reply, .. } => Some(reply),
            _ => None,
        };
        let replies: Vec<Effect> = replies;
        replies.into_iter().filter_map(reply).collect()
    }
}

fn load(world: &mut World, settings: &TopicSettings, key: CacheKey, now: Now, faults: Faults) -> (Topic, Option<Sequences>) {
    let loaded = world.load(settings.ledger, now.wall_ms);
    let found = settings.deduplication.enabled.then(|| world.sequences(&loaded));
    let name: TopicName = "persistent://public/default/simulated".parse().expect("a valid name");
    let compacted = world.compacted(&loaded);
    let mut topic = Topic::new(name, loaded.chain, loaded.version, loaded.cursors, settings.clone(), key, now);
    if let Some(compacted) = compacted {
        topic.set_compacted(compacted);
    }
    topic.inject(faults);
    (topic, found)
}
