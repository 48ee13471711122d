//! The arithmetic of a chain of ledgers: prefix sums make distance, seek by count and "next" O(log ledgers).
//!
//! A *rank* counts confirmed entries from the first one this chain ever held; trimming does not change ranks.

use crate::{EntryId, LedgerId, LedgerSummary, Position};

/// Ledgers in growing order, never none, all but the last with entries.
#[derive(Debug)]
pub(crate) struct Chain {
    links: Vec<Link>,
}

#[derive(Debug)]
struct Link {
    id: LedgerId,
    /// The rank of its first entry.
    before: u64,
    entries: u64,
    /// Bytes of all ledgers before it, from the first one this chain ever held.
    bytes_before: u64,
    bytes: u64,
    closed_at_ms: u64,
}

/// A run of entries of one ledger: `first..=last`, or nothing if `first > last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The ledger.
    pub ledger: LedgerId,
    /// Its first entry.
    pub first: i64,
    /// Its last entry, included.
    pub last: i64,
}

impl Chain {
    /// A chain that begins with `first`.
    pub(crate) fn new(first: LedgerSummary) -> Chain {
        let mut chain = Chain { links: Vec::with_capacity(1) };
        chain.push(first);
        chain
    }

    /// Adds a ledger at the end.
    pub(crate) fn push(&mut self, ledger: LedgerSummary) {
        let before = self.links.last().map_or(0, |last| last.before.saturating_add(last.entries));
        let bytes_before = self.links.last().map_or(0, |last| last.bytes_before.saturating_add(last.bytes));
        let LedgerSummary { id, entries, bytes, closed_at_ms } = ledger;
        self.links.push(Link { id, before, entries, bytes_before, bytes, closed_at_ms });
    }

    /// Puts `next` after the last ledger, or in its place if that has no entries; returns the one replaced.
    pub(crate) fn roll(&mut self, next: LedgerId, now_ms: u64) -> Option<LedgerId> {
        let last = self.last_mut();
        if last.entries == 0 {
            return Some(std::mem::replace(&mut last.id, next));
        }
        last.closed_at_ms = now_ms;
        self.push(LedgerSummary { id: next, entries: 0, bytes: 0, closed_at_ms: 0 });
        None
    }

    /// Closes the last ledger for good; an empty one is taken out, unless it is the only one, and returned.
    pub(crate) fn close(&mut self, now_ms: u64) -> Option<LedgerId> {
        let alone = self.links.len() == 1;
        let last = self.last_mut();
        if last.entries == 0 && !alone {
            return self.links.pop().map(|link| link.id);
        }
        last.closed_at_ms = now_ms;
        None
    }

    /// The last ledger has `entries` entries and `bytes` bytes now.
    pub(crate) fn grow(&mut self, entries: u64, bytes: u64) {
        let last = self.last_mut();
        last.entries = entries;
        last.bytes = bytes;
    }

    /// Takes the first `n` ledgers out; the last one always stays.
    pub(crate) fn cut(&mut self, n: usize) -> impl Iterator<Item = LedgerId> + '_ {
        let n = n.min(self.links.len() - 1);
        self.links.drain(..n).map(|link| link.id)
    }

    pub(crate) fn last_ledger(&self) -> LedgerId {
        self.last().id
    }

    /// Entries of the last ledger.
    pub(crate) fn last_entries(&self) -> u64 {
        self.last().entries
    }

    pub(crate) fn summaries(&self) -> impl DoubleEndedIterator<Item = LedgerSummary> + ExactSizeIterator + '_ {
        self.links.iter().map(|link| LedgerSummary {
            id: link.id,
            entries: link.entries,
            bytes: link.bytes,
            closed_at_ms: link.closed_at_ms,
        })
    }

    /// All entries and bytes.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let bytes_before = self.links.first().map_or(0, |link| link.bytes_before);
        (self.end_rank() - self.base_rank(), self.last().bytes_before + self.last().bytes - bytes_before)
    }

    /// Bytes after `at`; within its ledger by the average of that ledger.
    pub(crate) fn bytes_after(&self, at: Position) -> u64 {
        let Some(link) = self.link(at.ledger) else { return self.totals().1 };
        let left = link.before + link.entries - link.rank_through(at);
        let here = u128::from(link.bytes) * u128::from(left) / u128::from(link.entries.max(1));
        let later = self.last().bytes_before + self.last().bytes - link.bytes_before - link.bytes;
        later + here as u64
    }

    /// Before the first entry: (first ledger, -1).
    pub(crate) fn before_first(&self) -> Position {
        Position { ledger: self.links.first().map_or(LedgerId(-1), |link| link.id), entry: EntryId::NONE }
    }

    /// Where the next entry will be.
    pub(crate) fn end(&self) -> Position {
        let last = self.last();
        Position { ledger: last.id, entry: entry_id(last.entries) }
    }

    /// The newest entry, or before the first.
    pub(crate) fn newest(&self) -> Position {
        let last = self.last();
        if last.entries > 0 {
            return Position { ledger: last.id, entry: entry_id(last.entries).previous() };
        }
        self.before(self.end_rank())
    }

    pub(crate) fn contains(&self, at: Position) -> bool {
        self.link(at.ledger).is_some_and(|link| link.id == at.ledger && link.has(at.entry))
    }

    /// The last entry of `ledger`, or none if it has none or is not here.
    pub(crate) fn last_of(&self, ledger: LedgerId) -> EntryId {
        match self.link(ledger) {
            Some(link) if link.id == ledger => entry_id(link.entries).previous(),
            _ => EntryId::NONE,
        }
    }

    /// The first entry after `at`, or where it will be.
    pub(crate) fn next(&self, at: Position) -> Position {
        // On the road of a message `at` is in the ledger that grows, or right before it in the same ledger.
        match self.link(at.ledger) {
            Some(link) if link.id == at.ledger && link.has(at.entry.next_or_max()) => at.following(),
            Some(link) => self.at_rank(link.rank_through(at)).unwrap_or_else(|| self.end()),
            None => self.at_rank(self.base_rank()).unwrap_or_else(|| self.end()),
        }
    }

    /// The last entry before `at`, or before the first.
    pub(crate) fn previous(&self, at: Position) -> Position {
        match self.link(at.ledger) {
            Some(link) if link.id == at.ledger && at.entry.0 < 1 => self.before(link.before),
            Some(link) if link.id == at.ledger => self.before(link.rank_through(Position { entry: at.entry.previous(), ..at })),
            Some(link) => self.before(link.before + link.entries),
            None => self.before_first(),
        }
    }

    /// `at` if it is an entry, else the last entry before it, or before the first.
    pub(crate) fn floor(&self, at: Position) -> Position {
        self.before(self.rank(at))
    }

    /// Entries in (after, upto].
    pub(crate) fn count(&self, after: Position, upto: Position) -> u64 {
        self.rank(upto).saturating_sub(self.rank(after))
    }

    /// The entry `n` entries after `after`, or the newest if there are fewer.
    pub(crate) fn skip(&self, after: Position, n: u64) -> Position {
        self.before(self.rank(after).saturating_add(n).min(self.end_rank()))
    }

    /// The entries in (after, upto], ledger by ledger.
    pub(crate) fn runs(&self, after: Position, upto: Position) -> impl Iterator<Item = Run> + '_ {
        let start = self.links.partition_point(|link| link.id < after.ledger);
        let within = self.links.get(start..).unwrap_or_default().iter().take_while(move |link| link.id <= upto.ledger);
        within.filter_map(move |link| {
            let first = if link.id == after.ledger { after.entry.next_or_max().0.max(0) } else { 0 };
            let newest = entry_id(link.entries).previous().0;
            let last = if link.id == upto.ledger { upto.entry.0.min(newest) } else { newest };
            (first <= last).then_some(Run { ledger: link.id, first, last })
        })
    }

    /// Entries up to and including `at`, as a rank.
    fn rank(&self, at: Position) -> u64 {
        self.link(at.ledger).map_or(self.base_rank(), |link| link.rank_through(at))
    }

    fn at_rank(&self, rank: u64) -> Option<Position> {
        let after = self.links.partition_point(|link| link.before <= rank);
        let link = self.links.get(after.checked_sub(1)?)?;
        let entry = rank - link.before;
        (entry < link.entries).then(|| Position { ledger: link.id, entry: entry_id(entry) })
    }

    /// The entry whose rank is one less than `rank`.
    fn before(&self, rank: u64) -> Position {
        if rank <= self.base_rank() {
            return self.before_first();
        }
        self.at_rank(rank - 1).unwrap_or_else(|| self.before_first())
    }

    fn base_rank(&self) -> u64 {
        self.links.first().map_or(0, |link| link.before)
    }

    fn end_rank(&self) -> u64 {
        self.last().before + self.last().entries
    }

    /// The ledger `id`, or the one before where it would be.
    fn link(&self, id: LedgerId) -> Option<&Link> {
        let last = self.last();
        if last.id <= id {
            return Some(last);
        }
        let after = self.links.partition_point(|link| link.id <= id);
        self.links.get(after.checked_sub(1)?)
    }

    fn last(&self) -> &Link {
        self.links.last().expect("a chain has a last ledger from its construction on")
    }

    fn last_mut(&mut self) -> &mut Link {
        self.links.last_mut().expect("a chain has a last ledger from its construction on")
    }
}

impl Link {
    fn has(&self, entry: EntryId) -> bool {
        u64::try_from(entry.0).is_ok_and(|entry| entry < self.entries)
    }

    /// Entries up to and including `at`, which is in this ledger or after it, as a rank.
    fn rank_through(&self, at: Position) -> u64 {
        let here = if at.ledger == self.id { u64::try_from(at.entry.next_or_max().0).unwrap_or(0) } else { u64::MAX };
        self.before + here.min(self.entries)
    }
}

impl EntryId {
    fn next_or_max(self) -> EntryId {
        EntryId(self.0.saturating_add(1))
    }
}

fn entry_id(n: u64) -> EntryId {
    EntryId(i64::try_from(n).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chain(sizes: &[(i64, u64)]) -> Chain {
        let mut ledgers =
            sizes.iter().map(|&(id, entries)| LedgerSummary { id: LedgerId(id), entries, bytes: entries * 10, closed_at_ms: 1 });
        let mut chain = Chain::new(ledgers.next().expect("at least one ledger"));
        ledgers.for_each(|ledger| chain.push(ledger));
        chain
    }

    /// Ledgers with gaps between their ids; the last one may be empty.
    fn sizes() -> impl Strategy<Value = Vec<(i64, u64)>> {
        (proptest::collection::vec((1i64..4, 1u64..5), 1..6), 0u64..3).prop_map(|(gaps, last)| {
            let mut id = 0;
            let mut sizes: Vec<(i64, u64)> = gaps
                .into_iter()
                .map(|(gap, n)| {
                    id += gap;
                    (id, n)
                })
                .collect();
            if let Some(open) = sizes.last_mut() {
                open.1 = last;
            }
            sizes
        })
    }

    fn place() -> impl Strategy<Value = Position> {
        prop_oneof![
            20 => (-1i64..24, -1i64..7).prop_map(|(ledger, entry)| Position::new(ledger, entry)),
            1 => Just(Position::EARLIEST),
            1 => Just(Position::LATEST),
            1 => (0i64..24).prop_map(|ledger| Position::new(ledger, i64::MAX)),
        ]
    }

    proptest! {
        #[test]
        fn arithmetic_equals_a_flat_list(sizes in sizes(), cut in 0usize..3, a in place(), b in place(), n in 1u64..20) {
            let mut chain = chain(&sizes);
            let cut = cut.min(sizes.len() - 1);
            prop_assert_eq!(chain.cut(cut).count(), cut);
            let kept = &sizes[cut..];
            let flat: Vec<Position> = kept.iter().flat_map(|&(id, n)| (0..n as i64).map(move |e| Position::new(id, e))).collect();
            let front = Position::new(kept[0].0, -1);
            let (last_id, last_n) = kept[kept.len() - 1];
            let end = Position::new(last_id, last_n as i64);

            prop_assert_eq!(chain.before_first(), front);
            prop_assert_eq!(chain.end(), end);
            prop_assert_eq!(chain.newest(), flat.last().copied().unwrap_or(front));
            prop_assert_eq!(chain.totals(), (flat.len() as u64, flat.len() as u64 * 10));
            prop_assert_eq!(chain.bytes_after(a), flat.iter().filter(|&&p| p > a).count() as u64 * 10);
            prop_assert_eq!(chain.contains(a), flat.contains(&a));
            prop_assert_eq!(chain.next(a), flat.iter().copied().find(|&p| p > a).unwrap_or(end));
            prop_assert_eq!(chain.previous(a), flat.iter().copied().rfind(|&p| p < a).unwrap_or(front));
            prop_assert_eq!(chain.floor(a), flat.iter().copied().rfind(|&p| p <= a).unwrap_or(front));
            prop_assert_eq!(chain.count(a, b), flat.iter().filter(|&&p| p > a && p <= b).count() as u64);
            let beyond: Vec<Position> = flat.iter().copied().filter(|&p| p > a).take(n as usize).collect();
            prop_assert_eq!(chain.skip(a, n), beyond.last().copied().unwrap_or(chain.newest()));
            let run: Vec<Position> = chain.runs(a, b).flat_map(|r| (r.first..=r.last).map(move |e| Position::new(r.ledger.0, e))).collect();
            prop_assert_eq!(run, flat.iter().copied().filter(|&p| p > a && p <= b).collect::<Vec<_>>());
            let of_a = flat.iter().rev().find(|p| p.ledger == a.ledger).map_or(EntryId::NONE, |p| p.entry);
            prop_assert_eq!(chain.last_of(a.ledger), of_a);
        }
    }

    #[test]
    fn an_empty_ledger_is_replaced_when_the_chain_rolls() {
        let mut chain = chain(&[(3, 2), (5, 0)]);
        assert_eq!(chain.roll(LedgerId(8), 9), Some(LedgerId(5)));
        assert_eq!(chain.end(), Position::new(8, 0));
        assert_eq!(chain.newest(), Position::new(3, 1));
    }
}
