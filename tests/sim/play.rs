//! The play: what happens next is drawn from the seed, what must hold is checked after each step.

mod acts;
mod hearing;
mod rates;
mod rest;
pub(crate) mod stall;

use std::collections::{BTreeMap, VecDeque};

use ledger::{Position, Retention};
use topic::faults::Faults;
use topic::{
    COMPACTION_CURSOR, ConnectionKey, ConsumerKey, ConsumerSlot, DEDUPLICATION_CURSOR, Deduplication, SubscriptionKind, Topic,
    TopicSettings,
};

use super::keys::Split;
use super::mirror::{Index, Mirror};
use super::owner::{Owner, small_settings};
use super::producer::{Acknowledged, Producer};
use super::world::World;

/// How a play differs from the usual.
#[derive(Clone, Copy, Default)]
pub(crate) struct Script {
    /// Deliberate mistakes of the topic.
    pub(crate) faults: Faults,
    /// A deliberate mistake of storage: it says "durable" too early.
    pub(crate) confirm_early: bool,
    /// Reads bring as much as a broker's do and ledgers are long, so that waiting tells of the topic and not of tiny reads.
    pub(crate) large_reads: bool,
    /// Steps before everything comes to rest.
    pub(crate) steps: usize,
}

/// What a play amounted to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Entries acknowledged to producers.
    pub(crate) acknowledged: usize,
    /// Entries sent to consumers.
    pub(crate) delivered: usize,
    /// Entries sent to consumers again.
    pub(crate) redelivered: usize,
    /// Times the broker died.
    pub(crate) crashes: usize,
    /// Times the topic was let go of in order.
    pub(crate) unloads: usize,
    /// Seeks answered.
    pub(crate) seeks: usize,
    /// Publishes of which the topic said that it has them.
    pub(crate) duplicates: usize,
    /// Times a consumer was told that it is the active one.
    pub(crate) takeovers: usize,
    /// Delayed entries sent to consumers that share a subscription.
    pub(crate) delayed: usize,
    /// Parts of larger messages sent to such consumers.
    pub(crate) parts: usize,
    /// Times rates and quotas changed.
    pub(crate) rate_changes: usize,
    /// Publishes held back by a rate.
    pub(crate) held: usize,
    /// Producers turned away because of a quota.
    pub(crate) over_quota: usize,
}

struct Consumer {
    key: ConsumerKey,
    subscription: &'static str,
    slot: Option<ConsumerSlot>,
    asking: bool,
    permits: i64,
    writable: bool,
    /// Whether it was told that it is the active one.
    active: Option<bool>,
}

/// One stored entry.
struct Stored {
    at: Position,
    name: String,
    sequence: u64,
    /// Whether it is no part of a larger message, or the last one.
    is_whole: bool,
}

/// What a request was for.
enum Request {
    Producer(usize),
    Consumer(Index, Option<Position>),
    Seek(&'static str, Position),
    Unsubscribe(&'static str, Index),
}

struct Play {
    rng: fastrand::Rng,
    owner: Owner,
    settings: TopicSettings,
    producers: Vec<Producer>,
    consumers: Vec<Consumer>,
    mirrors: BTreeMap<&'static str, Mirror>,
    acknowledged: Acknowledged,
    requests: BTreeMap<u64, Request>,
    next_request: u64,
    refusing: bool,
    /// Unacked messages that a subscription may hold for now.
    crowded: Option<u64>,
    /// Whether no publish asks for a delay.
    undelayed: bool,
    /// Whether there are rates and quotas, at times.
    rated: bool,
    /// Bytes of publishes that are held back.
    held_bytes: u64,
    tally: Tally,
    /// What led here, if notes are taken.
    trail: Option<VecDeque<String>>,
}

const SUBSCRIPTIONS: [(&str, SubscriptionKind, bool); 8] = [
    ("exclusive", SubscriptionKind::Exclusive, true),
    ("shared", SubscriptionKind::Shared, true),
    ("latest", SubscriptionKind::Shared, true),
    ("reader", SubscriptionKind::Exclusive, false),
    ("keys", SubscriptionKind::KeyShared, true),
    ("sticky", SubscriptionKind::KeyShared, true),
    ("loose", SubscriptionKind::KeyShared, true),
    ("failover", SubscriptionKind::Failover, true),
];

/// Who is in the play, by subscription. Every second seed is about keys.
const CASTS: [&[usize]; 2] = [&[0, 0, 1, 1, 1, 2, 2, 3, 7, 7, 7], &[4, 4, 4, 4, 5, 5, 5, 6, 6, 6]];

/// Plays one seed. An error says what did not hold, and what led to it.
pub(crate) fn play(seed: u64, script: Script) -> Result<Tally, String> {
    let mut play = Play::new(seed, script);
    if play.run(script.steps).is_ok() {
        return Ok(play.tally);
    }
    // The same again, this time with notes taken.
    let mut play = Play::new(seed, script);
    play.trail = Some(VecDeque::new());
    let violation = play.run(script.steps).expect_err("one seed is always the same play");
    let trail = Vec::from(play.trail.unwrap_or_default());
    Err(format!("seed {seed}: {violation}\n  {}", trail.join("\n  ")))
}

impl Play {
    fn new(seed: u64, script: Script) -> Play {
        let mut rng = fastrand::Rng::with_seed(seed);
        let settings = TopicSettings {
            retention: if rng.bool() { Retention::default() } else { Retention { time_ms: -1, size_bytes: -1 } },
            max_unacked_per_consumer: if rng.bool() { 0 } else { rng.u32(3..30) },
            max_unacked_per_subscription: if rng.bool() { 0 } else { rng.u32(10..60) },
            deduplication: Deduplication { enabled: rng.bool(), ..small_settings().deduplication },
            ledger: ledger::LedgerLimits { max_entries: if script.large_reads { 1_000 } else { 20 }, ..small_settings().ledger },
            max_read_entries: if script.large_reads { 100 } else { rng.usize(1..12) },
            max_read_bytes: if script.large_reads { 1 << 20 } else { small_settings().max_read_bytes },
            max_look_ahead_per_consumer: if rng.bool() { 0 } else { rng.usize(1..30) },
            max_look_ahead_per_subscription: if rng.bool() { 0 } else { rng.usize(1..60) },
            key_shared_points: if rng.bool() { 0 } else { rng.u32(1..20) },
            ..small_settings()
        };
        let cache = if rng.u8(..4) == 0 { 0 } else { rng.usize(100..5_000) };
        let mut owner = Owner::over(World::default(), settings.clone(), cache, script.faults);
        owner.confirm_early = script.confirm_early;
        owner.serves_each = rng.usize(1..4);
        let cast = CASTS[(seed % 2) as usize];
        let consumer = |index: usize| {
            let connection = ConnectionKey { worker: 1, slot: index as u32, generation: 0 };
            let (subscription, ..) = SUBSCRIPTIONS[cast[index]];
            Consumer {
                key: ConsumerKey { connection, id: index as u64 },
                subscription,
                slot: None,
                asking: false,
                permits: 0,
                writable: true,
                active: None,
            }
        };
        Play {
            rng,
            owner,
            settings,
            producers: (0..3).map(Producer::new).collect(),
            consumers: (0..cast.len()).map(consumer).collect(),
            mirrors: BTreeMap::new(),
            acknowledged: Acknowledged::new(),
            requests: BTreeMap::new(),
            next_request: 0,
            refusing: false,
            crowded: None,
            undelayed: script.large_reads,
            rated: !script.large_reads && seed.is_multiple_of(3),
            held_bytes: 0,
            tally: Tally::default(),
            trail: None,
        }
    }

    fn run(&mut self, steps: usize) -> Result<(), String> {
        for index in 0..self.consumers.len() {
            if self.rng.bool() {
                self.attach_this(index)?;
            }
        }
        for _ in 0..steps {
            self.step()?;
        }
        self.come_to_rest()
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        let Some(trail) = &mut self.trail else { return };
        while trail.len() >= 100 {
            trail.pop_front();
        }
        trail.push_back(what());
    }

    fn step(&mut self) -> Result<(), String> {
        match self.rng.u32(..1_000) {
            0..170 => self.produce()?,
            170..180 => self.change_rates(),
            180..340 => self.storage()?,
            340..420 => {
                self.owner.finish_write();
            }
            420..540 => {
                let which = self.rng.usize(..4);
                if self.rng.u8(..20) == 0 {
                    self.owner.fail_read(which)
                } else {
                    self.owner.finish_read(which)
                };
            }
            540..620 => {
                let ms = self.rng.u64(1..800);
                self.owner.wait(ms);
            }
            620..740 => self.flow()?,
            740..850 => {
                self.ack()?;
                if self.rng.u8(..6) == 0 {
                    self.check_keys()?;
                }
            }
            850..890 => self.redeliver()?,
            890..925 => self.attach_consumer()?,
            925..945 => self.detach_consumer()?,
            945..965 => self.toggle_writable()?,
            965..970 => self.seek()?,
            970..973 => self.unsubscribe()?,
            973..978 => self.detach_producer()?,
            978..980 => self.compact(),
            980..985 => {
                self.owner.fail_write();
            }
            985..987 => self.toggle_refusal(),
            987 => self.toggle_crowd(),
            988 => self.fail_appends()?,
            989 => self.refuse_change()?,
            990..993 => self.crash()?,
            993..995 => self.unload(false)?,
            _ => self.check_rest(false)?,
        }
        if self.rng.bool() {
            self.owner.tick();
        }
        self.listen()?;
        if self.owner.unload_reason.is_some() {
            self.unload(true)?;
        }
        Ok(())
    }

    /// Somebody else seems to own the topic: cursors are not written any more, as in a crash.
    fn refuse_change(&mut self) -> Result<(), String> {
        if self.owner.refuse_change() {
            self.note(|| "a change of metadata is refused".to_owned());
            self.listen()?;
            self.owner.unload_and_load();
            self.listen()?;
            self.reloaded(true)?;
        }
        Ok(())
    }

    fn split_of(&self, subscription: &str) -> Split {
        match subscription {
            "sticky" => Split::Sticky,
            "loose" => Split::Loose(self.settings.key_shared_points),
            _ => Split::Auto(self.settings.key_shared_points),
        }
    }

    fn request(&mut self, request: Request) -> u64 {
        self.next_request += 1;
        self.requests.insert(self.next_request, request);
        self.next_request
    }

    fn storage(&mut self) -> Result<(), String> {
        let most = self.rng.usize(1..12);
        self.owner.finish_appends(most);
        if self.rng.u8(..4) == 0 {
            self.owner.sync();
        }
        self.listen()
    }

    fn toggle_refusal(&mut self) {
        self.refusing = !self.refusing;
        let refusal = self.refusing.then(|| "the disk is nearly full".to_owned());
        self.owner.call(|topic, turn| topic.set_store_writable(turn, refusal));
    }

    /// Too much is held of other topics, or no longer.
    fn toggle_crowd(&mut self) {
        self.crowded = match self.crowded {
            Some(_) => None,
            None => Some(self.rng.u64(0..40)),
        };
        let most = self.crowded;
        self.note(|| format!("a subscription may hold {most:?}"));
        self.owner.call(|topic, _| topic.set_crowded(most));
    }

    /// Nobody in the play reads what is left of it; it must not disturb who reads everything.
    fn compact(&mut self) {
        self.note(|| "the topic is compacted".to_owned());
        // Refused while one is under way.
        let _ = self.owner.call(Topic::compact);
    }

    fn fail_appends(&mut self) -> Result<(), String> {
        let stored = self.rng.usize(..3);
        self.note(|| "an append fails".to_owned());
        self.owner.fail_appends(stored);
        self.listen()
    }

    fn crash(&mut self) -> Result<(), String> {
        self.tally.crashes += 1;
        self.note(|| "the broker dies".to_owned());
        let (stored, written) = (self.rng.usize(..6), self.rng.usize(..4));
        self.owner.crash(stored, written);
        self.reloaded(true)
    }

    fn unload(&mut self, failed: bool) -> Result<(), String> {
        self.tally.unloads += 1;
        self.note(|| format!("the topic is unloaded, failed: {failed}"));
        self.owner.unload_and_load();
        self.listen()?;
        self.reloaded(false)
    }

    fn reloaded(&mut self, crashed: bool) -> Result<(), String> {
        self.owner.heard.clear();
        self.refusing = false;
        self.crowded = None;
        self.held_bytes = 0;
        self.producers.iter_mut().for_each(Producer::closed);
        for consumer in &mut self.consumers {
            consumer.slot = None;
            consumer.asking = false;
        }
        for mirror in self.mirrors.values_mut() {
            mirror.reloaded(crashed);
        }
        for (_, request) in std::mem::take(&mut self.requests) {
            self.uncertain(request);
        }
        let own = [DEDUPLICATION_CURSOR, COMPACTION_CURSOR];
        let recorded: Vec<String> = self.owner.world.cursors().filter(|name| !own.contains(name)).map(str::to_owned).collect();
        self.mirrors.retain(|name, _| recorded.iter().any(|recorded| recorded == name));
        for name in recorded {
            let (known, kind, durable) = SUBSCRIPTIONS.into_iter().find(|(known, ..)| *known == name).expect("known");
            // Its creation was never answered: nothing is promised but what comes from now on.
            let floor = self.end();
            let split = self.split_of(known);
            self.mirrors.entry(known).or_insert_with(|| Mirror::new(kind, durable, split, floor));
        }
        self.check_nothing_lost()
    }

    fn check_nothing_lost(&self) -> Result<(), String> {
        let lost = |at: &Position| !self.owner.world.holds(*at) && !self.owner.world.deleted.contains(&at.ledger);
        match self.acknowledged.keys().find(|at| lost(at)) {
            Some(at) => Err(format!("{at} was acknowledged and is lost")),
            None if self.settings.deduplication.enabled => self.check_nothing_twice(),
            None => Ok(()),
        }
    }

    /// Where the next entry lands: what is stored and was never acknowledged counts, as its producer may be told so later.
    fn end(&self) -> Position {
        let last = self.owner.topic.stats().last_confirmed;
        let (ledger, entry) = last.split_once(':').expect("ledger:entry");
        let stored = Position::new(ledger.parse().expect("a number"), entry.parse().expect("a number"));
        self.acknowledged.last_key_value().map_or(stored, |(at, _)| stored.max(*at)).following()
    }

    fn check_nothing_twice(&self) -> Result<(), String> {
        let mut seen = BTreeMap::new();
        // Of a larger message any part but the last may be there again.
        for Stored { at, name, sequence, .. } in self.stored().filter(|stored| stored.is_whole) {
            if let Some(before) = seen.insert((name.clone(), sequence), at) {
                return Err(format!("{sequence} of {name} is stored twice, at {before} and {at}"));
            }
        }
        Ok(())
    }

    /// Everything that is stored.
    fn stored(&self) -> impl Iterator<Item = Stored> {
        let ledgers = self.owner.topic.stats().ledgers.into_iter().map(|(id, ..)| ledger::LedgerId(id));
        let entries = |id: ledger::LedgerId| {
            self.owner.world.entries(id).iter().zip(0..).filter_map(move |(bytes, number)| {
                let peek = wire::payload::peek(bytes).ok()?;
                let is_whole = peek.chunk.is_none_or(|chunk| chunk.is_last());
                Some(Stored { at: Position::new(id.0, number), name: peek.producer_name.to_owned(), sequence: peek.sequence_id, is_whole })
            })
        };
        ledgers.flat_map(entries)
    }
}

/// Where the topic begins: ledgers that nobody needed any more are gone.
fn first(topic: &Topic) -> Position {
    Position::new(topic.stats().ledgers.first().map_or(0, |(id, ..)| *id), 0)
}
