//! Entries that wait to be delivered again, before anything new.

use std::collections::BTreeSet;

use ledger::Position;

use crate::consumer::ConsumerIndex;
use crate::pending::Waiting;

/// Positions in order.
#[derive(Debug, Default)]
pub(crate) struct Redelivery {
    waiting: BTreeSet<Position>,
}

impl Redelivery {
    pub(crate) fn add(&mut self, at: Position) {
        self.waiting.insert(at);
    }

    pub(crate) fn remove(&mut self, at: Position) {
        self.waiting.remove(&at);
    }

    pub(crate) fn first(&self) -> Option<Position> {
        self.waiting.first().copied()
    }

    pub(crate) fn contains(&self, at: Position) -> bool {
        self.waiting.contains(&at)
    }

    /// The last of the positions that follow each other without a gap from the first on, at most `limit` of them.
    pub(crate) fn end_of_first_run(&self, limit: usize) -> Option<Position> {
        let mut all = self.waiting.iter().copied();
        let mut last = all.next()?;
        for at in all.take(limit.saturating_sub(1)) {
            if at != last.following() {
                break;
            }
            last = at;
        }
        Some(last)
    }
}

impl Waiting for Redelivery {
    fn sent(&mut self, _: u16, _: ConsumerIndex) {}

    fn parked(&mut self, at: Position, _: u16) {
        self.add(at);
    }

    fn returned(&mut self, at: Position, _: u16) {
        self.add(at);
    }

    fn sent_again(&mut self, at: Position, _: u16, _: ConsumerIndex) {
        self.remove(at);
    }

    fn gone(&mut self, at: Position, _: u16, waited: bool) {
        if waited {
            self.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_at_a_gap_at_a_ledgers_end_and_at_the_limit() {
        let mut redelivery = Redelivery::default();
        for (ledger, entry) in [(1, 3), (1, 4), (1, 5), (1, 7), (2, 0)] {
            redelivery.parked(Position::new(ledger, entry), 0);
        }
        assert_eq!(redelivery.end_of_first_run(10), Some(Position::new(1, 5)));
        assert_eq!(redelivery.end_of_first_run(2), Some(Position::new(1, 4)));
        redelivery.gone(Position::new(1, 3), 0, true);
        redelivery.gone(Position::new(1, 4), 0, true);
        redelivery.gone(Position::new(1, 5), 0, true);
        assert_eq!(redelivery.end_of_first_run(10), Some(Position::new(1, 7)));
    }
}
