//! Which entries are acked beyond a cursor's mark-delete position: bitmaps in chunks, ledger by ledger.
//!
//! Setting and asking a bit is O(1) within a ledger. Chunks exist only where bits are set and go when they are empty;
//! their directory costs one byte per 128 entries spanned. Runs are skipped a word at a time.

use std::collections::VecDeque;

use crate::chain::Run;
use crate::{LedgerId, Position};

/// The set. It knows nothing of the mark-delete position: its owner takes out what that has passed.
#[derive(Debug, Default)]
pub(crate) struct Acked {
    /// In growing order of id; a ledger may stay with no bit set until the mark-delete position has left it.
    ledgers: VecDeque<Bits>,
    total: u64,
    spare: Spare,
}

/// The bits of one ledger. Chunks at the front are never `None`.
#[derive(Debug)]
struct Bits {
    ledger: LedgerId,
    /// The number of the first chunk.
    base: usize,
    chunks: VecDeque<Option<Box<Chunk>>>,
}

#[derive(Debug, Default)]
struct Chunk {
    words: [u64; WORDS],
    /// Bits set.
    count: u32,
}

/// Empty chunks kept, so that a window of acks moves on without allocating.
#[derive(Debug, Default)]
struct Spare {
    #[allow(clippy::vec_box, reason = "the boxes themselves are what is kept")]
    chunks: Vec<Box<Chunk>>,
}

/// Where an entry's bit is.
#[derive(Clone, Copy)]
struct Place {
    chunk: usize,
    word: usize,
    bit: u32,
}

const WORDS: usize = 16;
const CHUNK_BITS: u64 = WORDS as u64 * 64;
const SPARE_CHUNKS: usize = 4;

impl Acked {
    /// Bits set.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.total == 0
    }

    pub(crate) fn contains(&self, at: Position) -> bool {
        let (Some(bits), Some(place)) = (self.bits(at.ledger), Place::of(at.entry.0)) else { return false };
        bits.chunk(place.chunk).is_some_and(|chunk| chunk.words[place.word] & (1 << place.bit) != 0)
    }

    /// Sets the bit of an entry; false if it was set.
    pub(crate) fn insert(&mut self, at: Position) -> bool {
        let Some(place) = Place::of(at.entry.0) else { return false };
        let index = self.ensure(at.ledger);
        let chunk = self.ledgers[index].ensure(place.chunk, &mut self.spare);
        let newly = chunk.set(place.word, 1 << place.bit);
        self.total += u64::from(newly);
        newly > 0
    }

    /// Sets the bits of a run of entries.
    pub(crate) fn insert_run(&mut self, run: Run) {
        let (Some(mut place), Ok(end)) = (Place::of(run.first), u64::try_from(run.last.saturating_add(1))) else { return };
        let index = self.ensure(run.ledger);
        while place.entry() < end {
            let here = (end - place.entry()).min(u64::from(64 - place.bit)) as u32;
            let chunk = self.ledgers[index].ensure(place.chunk, &mut self.spare);
            self.total += u64::from(chunk.set(place.word, ones(here) << place.bit));
            place = Place::at(place.entry() + u64::from(here));
        }
    }

    /// Clears the run of set bits that begins at `at`; returns its length, 0 if the bit of `at` is not set.
    pub(crate) fn take_run(&mut self, at: Position) -> u64 {
        let (Some(index), Some(mut place)) = (self.index(at.ledger), Place::of(at.entry.0)) else { return 0 };
        let bits = &mut self.ledgers[index];
        let mut taken = 0;
        while let Some(chunk) = bits.chunk_mut(place.chunk) {
            let run = (chunk.words[place.word] >> place.bit).trailing_ones();
            if run == 0 {
                break;
            }
            chunk.words[place.word] &= !(ones(run) << place.bit);
            chunk.count -= run;
            if chunk.count == 0 {
                bits.release(place.chunk, &mut self.spare);
            }
            taken += u64::from(run);
            if place.bit + run < 64 {
                break;
            }
            place = Place::at(place.entry() + u64::from(run));
        }
        self.total -= taken;
        taken
    }

    /// Clears every bit up to and including `at`'s, and forgets the ledgers before it.
    pub(crate) fn forget_through(&mut self, at: Position) {
        self.forget_before(at.ledger);
        let Some(end) = Place::of(at.entry.0.saturating_add(1)) else { return };
        let Some(bits) = self.ledgers.front_mut().filter(|bits| bits.ledger == at.ledger) else { return };
        while bits.base < end.chunk
            && let Some(chunk) = bits.chunks.front_mut()
        {
            if let Some(chunk) = chunk.as_mut() {
                self.total -= u64::from(chunk.count);
                chunk.words = [0; WORDS];
                chunk.count = 0;
            }
            bits.release(bits.base, &mut self.spare);
        }
        if let Some(chunk) = bits.chunk_mut(end.chunk) {
            let before = chunk.count;
            chunk.words[..end.word].fill(0);
            chunk.words[end.word] &= !ones(end.bit);
            chunk.count = chunk.words.iter().map(|word| word.count_ones()).sum();
            self.total -= u64::from(before - chunk.count);
            if chunk.count == 0 {
                bits.release(end.chunk, &mut self.spare);
            }
        }
    }

    /// Forgets the ledgers before `ledger`.
    pub(crate) fn forget_before(&mut self, ledger: LedgerId) {
        while let Some(bits) = self.ledgers.pop_front_if(|bits| bits.ledger < ledger) {
            self.total -= bits.count();
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.ledgers.clear();
        self.total = 0;
    }

    /// The first entry of `at`'s ledger, from `at` on, whose bit is not set.
    pub(crate) fn first_clear(&self, at: Position) -> Position {
        match self.bits(at.ledger) {
            Some(bits) => Position::new(at.ledger.0, bits.first_clear(at.entry.0)),
            None => at,
        }
    }

    /// The runs of set bits, in order.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        self.ledgers.iter().flat_map(Bits::runs)
    }

    fn bits(&self, ledger: LedgerId) -> Option<&Bits> {
        self.index(ledger).map(|index| &self.ledgers[index])
    }

    fn index(&self, ledger: LedgerId) -> Option<usize> {
        // Nearly always there is one ledger, or the first is asked for.
        if self.ledgers.front()?.ledger == ledger {
            return Some(0);
        }
        self.ledgers.binary_search_by_key(&ledger, |bits| bits.ledger).ok()
    }

    fn ensure(&mut self, ledger: LedgerId) -> usize {
        if let Some(index) = self.index(ledger) {
            return index;
        }
        let index = self.ledgers.partition_point(|bits| bits.ledger < ledger);
        self.ledgers.insert(index, Bits { ledger, base: 0, chunks: VecDeque::new() });
        index
    }
}

impl Bits {
    fn chunk(&self, number: usize) -> Option<&Chunk> {
        self.chunks.get(number.checked_sub(self.base)?)?.as_deref()
    }

    fn chunk_mut(&mut self, number: usize) -> Option<&mut Chunk> {
        self.chunks.get_mut(number.checked_sub(self.base)?)?.as_deref_mut()
    }

    fn ensure(&mut self, number: usize, spare: &mut Spare) -> &mut Chunk {
        if self.chunks.is_empty() {
            self.base = number;
        }
        while self.base > number {
            self.chunks.push_front(None);
            self.base -= 1;
        }
        let index = number - self.base;
        if index >= self.chunks.len() {
            self.chunks.resize_with(index + 1, || None);
        }
        self.chunks[index].get_or_insert_with(|| spare.chunks.pop().unwrap_or_default())
    }

    /// Takes out an empty chunk.
    fn release(&mut self, number: usize, spare: &mut Spare) {
        let chunk = self.chunks.get_mut(number - self.base).and_then(Option::take);
        if let Some(chunk) = chunk.filter(|_| spare.chunks.len() < SPARE_CHUNKS) {
            spare.chunks.push(chunk);
        }
        while self.chunks.pop_front_if(|chunk| chunk.is_none()).is_some() {
            self.base += 1;
        }
    }

    fn count(&self) -> u64 {
        self.chunks.iter().flatten().map(|chunk| u64::from(chunk.count)).sum()
    }

    fn first_clear(&self, entry: i64) -> i64 {
        let Some(mut place) = Place::of(entry) else { return entry };
        while let Some(chunk) = self.chunk(place.chunk) {
            let run = (chunk.words[place.word] >> place.bit).trailing_ones();
            let full = place.bit + run == 64;
            place = Place::at(place.entry() + u64::from(run));
            if !full {
                break;
            }
        }
        place.entry() as i64
    }

    /// The first entry from `entry` on whose bit is set.
    fn first_set(&self, entry: u64) -> Option<u64> {
        let mut place = Place::at(entry.max(self.base as u64 * CHUNK_BITS));
        loop {
            let Some(chunk) = self.chunks.get(place.chunk - self.base)?.as_deref() else {
                place = Place { chunk: place.chunk + 1, word: 0, bit: 0 };
                continue;
            };
            let word = chunk.words[place.word] & (u64::MAX << place.bit);
            if word != 0 {
                return Some(Place { bit: word.trailing_zeros(), ..place }.entry());
            }
            place = Place::at((place.entry() | 63) + 1);
        }
    }

    fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let first = self.first_set(from)? as i64;
            let end = self.first_clear(first);
            from = end as u64;
            Some(Run { ledger: self.ledger, first, last: end - 1 })
        })
    }
}

impl Chunk {
    /// Sets the bits of `mask` in a word; returns how many were not set.
    fn set(&mut self, word: usize, mask: u64) -> u32 {
        let newly = (mask & !self.words[word]).count_ones();
        self.words[word] |= mask;
        self.count += newly;
        newly
    }
}

impl Place {
    fn of(entry: i64) -> Option<Place> {
        u64::try_from(entry).ok().map(Place::at)
    }

    fn at(entry: u64) -> Place {
        Place { chunk: (entry / CHUNK_BITS) as usize, word: (entry % CHUNK_BITS / 64) as usize, bit: (entry % 64) as u32 }
    }

    fn entry(self) -> u64 {
        self.chunk as u64 * CHUNK_BITS + self.word as u64 * 64 + u64::from(self.bit)
    }
}

/// The lowest `n` bits, n up to 64.
fn ones(n: u32) -> u64 {
    u64::MAX.checked_shr(64 - n).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(Position),
        InsertRun(Run),
        TakeRun(Position),
        ForgetThrough(Position),
    }

    fn place() -> impl Strategy<Value = Position> {
        (0i64..3, prop_oneof![0i64..200, 900i64..1200, 5000i64..5200]).prop_map(|(ledger, entry)| Position::new(ledger, entry))
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => place().prop_map(Step::Insert),
            4 => (place(), 0i64..1500).prop_map(|(at, n)| Step::InsertRun(Run { ledger: at.ledger, first: at.entry.0, last: at.entry.0 + n })),
            2 => place().prop_map(Step::TakeRun),
            1 => place().prop_map(Step::ForgetThrough),
        ]
    }

    fn run_from(set: &BTreeSet<Position>, at: Position) -> Vec<Position> {
        std::iter::successors(Some(at), |at| Some(at.following())).take_while(|at| set.contains(at)).collect()
    }

    proptest! {
        #[test]
        fn it_is_a_set_of_positions(steps in proptest::collection::vec(step(), 1..40), probes in proptest::collection::vec(place(), 20)) {
            let mut acked = Acked::default();
            let mut set = BTreeSet::new();
            for step in steps {
                match step {
                    Step::Insert(at) => prop_assert_eq!(acked.insert(at), set.insert(at)),
                    Step::InsertRun(run) => {
                        acked.insert_run(run);
                        set.extend((run.first..=run.last).map(|entry| Position::new(run.ledger.0, entry)));
                    }
                    Step::TakeRun(at) => {
                        let run = run_from(&set, at);
                        prop_assert_eq!(acked.take_run(at), run.len() as u64);
                        run.iter().for_each(|at| { set.remove(at); });
                    }
                    Step::ForgetThrough(at) => {
                        acked.forget_through(at);
                        set.retain(|&p| p > at);
                    }
                }
                prop_assert_eq!(acked.total(), set.len() as u64);
            }
            let listed: Vec<Position> = acked.runs().flat_map(|r| (r.first..=r.last).map(move |e| Position::new(r.ledger.0, e))).collect();
            prop_assert_eq!(listed, set.iter().copied().collect::<Vec<_>>());
            let runs: Vec<Run> = acked.runs().collect();
            prop_assert!(runs.windows(2).all(|w| w[0].ledger < w[1].ledger || w[0].last + 1 < w[1].first));
            for at in probes {
                prop_assert_eq!(acked.contains(at), set.contains(&at));
                prop_assert_eq!(acked.first_clear(at), run_from(&set, at).last().map_or(at, |last| last.following()));
            }
        }
    }

    #[test]
    fn a_far_ack_costs_one_chunk() {
        let mut acked = Acked::default();
        assert!(acked.insert(Position::new(1, 3)));
        assert!(acked.insert(Position::new(1, 40_000_000)));
        let chunks = acked.ledgers[0].chunks.iter().flatten().count();
        assert_eq!(chunks, 2);
        assert_eq!(acked.take_run(Position::new(1, 3)), 1);
        assert_eq!(acked.ledgers[0].chunks.len(), 1);
    }

    #[test]
    fn a_moving_window_keeps_its_chunks() {
        let mut acked = Acked::default();
        for entry in 0..100_000 {
            acked.insert(Position::new(1, entry + 1));
            acked.take_run(Position::new(1, entry + 1));
            assert!(acked.ledgers[0].chunks.len() <= 1 && acked.spare.chunks.len() <= 1);
        }
    }
}
