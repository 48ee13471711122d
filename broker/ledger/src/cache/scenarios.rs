//! Made-up traces from a seed: what readers of a broker typically do, to compare policies on before there are recordings.
//!
//! They are open: readers move at the pace that the seed gives them, whatever the cache serves.

use super::host::ReadPurpose;
use super::trace::{Record, Timed};

/// Readers and publishers act this often.
const STEP_US: u64 = 10_000;

/// Most entries of a read.
const BATCH: u64 = 100;

/// How large entries are.
#[derive(Clone, Copy, Debug)]
pub enum EntrySize {
    /// All alike.
    Equal(u32),
    /// Between these, small ones far more often.
    Mixed(u32, u32),
}

/// A scenario at a fraction of its size: rates, backlogs and batches are divided by `divisor`.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// 1 for full size.
    pub divisor: u64,
    /// How large entries are.
    pub size: EntrySize,
}

/// Rolling restarts: 5 topics with 10 subscriptions each and 5,000 entries a second; every 3 of 12 seconds the broker is gone for 600 ms,
/// and consumers come back within 50 to 1,500 ms, up to 200 entries before where they were.
#[must_use]
pub fn restart(seed: u64, scale: Scale) -> Vec<Timed> {
    let mut stage = Stage::new(seed, scale, 5, 5_000);
    stage.subscribe(10, 0, Gait { slow: 20, least: 80, most: 220 });
    for life in 0..4 {
        if life > 0 {
            stage.restart(600_000, 50_000..1_500_000, 200);
        }
        let end = (life + 1) * 3_000_000;
        while stage.now < end {
            stage.step();
        }
    }
    stage.trace
}

/// Catching up: one topic with 2,500 entries a second and 50,000 from before, one subscription at its end, three that join at its beginning
/// after a second and one after 20 of 40 seconds.
#[must_use]
pub fn catch_up(seed: u64, scale: Scale) -> Vec<Timed> {
    let mut stage = Stage::new(seed, scale, 1, 2_500);
    stage.topics[0].end = 50_000 / scale.divisor;
    stage.subscribe(1, 50_000 / scale.divisor, Gait { slow: 0, least: 100, most: 150 });
    while stage.now < 40_000_000 {
        if stage.now == 1_000_000 || stage.now == 20_000_000 {
            let joiners = if stage.now == 1_000_000 { 3 } else { 1 };
            stage.subscribe(joiners, 0, Gait { slow: 20, least: 150, most: 400 });
        }
        stage.step();
    }
    stage.trace
}

/// Fan-out at the end: 3 topics with 20 subscriptions each and 2,000 entries a second for 10 seconds, all close to the end, some pausing.
#[must_use]
pub fn tail_fan_out(seed: u64, scale: Scale) -> Vec<Timed> {
    let mut stage = Stage::new(seed, scale, 3, 2_000);
    stage.subscribe(20, 0, Gait { slow: 10, least: 90, most: 200 });
    while stage.now < 10_000_000 {
        stage.step();
    }
    stage.trace
}

/// Key_Shared with a slow consumer: 2,000 entries a second for 20 seconds, of which one subscription cannot deliver one in twenty and reads
/// it again 0.1 to 3 seconds later; a second one keeps up, a third is 3 seconds behind.
#[must_use]
pub fn key_shared(seed: u64, scale: Scale) -> Vec<Timed> {
    let mut stage = Stage::new(seed, scale, 1, 2_000);
    stage.subscribe(2, 0, Gait { slow: 0, least: 100, most: 150 });
    stage.slow_key_of = Some((0, 0));
    while stage.now < 20_000_000 {
        if stage.now == 3_000_000 {
            stage.subscribe(1, 0, Gait { slow: 0, least: 95, most: 105 });
        }
        stage.step();
    }
    stage.trace
}

/// Percent of the publish rate at which a reader moves, drawn anew every 200 to 800 ms.
#[derive(Clone, Copy, Debug)]
struct Gait {
    /// How often out of 100 it is slow: below half the rate.
    slow: u64,
    least: u64,
    most: u64,
}

struct Stage {
    random: Random,
    scale: Scale,
    /// Entries a second and topic.
    rate: u64,
    now: u64,
    topics: Vec<Topic>,
    /// Topic and cursor of a subscription with a slow consumer.
    slow_key_of: Option<(usize, usize)>,
    /// Entries that it will read again, by when.
    waiting: std::collections::BTreeSet<(u64, u64)>,
    trace: Vec<Timed>,
}

#[derive(Default)]
struct Topic {
    end: u64,
    sizes: Vec<u32>,
    readers: Vec<Reader>,
}

#[derive(Clone, Copy)]
struct Reader {
    at: u64,
    gait: Gait,
    pace: u64,
    until: u64,
    /// Hundredths of an entry that it may read.
    credit: u64,
    /// When its consumer is there; known to the broker before.
    back: u64,
    active: bool,
}

impl Stage {
    fn new(seed: u64, scale: Scale, topics: usize, rate: u64) -> Stage {
        Stage {
            random: Random(seed),
            scale,
            rate: rate / scale.divisor,
            now: 0,
            topics: (0..topics).map(|_| Topic::default()).collect(),
            slow_key_of: None,
            waiting: std::collections::BTreeSet::new(),
            trace: Vec::new(),
        }
    }

    fn subscribe(&mut self, cursors: usize, at: u64, gait: Gait) {
        for topic in 0..self.topics.len() {
            for _ in 0..cursors {
                let cursor = self.topics[topic].readers.len() as u32;
                self.topics[topic].readers.push(Reader { at, gait, pace: 100, until: 0, credit: 0, back: self.now, active: true });
                self.note(Record::Cursor { topic: topic as u32, cursor, at, mark_delete: at, active: true });
            }
        }
    }

    fn note(&mut self, record: Record) {
        self.trace.push((self.now, record));
    }

    /// The broker goes and comes back with every subscription known and no consumer connected.
    fn restart(&mut self, down: u64, back: std::ops::Range<u64>, rewind: u64) {
        self.now += down;
        self.note(Record::Restart);
        for topic in 0..self.topics.len() {
            for cursor in 0..self.topics[topic].readers.len() {
                let rewound = self.random.below(rewind / self.scale.divisor + 1);
                let wait = back.start + self.random.below(back.end - back.start);
                let reader = &mut self.topics[topic].readers[cursor];
                (reader.at, reader.back, reader.active, reader.credit) = (reader.at.saturating_sub(rewound), self.now + wait, false, 0);
                let at = reader.at;
                self.note(Record::Cursor { topic: topic as u32, cursor: cursor as u32, at, mark_delete: at, active: false });
            }
        }
    }

    fn step(&mut self) {
        for topic in 0..self.topics.len() {
            self.publish(topic);
        }
        let readers = self.topics.iter().enumerate();
        let mut turns: Vec<(usize, usize)> =
            readers.flat_map(|(topic, home)| (0..home.readers.len()).map(move |cursor| (topic, cursor))).collect();
        for last in (1..turns.len()).rev() {
            turns.swap(last, self.random.below(last as u64 + 1) as usize);
        }
        for (topic, cursor) in turns {
            self.walk(topic, cursor);
        }
        self.read_again();
        self.now += STEP_US;
    }

    fn publish(&mut self, topic: usize) {
        let count = (self.rate * STEP_US / 1_000_000).max(1);
        let sizes: Vec<u32> = (0..count).map(|_| self.size()).collect();
        let first = self.topics[topic].end;
        self.topics[topic].end += count;
        self.topics[topic].sizes.extend(&sizes);
        self.note(Record::Published { topic: topic as u32, first, sizes });
    }

    fn size(&mut self) -> u32 {
        match self.scale.size {
            EntrySize::Equal(bytes) => bytes,
            EntrySize::Mixed(least, most) => {
                // Each doubling is as likely as the next.
                let doublings = (most / least).ilog2() as u64;
                let base = u64::from(least) << self.random.below(doublings + 1);
                (base + self.random.below(base)).min(u64::from(most)) as u32
            }
        }
    }

    fn walk(&mut self, topic: usize, cursor: usize) {
        let (now, end) = (self.now, self.topics[topic].end);
        let mut reader = self.topics[topic].readers[cursor];
        if now < reader.back {
            return;
        }
        if !reader.active {
            reader.active = true;
            self.note(Record::Cursor { topic: topic as u32, cursor: cursor as u32, at: reader.at, mark_delete: reader.at, active: true });
        }
        if now >= reader.until {
            let Gait { slow, least, most } = reader.gait;
            reader.pace = if self.random.below(100) < slow { self.random.below(50) } else { least + self.random.below(most - least) };
            reader.until = now + 200_000 + self.random.below(600_000);
        }
        reader.credit = (reader.credit + reader.pace * self.rate * STEP_US / 1_000_000).min(200 * BATCH);
        let batch = (BATCH / self.scale.divisor).max(1);
        while reader.credit >= 100 && reader.at < end {
            let count = (reader.credit / 100).min(batch).min(end - reader.at);
            self.read(topic, cursor, reader.at, count, ReadPurpose::Cursor);
            self.put_off(topic, cursor, reader.at, count);
            reader.credit -= count * 100;
            reader.at += count;
            self.note(Record::MarkDeleted { topic: topic as u32, cursor: cursor as u32, at: reader.at });
        }
        self.topics[topic].readers[cursor] = reader;
    }

    fn read(&mut self, topic: usize, cursor: usize, first: u64, count: u64, purpose: ReadPurpose) {
        let bytes = match self.scale.size {
            EntrySize::Equal(bytes) => u64::from(bytes) * count,
            EntrySize::Mixed(..) => {
                // What was published before the trace began is taken for small.
                let home = &self.topics[topic];
                let before = home.end - home.sizes.len() as u64;
                let size = |entry: u64| entry.checked_sub(before).and_then(|at| home.sizes.get(at as usize)).copied().unwrap_or(1024);
                (first..first + count).map(|entry| u64::from(size(entry))).sum()
            }
        };
        let hits = vec![0; (count as usize).div_ceil(8)];
        self.note(Record::Read { topic: topic as u32, cursor: cursor as u32, first, count: count as u16, purpose, bytes, hits });
    }

    /// Some of what was read cannot be delivered yet.
    fn put_off(&mut self, topic: usize, cursor: usize, first: u64, count: u64) {
        if self.slow_key_of != Some((topic, cursor)) {
            return;
        }
        for entry in first..first + count {
            if self.random.below(20) == 0 {
                self.waiting.insert((self.now + 100_000 + self.random.below(2_900_000), entry));
                self.note(Record::Replay { topic: topic as u32, cursor: cursor as u32, first: entry, count: 1, more: true });
            }
        }
    }

    fn read_again(&mut self) {
        while let Some((due, entry)) = self.waiting.first().copied().filter(|(due, _)| *due <= self.now) {
            self.waiting.remove(&(due, entry));
            let (topic, cursor) = self.slow_key_of.unwrap_or_default();
            self.read(topic, cursor, entry, 1, ReadPurpose::Replay);
            self.note(Record::Replay { topic: topic as u32, cursor: cursor as u32, first: entry, count: 1, more: false });
        }
    }
}

/// Numbers from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }
}
