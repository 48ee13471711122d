//! How many new entries have to be looked at for one that can be sent: reads must be large enough to get past what has to wait, or a
//! backlog of one consumer holds back the others.

/// See the module.
#[derive(Debug)]
pub(super) struct Sieve {
    /// Looked at for each one that was sent, of late, in sixteenths.
    per_sent: u32,
    /// Those that had to wait since one was sent.
    row: u32,
}

impl Default for Sieve {
    fn default() -> Sieve {
        Sieve { per_sent: 16, row: 0 }
    }
}

impl Sieve {
    /// An entry has to wait.
    pub(super) fn held_back(&mut self) {
        self.row = (self.row + 1).min(1 << 16);
    }

    /// An entry was sent.
    pub(super) fn let_through(&mut self) {
        self.per_sent = (self.per_sent * 7 + (self.row + 1) * 16) / 8;
        self.row = 0;
    }

    /// How many to look at so that so many can be sent.
    pub(super) fn to_find(&self, wanted: i64) -> i64 {
        wanted.saturating_mul(i64::from(self.per_sent.max((self.row + 1) * 16))) / 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_grow_while_nothing_can_be_sent_and_shrink_again() {
        let mut sieve = Sieve::default();
        assert_eq!(sieve.to_find(3), 3);
        (0..9).for_each(|_| sieve.held_back());
        assert_eq!(sieve.to_find(3), 30);
        sieve.let_through();
        assert!((4..30).contains(&sieve.to_find(3)), "{}", sieve.to_find(3));
        (0..60).for_each(|_| sieve.let_through());
        assert_eq!(sieve.to_find(3), 3);
    }

    #[test]
    fn one_of_four_asks_for_four_times_as_many() {
        let mut sieve = Sieve::default();
        for _ in 0..100 {
            (0..3).for_each(|_| sieve.held_back());
            sieve.let_through();
        }
        assert!((34..=40).contains(&sieve.to_find(10)), "{}", sieve.to_find(10));
    }
}
