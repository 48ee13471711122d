//! What it costs to know where readers are: nanoseconds for a move and for a rank, beside a tracker that knows the slowest only.
//! Cursors move forward by 1 to 99 entries, drawn at random or one after the other.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use geminga_ledger::cache::readers::Readers;

const MOVES: u64 = 1_000_000;

/// Knows where the slowest is: places in order, each with how many cursors are there.
#[derive(Default)]
struct Slowest {
    places: BTreeMap<u64, u32>,
    cursors: Vec<u64>,
}

impl Slowest {
    fn set(&mut self, cursor: u32, at: u64) {
        let index = cursor as usize;
        if self.cursors.len() <= index {
            self.cursors.resize(index + 1, at);
        } else {
            let before = std::mem::replace(&mut self.cursors[index], at);
            if let Some(count) = self.places.get_mut(&before) {
                *count -= 1;
                if *count == 0 {
                    self.places.remove(&before);
                }
            }
        }
        *self.places.entry(at).or_default() += 1;
    }

    fn slowest(&self) -> Option<u64> {
        self.places.first_key_value().map(|(at, _)| *at)
    }
}

#[allow(clippy::print_stdout, reason = "a table is what it is for")]
fn main() {
    // Called by `cargo test`: there is nothing to measure.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    println!("{:>7}  {:>6}  {:>12}  {:>12}  {:>12}  {:>12}", "cursors", "order", "move ns", "slowest ns", "move+rank ns", "rank ns");
    for cursors in [10, 100, 500, 10_000] {
        for order in ["wave", "random"] {
            let mut steps = Steps { cursors, order, state: 7, places: vec![0; cursors as usize], next: 0 };
            let mut readers = Readers::new();
            (0..cursors).for_each(|cursor| readers.set(cursor, 0));
            let moved = time(&mut steps, |cursor, at| readers.set(cursor, at));
            let mut slowest = Slowest::default();
            (0..).zip(&steps.places).for_each(|(cursor, at)| slowest.set(cursor, *at));
            let tracked = time(&mut steps, |cursor, at| {
                slowest.set(cursor, at);
                black_box(slowest.slowest());
            });
            let mut readers = Readers::new();
            (0..).zip(&steps.places).for_each(|(cursor, at)| readers.set(cursor, *at));
            let ranked = time(&mut steps, |cursor, at| {
                readers.set(cursor, at);
                black_box(readers.at_or_before(at));
            });
            let rank = (ranked - moved).max(0.0);
            println!("{cursors:>7}  {order:>6}  {moved:>12.1}  {tracked:>12.1}  {ranked:>12.1}  {rank:>12.1}");
        }
    }
}

/// Who moves next, and where to.
struct Steps {
    cursors: u32,
    order: &'static str,
    state: u64,
    places: Vec<u64>,
    next: u32,
}

impl Steps {
    fn next(&mut self) -> (u32, u64) {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let drawn = self.state >> 33;
        let (cursor, by) = if self.order == "wave" {
            self.next = (self.next + 1) % self.cursors;
            (self.next, 100)
        } else {
            // A reader that is far ahead has nothing to read: it waits for the others.
            (drawn as u32 % self.cursors, 1 + drawn / 7 % 99)
        };
        let place = &mut self.places[cursor as usize];
        *place += by;
        (cursor, *place)
    }
}

fn time(steps: &mut Steps, mut act: impl FnMut(u32, u64)) -> f64 {
    let drawn: Vec<(u32, u64)> = (0..MOVES).map(|_| steps.next()).collect();
    let began = Instant::now();
    for (cursor, at) in drawn {
        act(cursor, at);
    }
    began.elapsed().as_nanos() as f64 / MOVES as f64
}
