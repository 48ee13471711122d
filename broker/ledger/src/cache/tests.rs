use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::EntryMeta;

fn entry(at: Position, size: usize) -> Entry {
    Entry { at, bytes: Bytes::from(vec![0; size]), meta: EntryMeta::default() }
}

fn at(ledger: i64, entry: i64) -> Position {
    Position::new(ledger, entry)
}

#[test]
fn the_oldest_insertion_of_any_topic_goes_first() {
    let mut cache = EntryCache::new(30);
    let (a, b) = (cache.open(), cache.open());
    cache.insert(a, entry(at(1, 0), 10));
    cache.insert(b, entry(at(2, 0), 10));
    cache.insert(b, entry(at(2, 1), 10));
    cache.insert(b, entry(at(2, 2), 10));
    assert!(cache.get(a, at(1, 0)).is_none() && cache.get(b, at(2, 0)).is_some());
    cache.insert(a, entry(at(1, 1), 20));
    assert!(cache.get(b, at(2, 0)).is_none() && cache.get(b, at(2, 1)).is_none());
    assert!(cache.get(b, at(2, 2)).is_some() && cache.get(a, at(1, 1)).is_some());
    assert_eq!(cache.bytes(), 30);
}

#[test]
fn an_entry_larger_than_the_budget_drives_nothing_out() {
    let mut cache = EntryCache::new(30);
    let a = cache.open();
    cache.insert(a, entry(at(1, 0), 10));
    cache.insert(a, entry(at(1, 1), 31));
    cache.insert(a, entry(at(1, 2), 10));
    let held = |n| cache.get(a, at(1, n)).is_some();
    assert_eq!(([held(0), held(1), held(2)], cache.bytes()), ([true, false, true], 20));
}

#[test]
fn no_budget_keeps_nothing() {
    let mut cache = EntryCache::new(0);
    let a = cache.open();
    cache.insert(a, entry(at(1, 0), 0));
    assert!(cache.get(a, at(1, 0)).is_none());
}

#[test]
fn a_key_given_again_shows_nothing_of_the_topic_before() {
    let mut cache = EntryCache::new(100);
    let a = cache.open();
    cache.insert(a, entry(at(1, 0), 10));
    cache.close(a);
    cache.close(a);
    cache.insert(a, entry(at(1, 1), 10));
    assert_eq!(cache.bytes(), 0);
    let b = cache.open();
    assert_eq!((a, cache.open() == a), (b, false));
    assert!(cache.get(b, at(1, 0)).is_none());
    cache.insert(b, entry(at(1, 0), 95));
    cache.insert(b, entry(at(1, 1), 10));
    assert!(cache.get(b, at(1, 0)).is_none() && cache.get(b, at(1, 1)).is_some());
}

#[test]
fn tickets_of_released_entries_do_not_pile_up_behind_an_idle_topic() {
    let mut cache = EntryCache::new(1 << 20);
    let (idle, busy) = (cache.open(), cache.open());
    cache.insert(idle, entry(at(1, 0), 10));
    for n in 0..100_000 {
        cache.insert(busy, entry(at(2, n), 10));
        cache.release(busy, at(2, n + 1));
    }
    assert_eq!(cache.bytes(), 10);
    assert!(cache.queue.len() <= 2 + STALE_TICKETS, "{} tickets", cache.queue.len());
    assert!(cache.get(idle, at(1, 0)).is_some());
}

#[derive(Clone, Debug)]
enum Step {
    /// So many entries further (in a new ledger if so), of this size.
    Insert(usize, i64, bool, usize),
    /// Everything but this many of the newest.
    Release(usize, i64),
    Reopen(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0usize..3, 0i64..3, proptest::bool::weighted(0.1), 0usize..40).prop_map(|(t, gap, roll, size)| Step::Insert(t, gap, roll, size)),
        3 => (0usize..3, 0i64..5).prop_map(|(t, keep)| Step::Release(t, keep)),
        1 => (0usize..3).prop_map(Step::Reopen),
    ]
}

proptest! {
    #[test]
    fn it_never_exceeds_its_budget_and_serves_what_was_put_in(steps in proptest::collection::vec(step(), 1..200), budget in 0usize..200) {
        let mut cache = EntryCache::new(budget);
        let mut keys = [cache.open(), cache.open(), cache.open()];
        let mut tails = [at(1, -1); 3];
        // Everything held by (topic, position), with its size and when it was inserted.
        let mut held: BTreeMap<(usize, Position), (usize, usize)> = BTreeMap::new();
        for (when, step) in steps.into_iter().enumerate() {
            match step {
                Step::Insert(topic, gap, roll, size) => {
                    let tail = tails[topic];
                    let next = if roll { at(tail.ledger.0 + 1, 0) } else { at(tail.ledger.0, tail.entry.0 + gap) };
                    cache.insert(keys[topic], entry(next, size));
                    let newest = held.range((topic, Position::EARLIEST)..=(topic, Position::LATEST)).next_back().map(|(&(_, at), _)| at);
                    if size <= budget && budget > 0 && newest.is_none_or(|newest| newest < next) {
                        held.insert((topic, next), (size, when));
                    }
                    tails[topic] = next.max(tail);
                    while held.values().map(|&(size, _)| size).sum::<usize>() > budget {
                        let (&oldest, _) = held.iter().min_by_key(|&(_, &(_, when))| when).expect("over budget");
                        held.remove(&oldest);
                    }
                }
                Step::Release(topic, keep) => {
                    let before = at(tails[topic].ledger.0, tails[topic].entry.0 - keep);
                    cache.release(keys[topic], before);
                    held.retain(|&(t, at), _| t != topic || at >= before);
                }
                Step::Reopen(topic) => {
                    cache.close(keys[topic]);
                    keys[topic] = cache.open();
                    held.retain(|&(t, _), _| t != topic);
                }
            }
            prop_assert!(cache.bytes() <= budget);
            prop_assert_eq!(cache.bytes(), held.values().map(|&(size, _)| size).sum::<usize>());
            prop_assert_eq!(cache.entries, held.len());
            for topic in 0..3 {
                for ledger in 0..=tails[topic].ledger.0 {
                    for n in -1..tails[topic].entry.0 + 5 {
                        let found = cache.get(keys[topic], at(ledger, n)).map(|entry| (entry.at, entry.bytes.len()));
                        prop_assert_eq!(found, held.get(&(topic, at(ledger, n))).map(|&(size, _)| (at(ledger, n), size)));
                    }
                }
            }
        }
    }
}
