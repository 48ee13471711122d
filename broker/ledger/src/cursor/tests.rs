use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::{LedgerLimits, LedgerList, Retention};

const NO_LIMITS: LedgerLimits = LedgerLimits { max_entries: u64::MAX, max_bytes: u64::MAX, min_age_ms: 0, max_age_ms: 0 };

fn at(ledger: i64, entry: i64) -> Position {
    Position::new(ledger, entry)
}

fn at_of(ledger: LedgerId, entry: i64) -> Position {
    at(ledger.0, entry)
}

fn append(chain: &mut ManagedLedger, n: usize) {
    for _ in 0..n {
        let at = chain.append(10).expect("open");
        chain.confirm(at);
    }
}

fn roll(chain: &mut ManagedLedger) {
    let next = LedgerId(chain.current().0 + 2);
    chain.begin_rollover();
    chain.next_ledger(next, 1);
    chain.rolled();
}

/// A chain of ledgers 1, 3, 5... with these sizes.
fn chain(sizes: &[usize]) -> ManagedLedger {
    let mut chain = ManagedLedger::recover(LedgerList::default(), None, LedgerId(1), NO_LIMITS, 1);
    for (index, &size) in sizes.iter().enumerate() {
        if index > 0 {
            roll(&mut chain);
        }
        append(&mut chain, size);
    }
    chain
}

fn entries(chain: &ManagedLedger) -> Vec<Position> {
    chain.ledgers().iter().flat_map(|ledger| (0..ledger.entries as i64).map(|entry| at(ledger.id.0, entry))).collect()
}

fn set(messages: impl IntoIterator<Item = u32>) -> AckSet {
    let mut words = Vec::new();
    for message in messages {
        words.resize(words.len().max(message as usize / 64 + 1), 0);
        words[message as usize / 64] |= 1 << (message % 64);
    }
    AckSet(words)
}

/// The batch at a position: some are single messages, some need two words.
fn messages(at: Position) -> u32 {
    [1, 2, 64, 70][(at.entry.0 + at.ledger.0) as usize % 4]
}

/// A cursor as a list of all that is acked.
struct Model {
    acked: BTreeSet<Position>,
    batches: BTreeMap<Position, BTreeSet<u32>>,
    read: Position,
}

impl Model {
    fn first_unacked(&self, chain: &ManagedLedger) -> Position {
        let end = chain.next(Position::LATEST);
        entries(chain).into_iter().find(|at| !self.acked.contains(at)).unwrap_or(end)
    }

    fn mark_delete(&self, chain: &ManagedLedger) -> Position {
        let first = self.first_unacked(chain);
        entries(chain).into_iter().rfind(|&at| at < first).unwrap_or(chain.before_first())
    }

    fn ack(&mut self, chain: &ManagedLedger, at: Position) -> bool {
        let before = self.mark_delete(chain);
        let newly = entries(chain).contains(&at) && self.acked.insert(at);
        self.settle(chain, before);
        newly
    }

    fn ack_batch(&mut self, chain: &ManagedLedger, at: Position, remaining: &AckSet) -> BatchAck {
        let exists = entries(chain).contains(&at);
        if self.acked.contains(&at) || !exists {
            return BatchAck { newly_acked: 0, entry_done: exists };
        }
        let all: BTreeSet<u32> = (0..messages(at)).collect();
        let before = self.batches.get(&at).unwrap_or(&all).clone();
        let bit = |message: &u32| remaining.0.get(*message as usize / 64).is_some_and(|word| word >> (message % 64) & 1 == 1);
        let left: BTreeSet<u32> = before.iter().copied().filter(bit).collect();
        let ack = BatchAck { newly_acked: (before.len() - left.len()) as u32, entry_done: left.is_empty() };
        if left.is_empty() {
            self.ack(chain, at);
        } else if left.len() < all.len() {
            self.batches.insert(at, left);
        }
        ack
    }

    fn ack_cumulative(&mut self, chain: &ManagedLedger, at: Position) -> bool {
        let all = entries(chain);
        let past_the_end = at.entry.0 >= 0 && all.last().is_none_or(|&last| at > last);
        let before = self.mark_delete(chain);
        if !past_the_end {
            self.acked.extend(all.into_iter().filter(|&entry| entry <= at && entry > before));
        }
        self.settle(chain, before);
        self.mark_delete(chain) > before
    }

    fn seek(&mut self, chain: &ManagedLedger, next: Position) {
        self.acked = entries(chain).into_iter().filter(|&at| at < next).collect();
        self.batches.clear();
        self.read = self.first_unacked(chain);
    }

    fn settle(&mut self, chain: &ManagedLedger, before: Position) {
        self.batches.retain(|at, _| !self.acked.contains(at));
        let mark_delete = self.mark_delete(chain);
        if mark_delete > before && self.read <= mark_delete {
            self.read = self.first_unacked(chain);
        }
    }

    /// Ledgers left the chain when the mark-delete position was `before`.
    fn trimmed(&mut self, chain: &ManagedLedger, before: Position) {
        let front = chain.before_first();
        self.acked.retain(|&at| at > front);
        self.batches.retain(|&at, _| at > front);
        self.settle(chain, before);
        if self.read <= front {
            self.read = self.first_unacked(chain);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Append(usize),
    Roll,
    Trim,
    Truncate,
    Ack(Place),
    AckBatch(Place, AckSet),
    Cumulative(Place),
    CumulativeInBatch(Place, AckSet),
    Seek(Place),
    ReadFrom(Place),
    Rewind,
    Reload,
}

#[derive(Clone, Debug)]
enum Place {
    /// So many entries after the mark-delete position.
    Ahead(u64),
    At(Position),
}

impl Place {
    fn find(&self, cursor: &Cursor, chain: &ManagedLedger) -> Position {
        match *self {
            Place::Ahead(n) => chain.skip(cursor.mark_delete(), n),
            Place::At(at) => at,
        }
    }
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![
        12 => (1u64..12).prop_map(Place::Ahead),
        4 => (0i64..12, -1i64..8).prop_map(|(ledger, entry)| Place::At(at(ledger, entry))),
        1 => Just(Place::At(Position::EARLIEST)),
        1 => Just(Place::At(Position::LATEST)),
    ]
}

fn ack_set() -> impl Strategy<Value = AckSet> {
    let word = prop_oneof![Just(0u64), Just(u64::MAX), any::<u64>()];
    proptest::collection::vec(word, 0..3).prop_map(AckSet)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1usize..6).prop_map(Step::Append),
        2 => Just(Step::Roll),
        1 => Just(Step::Trim),
        1 => Just(Step::Truncate),
        12 => place().prop_map(Step::Ack),
        6 => (place(), ack_set()).prop_map(|(at, set)| Step::AckBatch(at, set)),
        2 => place().prop_map(Step::Cumulative),
        1 => (place(), ack_set()).prop_map(|(at, set)| Step::CumulativeInBatch(at, set)),
        1 => place().prop_map(Step::Seek),
        1 => place().prop_map(Step::ReadFrom),
        1 => Just(Step::Rewind),
        2 => Just(Step::Reload),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_cursor_equals_the_list_of_what_is_acked(steps in proptest::collection::vec(step(), 1..60)) {
        let mut chain = chain(&[3]);
        let mut cursor = Cursor::new(Position::EARLIEST, &chain);
        let mut model = Model { acked: BTreeSet::new(), batches: BTreeMap::new(), read: chain.first() };
        for step in steps {
            let (shown, revision) = (cursor.state(usize::MAX, usize::MAX), cursor.revision());
            match step {
                Step::Append(n) => append(&mut chain, n),
                Step::Roll => roll(&mut chain),
                Step::Trim => {
                    let before = cursor.mark_delete();
                    chain.trim(Some(before), Retention::default(), 2);
                    cursor.trimmed(&chain);
                    model.trimmed(&chain, before);
                }
                Step::Truncate => {
                    let before = cursor.mark_delete();
                    chain.trim(None, Retention::default(), 2);
                    cursor.trimmed(&chain);
                    model.trimmed(&chain, before);
                }
                Step::Ack(place) => {
                    let at = place.find(&cursor, &chain);
                    prop_assert_eq!(cursor.ack(at, &chain), model.ack(&chain, at));
                }
                Step::AckBatch(place, remaining) => {
                    let at = place.find(&cursor, &chain);
                    if entries(&chain).contains(&at) {
                        let expected = model.ack_batch(&chain, at, &remaining);
                        prop_assert_eq!(cursor.ack_batch(at, &remaining, messages(at), &chain), expected);
                    }
                }
                Step::Cumulative(place) => {
                    let at = place.find(&cursor, &chain);
                    prop_assert_eq!(cursor.ack_cumulative(at, &chain), model.ack_cumulative(&chain, at));
                }
                Step::CumulativeInBatch(place, remaining) => {
                    let at = place.find(&cursor, &chain);
                    let exists = entries(&chain).contains(&at) && at > model.mark_delete(&chain);
                    let expected = exists && {
                        let moved = model.ack_cumulative(&chain, chain.previous(at));
                        model.ack_batch(&chain, at, &remaining).newly_acked > 0 || moved
                    };
                    let size = if exists { messages(at) } else { 1 };
                    prop_assert_eq!(cursor.ack_cumulative_in_batch(at, &remaining, size, &chain), expected);
                }
                Step::Seek(place) => {
                    let at = place.find(&cursor, &chain);
                    cursor.seek(at, &chain);
                    model.seek(&chain, at);
                }
                Step::ReadFrom(place) => {
                    let at = chain.at_or_next(place.find(&cursor, &chain));
                    cursor.read_from(at);
                    model.read = at;
                }
                Step::Rewind => {
                    cursor.rewind(&chain);
                    model.read = model.first_unacked(&chain);
                }
                Step::Reload => {
                    let bytes = Cursor::encode_position(&shown);
                    cursor = Cursor::restore(Cursor::decode_position(&bytes).expect("our own bytes"), &chain);
                    model.read = model.first_unacked(&chain);
                }
            }
            let all = entries(&chain);
            let front = model.mark_delete(&chain);
            // It may still name an empty ledger that a rollover replaced.
            prop_assert_eq!(chain.at_or_previous(cursor.mark_delete()), front);
            prop_assert_eq!(chain.next(cursor.mark_delete()), chain.next(front));
            // One past the end may have become the first entry of a later ledger.
            prop_assert_eq!(chain.at_or_next(cursor.read_position()), chain.at_or_next(model.read));
            prop_assert_eq!(cursor.backlog(&chain), all.iter().filter(|&at| !model.acked.contains(at)).count() as u64);
            prop_assert_eq!(cursor.acked_beyond(), model.acked.iter().filter(|&&at| at > front).count() as u64);
            let state = cursor.state(usize::MAX, usize::MAX);
            prop_assert_eq!(state.acked.len(), cursor.ranges());
            let beyond: Vec<Position> = all.iter().copied().filter(|&at| at > front && model.acked.contains(&at)).collect();
            let listed: Vec<Position> =
                all.iter().copied().filter(|&at| state.acked.iter().any(|&(lower, upper)| at > lower && at <= upper)).collect();
            prop_assert_eq!(listed, beyond);
            let batches: Vec<(Position, AckSet)> = model.batches.iter().map(|(&at, left)| (at, set(left.iter().copied()))).collect();
            prop_assert_eq!(&state.batches, &batches);
            let unacked: Vec<Position> = all.iter().copied().filter(|at| !model.acked.contains(at)).collect();
            for n in 1..=unacked.len() + 1 {
                prop_assert_eq!(cursor.nth_unacked(n as u64, &chain), unacked.get(n - 1).copied());
            }
            let runs = cursor.unacked_runs(&chain);
            let of_runs: Vec<Position> = runs.iter().flat_map(|run| (run.first..=run.last).map(|e| at_of(run.ledger, e))).collect();
            prop_assert_eq!(of_runs, unacked);
            for &at in &all {
                prop_assert_eq!(cursor.is_acked(at), model.acked.contains(&at));
                prop_assert_eq!(cursor.remaining(at).cloned(), model.batches.get(&at).map(|left| set(left.iter().copied())));
            }
            for from in all.iter().copied().chain([Position::EARLIEST, Position::LATEST, chain.next(Position::LATEST)]) {
                let next = all.iter().copied().find(|at| *at >= from && !model.acked.contains(at));
                prop_assert_eq!(cursor.next_unacked(from, &chain), next.unwrap_or(chain.next(Position::LATEST)));
            }
            prop_assert!(cursor.revision() > revision || state == shown || cursor.revision() == 0);
        }
    }

    #[test]
    fn what_is_left_out_of_a_state_is_redelivered_and_nothing_else(
        acks in proptest::collection::vec(0u64..60, 0..40), max_ranges in 0usize..6, max_batches in 0usize..3,
    ) {
        let chain = chain(&[20, 20, 25]);
        let mut cursor = Cursor::new(Position::EARLIEST, &chain);
        for &n in &acks {
            let at = chain.skip(Position::EARLIEST, n + 1);
            if n % 5 == 0 { cursor.ack_batch(at, &set([1]), 3, &chain); } else { cursor.ack(at, &chain); }
        }
        let state = cursor.state(max_ranges, max_batches);
        prop_assert_eq!(state.acked.len(), cursor.ranges().min(max_ranges));
        prop_assert!(state.batches.len() <= max_batches);
        let restored = Cursor::restore(state, &chain);
        prop_assert_eq!(restored.mark_delete(), cursor.mark_delete());
        for at in entries(&chain) {
            prop_assert!(cursor.is_acked(at) || !restored.is_acked(at));
        }
    }
}

#[test]
fn mark_delete_does_not_pass_a_hole() {
    let chain = chain(&[3, 3]);
    let mut cursor = Cursor::new(Position::EARLIEST, &chain);
    for acked in [at(1, 0), at(1, 2), at(3, 0), at(3, 1)] {
        assert!(cursor.ack(acked, &chain));
    }
    assert_eq!((cursor.mark_delete(), cursor.acked_beyond(), cursor.ranges()), (at(1, 0), 3, 2));
    assert!(cursor.ack(at(1, 1), &chain));
    assert_eq!((cursor.mark_delete(), cursor.acked_beyond(), cursor.ranges()), (at(3, 1), 0, 0));
}

#[test]
fn an_entry_that_does_not_exist_cannot_be_acked() {
    let chain = chain(&[3]);
    let mut cursor = Cursor::new(Position::EARLIEST, &chain);
    for stranger in [at(1, 3), at(1, -1), at(2, 0), Position::EARLIEST, Position::LATEST] {
        assert!(!cursor.ack(stranger, &chain), "{stranger}");
    }
    assert!(!cursor.ack_cumulative(Position::LATEST, &chain));
    assert_eq!(cursor.ack_batch(at(1, 3), &AckSet::default(), 2, &chain), BatchAck { newly_acked: 0, entry_done: false });
    assert_eq!((cursor.backlog(&chain), cursor.revision()), (3, 0));
}

#[test]
fn the_rest_of_a_batch_is_acked_once() {
    let chain = chain(&[2]);
    let mut cursor = Cursor::new(Position::EARLIEST, &chain);
    let first = at(1, 0);
    assert_eq!(cursor.ack_batch(first, &set([1, 2, 70]), 3, &chain), BatchAck { newly_acked: 1, entry_done: false });
    assert_eq!(cursor.remaining(first), Some(&set([1, 2])));
    assert_eq!(cursor.ack_batch(first, &set([0, 1, 2]), 3, &chain), BatchAck { newly_acked: 0, entry_done: false });
    assert_eq!(cursor.ack_batch(first, &set([0, 2]), 3, &chain), BatchAck { newly_acked: 1, entry_done: false });
    assert_eq!((cursor.backlog(&chain), cursor.mark_delete()), (2, chain.before_first()));
    assert_eq!(cursor.ack_batch(first, &set([0, 1]), 3, &chain), BatchAck { newly_acked: 1, entry_done: true });
    assert_eq!((cursor.backlog(&chain), cursor.mark_delete(), cursor.remaining(first)), (1, first, None));
    assert_eq!(cursor.ack_batch(first, &set([]), 3, &chain), BatchAck { newly_acked: 0, entry_done: true });
}

#[test]
fn a_batch_whose_size_is_a_lie_costs_no_memory() {
    let chain = chain(&[1]);
    let mut cursor = Cursor::new(Position::EARLIEST, &chain);
    let ack = cursor.ack_batch(at(1, 0), &set([5]), u32::MAX, &chain);
    assert_eq!(ack, BatchAck { newly_acked: u32::MAX - 1, entry_done: false });
    assert_eq!(cursor.remaining(at(1, 0)), Some(&set([5])));
}

#[test]
fn a_cumulative_ack_takes_the_read_position_along() {
    let chain = chain(&[3, 2]);
    let mut cursor = Cursor::new(Position::EARLIEST, &chain);
    cursor.ack(at(3, 0), &chain);
    assert!(cursor.ack_cumulative(at(1, 2), &chain));
    assert_eq!((cursor.mark_delete(), cursor.read_position()), (at(3, 0), at(3, 1)));
    assert!(!cursor.ack_cumulative(at(1, 1), &chain));
    cursor.read_from(at(3, 2));
    assert!(cursor.ack_cumulative(at(3, 1), &chain));
    assert_eq!((cursor.read_position(), cursor.backlog(&chain)), (at(3, 2), 0));
}

#[test]
fn the_start_of_the_next_ledger_names_the_end_of_this_one() {
    let mut chain = chain(&[2]);
    roll(&mut chain);
    let mut cursor = Cursor::new(Position::EARLIEST, &chain);
    assert!(cursor.ack_cumulative(at(3, -1), &chain));
    assert_eq!(cursor.mark_delete(), at(1, 1));
}

#[test]
fn a_stored_position_that_vanished_finds_its_place() {
    let mut chain = chain(&[2, 2, 2]);
    let restored = |mark_delete, chain: &ManagedLedger| {
        let cursor = Cursor::restore(CursorState { mark_delete, acked: vec![], batches: vec![], properties: vec![] }, chain);
        (cursor.mark_delete(), cursor.read_position())
    };
    assert_eq!(restored(Position::LATEST, &chain), (at(5, 1), at(5, 2)));
    assert_eq!(restored(at(5, 7), &chain), (at(5, 1), at(5, 2)));
    assert_eq!(restored(at(2, -1), &chain), (at(1, 1), at(3, 0)));
    assert_eq!(restored(at(3, -1), &chain), (at(1, 1), at(3, 0)));
    chain.trim(Some(at(1, 1)), Retention::default(), 2);
    assert_eq!(restored(at(1, 0), &chain), (at(3, -1), at(3, 0)));
    assert_eq!(restored(Position::EARLIEST, &chain), (at(3, -1), at(3, 0)));
}

#[test]
fn an_old_range_across_ledgers_is_taken_entry_by_entry() {
    let chain = chain(&[3, 2, 3]);
    let state = CursorState {
        mark_delete: at(1, 0),
        acked: vec![(at(1, 1), at(5, 1)), (at(5, -1), at(5, 0)), (at(9, 0), at(1, 1)), (at(5, 1), at(5, i64::MAX))],
        batches: vec![(at(1, 1), set([3])), (at(3, 0), set([1])), (at(7, 0), set([1])), (at(1, 0), set([]))],
        properties: vec![("seen".into(), 7)],
    };
    let mut cursor = Cursor::restore(state, &chain);
    assert_eq!(cursor.state(9, 9).acked, [(at(1, 1), at(1, 2)), (at(3, -1), at(3, 1)), (at(5, -1), at(5, 2))]);
    assert_eq!(cursor.state(9, 9).batches, [(at(1, 1), set([3]))]);
    assert_eq!(cursor.properties(), [("seen".to_owned(), 7)]);
    assert_eq!((cursor.mark_delete(), cursor.backlog(&chain), cursor.next_unacked(at(1, 2), &chain)), (at(1, 0), 1, at(5, 3)));
    assert!(cursor.ack(at(1, 1), &chain));
    assert_eq!((cursor.mark_delete(), cursor.backlog(&chain)), (at(5, 2), 0));
}

#[test]
fn fifty_thousand_holes_survive_a_restart() {
    let chain = chain(&[100_001]);
    let mut cursor = Cursor::new(Position::EARLIEST, &chain);
    for n in 0..50_000 {
        cursor.ack(at(1, 2 * n + 1), &chain);
    }
    let state = cursor.state(usize::MAX, usize::MAX);
    assert_eq!((state.acked.len(), cursor.backlog(&chain)), (50_000, 50_001));
    let bytes = Cursor::encode_position(&state);
    assert!(bytes.len() < 20_000, "{} bytes: bitmaps are much shorter than 50,000 ranges", bytes.len());
    assert_eq!(Cursor::decode_position(&bytes), Ok(state.clone()));
    let record = Cursor::encode_record(&state, None, &[], 5);
    let restored = Cursor::restore(Cursor::decode_record(&record).unwrap().0, &chain);
    assert_eq!(restored.state(usize::MAX, usize::MAX), state);
}
