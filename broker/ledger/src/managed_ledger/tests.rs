use proptest::prelude::*;

use super::*;

const NO_LIMITS: LedgerLimits = LedgerLimits { max_entries: u64::MAX, max_bytes: u64::MAX, min_age_ms: 0, max_age_ms: 0 };

fn at(ledger: i64, entry: i64) -> Position {
    Position::new(ledger, entry)
}

fn summary(id: i64, entries: u64, bytes: u64, closed_at_ms: u64) -> LedgerSummary {
    LedgerSummary { id: LedgerId(id), entries, bytes, closed_at_ms }
}

fn list(ledgers: &[LedgerSummary]) -> LedgerList {
    LedgerList { ledgers: ledgers.to_vec(), ..LedgerList::default() }
}

fn sealed(last: i64, bytes: u64) -> Option<Sealed> {
    Some(Sealed { last: EntryId(last), bytes })
}

fn fresh(limits: LedgerLimits) -> ManagedLedger {
    ManagedLedger::recover(LedgerList::default(), None, LedgerId(1), limits, 1000)
}

fn append_all(chain: &mut ManagedLedger, n: usize) {
    for _ in 0..n {
        let at = chain.append(10).unwrap();
        chain.confirm(at);
    }
}

#[test]
fn a_new_topic_lists_its_open_ledger_with_nothing_in_it() {
    let mut chain = fresh(NO_LIMITS);
    append_all(&mut chain, 3);
    assert_eq!(chain.list().ledgers, [summary(1, 0, 0, 0)]);
    assert_eq!(chain.ledgers(), [summary(1, 3, 30, 0)]);
    assert_eq!((chain.first(), chain.before_first(), chain.last_confirmed()), (at(1, 0), at(1, -1), at(1, 2)));
}

#[test]
fn nothing_is_readable_before_it_is_confirmed() {
    let mut chain = fresh(NO_LIMITS);
    assert_eq!((chain.append(7), chain.append(5), chain.append(3)), (Ok(at(1, 0)), Ok(at(1, 1)), Ok(at(1, 2))));
    assert_eq!((chain.unconfirmed(), chain.totals(), chain.contains(at(1, 0))), (3, (0, 0), false));
    assert_eq!((chain.last_confirmed(), chain.next(at(1, -1))), (at(1, -1), at(1, 0)));
    chain.confirm(at(1, 1));
    assert_eq!((chain.unconfirmed(), chain.totals(), chain.last_confirmed()), (1, (2, 12), at(1, 1)));
    for stranger in [at(1, 1), at(1, 0), at(1, 9), at(0, 2), at(1, -1), Position::LATEST] {
        chain.confirm(stranger);
    }
    assert_eq!((chain.unconfirmed(), chain.totals()), (1, (2, 12)));
    chain.confirm(at(1, 2));
    assert_eq!((chain.unconfirmed(), chain.totals(), chain.last_of(LedgerId(1))), (0, (3, 15), EntryId(2)));
}

#[test]
fn retracted_positions_are_assigned_again() {
    let mut chain = fresh(NO_LIMITS);
    append_all(&mut chain, 2);
    for bytes in [1, 2, 4] {
        chain.append(bytes).unwrap();
    }
    chain.retract(at(1, 3));
    assert_eq!((chain.unconfirmed(), chain.append(100)), (1, Ok(at(1, 3))));
    chain.confirm(at(1, 3));
    assert_eq!(chain.totals(), (4, 121));
    chain.retract(at(1, 3));
    chain.retract(at(1, 4));
    assert_eq!((chain.totals(), chain.append(1)), ((4, 121), Ok(at(1, 4))));
    chain.retract(at(1, 4));
    chain.append(6).unwrap();
    chain.confirm(at(1, 4));
    assert_eq!(chain.totals(), (5, 127));
}

#[test]
fn the_append_that_fills_a_ledger_is_its_last() {
    let mut chain = fresh(LedgerLimits { max_entries: 2, ..NO_LIMITS });
    chain.append(1).unwrap();
    assert!(!chain.is_full(1000));
    chain.append(1).unwrap();
    assert!(chain.is_full(1000));
    chain.begin_rollover();
    assert_eq!(chain.append(1), Err(AppendError::RollingOver));
    chain.confirm(at(1, 1));
    chain.next_ledger(LedgerId(4), 1234);
    assert_eq!((chain.append(1), chain.state()), (Err(AppendError::RollingOver), LedgerState::RollingOver));
    assert_eq!(chain.list().ledgers, [summary(1, 2, 2, 1234), summary(4, 0, 0, 0)]);
    chain.rolled();
    assert_eq!((chain.append(1), chain.last_confirmed(), chain.next(at(1, 1))), (Ok(at(4, 0)), at(1, 1), at(4, 0)));
    assert!(chain.take_dropped().is_empty());
}

#[test]
fn a_rollover_that_fails_leaves_the_ledger_open() {
    let mut chain = fresh(NO_LIMITS);
    append_all(&mut chain, 1);
    chain.begin_rollover();
    chain.cancel_rollover();
    assert_eq!(chain.append(1), Ok(at(1, 1)));
}

#[test]
fn age_rolls_a_ledger_that_has_entries_and_youth_keeps_it() {
    let limits = LedgerLimits { max_entries: 1, min_age_ms: 100, max_age_ms: 500, ..NO_LIMITS };
    let mut chain = fresh(limits);
    assert!(!chain.is_full(9999), "empty");
    append_all(&mut chain, 1);
    assert!(!chain.is_full(1100), "too young");
    assert!(chain.is_full(1101));
    let mut chain = fresh(LedgerLimits { max_entries: 10, ..limits });
    append_all(&mut chain, 1);
    assert!(!chain.is_full(1499));
    assert!(chain.is_full(1500), "at the age limit");
    chain.set_limits(LedgerLimits { max_bytes: 10, ..NO_LIMITS });
    assert!(chain.is_full(1000), "at the new byte limit");
}

#[test]
fn the_true_end_of_the_last_ledger_is_what_the_store_says() {
    let stored = list(&[summary(3, 5, 50, 900), summary(7, 0, 0, 0)]);
    let mut chain = ManagedLedger::recover(stored, sealed(4, 99), LedgerId(9), NO_LIMITS, 2000);
    assert_eq!(chain.ledgers(), [summary(3, 5, 50, 900), summary(7, 5, 99, 2000), summary(9, 0, 0, 0)]);
    assert_eq!((chain.last_confirmed(), chain.append(1)), (at(7, 4), Ok(at(9, 0))));
    assert!(chain.take_dropped().is_empty());
}

#[test]
fn ledgers_without_entries_leave_the_list_and_are_dropped() {
    let stored = list(&[summary(2, 0, 0, 800), summary(3, 5, 50, 900), summary(7, 0, 0, 0)]);
    let mut chain = ManagedLedger::recover(stored, sealed(-1, 0), LedgerId(9), NO_LIMITS, 2000);
    assert_eq!(chain.list().ledgers, [summary(3, 5, 50, 900), summary(9, 0, 0, 0)]);
    assert_eq!(chain.take_dropped(), [LedgerId(2), LedgerId(7)]);
    assert_eq!(chain.take_dropped(), []);
}

#[test]
fn a_last_ledger_that_the_store_lost_leaves_the_list() {
    let stored = list(&[summary(3, 5, 50, 900), summary(7, 0, 0, 0)]);
    let mut chain = ManagedLedger::recover(stored, None, LedgerId(9), NO_LIMITS, 2000);
    assert_eq!(chain.list().ledgers, [summary(3, 5, 50, 900), summary(9, 0, 0, 0)]);
    assert!(chain.take_dropped().is_empty());
}

#[test]
fn a_rollover_of_an_empty_ledger_drops_it() {
    let mut chain = fresh(NO_LIMITS);
    chain.begin_rollover();
    chain.next_ledger(LedgerId(5), 1001);
    chain.rolled();
    assert_eq!((chain.take_dropped(), chain.list().ledgers), (vec![LedgerId(1)], vec![summary(5, 0, 0, 0)]));
    assert_eq!((chain.append(1), chain.before_first()), (Ok(at(5, 0)), at(5, -1)));
}

#[test]
fn a_terminated_topic_takes_nothing_also_after_a_restart() {
    let mut chain = fresh(NO_LIMITS);
    append_all(&mut chain, 2);
    chain.append(1).unwrap();
    assert_eq!(chain.terminate(1500), at(1, 1));
    assert_eq!((chain.append(1), chain.terminate(1600)), (Err(AppendError::Terminated), at(1, 1)));
    chain.confirm(at(1, 2));
    assert_eq!((chain.totals(), chain.unconfirmed()), ((2, 20), 0));
    let stored = chain.list();
    assert_eq!((stored.terminated, &stored.ledgers), (Some(at(1, 1)), &vec![summary(1, 2, 20, 1500)]));
    let mut chain = ManagedLedger::recover(stored.clone(), sealed(1, 20), LedgerId(9), NO_LIMITS, 2000);
    assert_eq!((chain.state(), chain.append(1)), (LedgerState::Terminated, Err(AppendError::Terminated)));
    assert_eq!((chain.list(), chain.take_dropped()), (stored, vec![LedgerId(9)]));
    assert_eq!((chain.last_confirmed(), chain.next(at(1, 1))), (at(1, 1), at(1, 2)));
}

#[test]
fn a_topic_terminated_empty_keeps_a_place_for_its_cursors() {
    let mut chain = fresh(NO_LIMITS);
    assert_eq!(chain.terminate(1500), at(1, -1));
    let mut chain = ManagedLedger::recover(chain.list(), sealed(-1, 0), LedgerId(9), NO_LIMITS, 2000);
    assert_eq!((chain.last_confirmed(), chain.first(), chain.totals()), (at(1, -1), at(1, 0), (0, 0)));
    assert_eq!(chain.take_dropped(), [LedgerId(9)]);
}

#[test]
fn an_unused_ledger_at_termination_is_dropped() {
    let mut chain = fresh(NO_LIMITS);
    append_all(&mut chain, 1);
    chain.begin_rollover();
    chain.terminate(1500);
    chain.next_ledger(LedgerId(5), 1600);
    assert_eq!((chain.take_dropped(), chain.state()), (vec![LedgerId(5)], LedgerState::Terminated));
    assert_eq!(chain.list().ledgers, [summary(1, 1, 10, 1500)]);
}

#[test]
fn a_fenced_chain_stays_fenced() {
    let mut chain = fresh(NO_LIMITS);
    chain.append(1).unwrap();
    chain.fence();
    chain.begin_rollover();
    chain.rolled();
    chain.terminate(1500);
    assert_eq!((chain.append(1), chain.state()), (Err(AppendError::Fenced), LedgerState::Fenced));
    assert_eq!(chain.list().terminated, None);
}

/// Ledgers 1 to 3 with 2 entries of 10 bytes each, closed at 100, 200 and 300; ledger 4 is open with one entry.
fn closed_ledgers() -> ManagedLedger {
    let stored = list(&[summary(1, 2, 20, 100), summary(2, 2, 20, 200), summary(3, 2, 20, 300)]);
    let mut chain = ManagedLedger::recover(stored, sealed(1, 20), LedgerId(4), NO_LIMITS, 300);
    append_all(&mut chain, 1);
    chain
}

fn trimmed(slowest: Option<Position>, time_ms: i64, size_bytes: i64, now_ms: u64) -> Vec<i64> {
    let mut chain = closed_ledgers();
    let changed = chain.trim(slowest, Retention { time_ms, size_bytes }, now_ms);
    let dropped: Vec<i64> = chain.take_dropped().iter().map(|id| id.0).collect();
    assert_eq!(changed, !dropped.is_empty());
    assert_eq!(chain.totals(), (7 - 2 * dropped.len() as u64, 70 - 20 * dropped.len() as u64));
    dropped
}

#[test]
fn without_retention_a_ledger_goes_when_it_is_consumed() {
    assert_eq!(trimmed(Some(at(1, 0)), 0, 0, 300), []);
    assert_eq!(trimmed(Some(at(1, 1)), 0, 0, 300), [1], "a cursor at the very end of a closed ledger frees it");
    assert_eq!(trimmed(Some(at(2, -1)), 0, 0, 300), [1]);
    assert_eq!(trimmed(Some(at(4, 0)), 0, 0, 300), [1, 2, 3], "the current ledger stays");
    assert_eq!(trimmed(None, 0, 0, 300), [1, 2, 3]);
}

#[test]
fn retention_keeps_what_is_consumed() {
    assert_eq!(trimmed(None, -1, -1, 9999), []);
    assert_eq!(trimmed(None, 50, -1, 251), [1, 2]);
    assert_eq!(trimmed(None, 50, -1, 250), [1], "exactly at the limit is kept");
    assert_eq!(trimmed(None, -1, 50, 9999), [1], "50 bytes are kept at least");
    assert_eq!(trimmed(None, -1, 51, 9999), []);
    assert_eq!(trimmed(None, 50, 1, 100), [1, 2, 3], "whichever is reached first");
}

#[test]
fn a_cursor_of_a_trimmed_ledger_still_counts_right() {
    let mut chain = closed_ledgers();
    let slowest = at(1, 1);
    assert_eq!(chain.count(slowest, chain.last_confirmed()), 5);
    chain.trim(Some(slowest), Retention::default(), 300);
    assert_eq!((chain.count(slowest, chain.last_confirmed()), chain.next(slowest)), (5, at(2, 0)));
    assert_eq!((chain.first(), chain.last_of(LedgerId(1))), (at(2, 0), EntryId::NONE));
}

proptest! {
    #[test]
    fn trimming_never_removes_above_the_slowest_cursor(
        sizes in proptest::collection::vec((1u64..5, 1u64..100), 1..8), slowest in (0i64..10, -1i64..5),
        time_ms in -1i64..8, size_bytes in -1i64..300, durable: bool,
    ) {
        let stored: Vec<LedgerSummary> =
            sizes.iter().enumerate().map(|(i, &(n, bytes))| summary(i as i64 + 1, n, bytes, i as u64 + 1)).collect();
        let (n, bytes) = sizes[sizes.len() - 1];
        let mut chain = ManagedLedger::recover(list(&stored), sealed(n as i64 - 1, bytes), LedgerId(20), NO_LIMITS, 9);
        let before = chain.ledgers();
        let slowest = durable.then(|| at(slowest.0, slowest.1));
        let backlog = slowest.map(|slowest| chain.count(slowest, Position::LATEST));
        chain.trim(slowest, Retention { time_ms, size_bytes }, 9);
        let (after, dropped) = (chain.ledgers(), chain.take_dropped());
        prop_assert_eq!(&before[dropped.len()..], after.as_slice(), "the newest ledgers are kept");
        prop_assert_eq!(before.iter().take(dropped.len()).map(|ledger| ledger.id).collect::<Vec<_>>(), dropped.clone());
        prop_assert_eq!(slowest.map(|slowest| chain.count(slowest, Position::LATEST)), backlog);
        // One by one, as the rule is written: expired or over quota, else it and all later ones stay.
        let total: u64 = before.iter().map(|ledger| ledger.bytes).sum();
        let mut chosen = 0;
        let goes = |ledger: &&LedgerSummary| {
            let consumed = slowest.is_none_or(|slowest| slowest >= at(ledger.id.0, ledger.entries as i64 - 1));
            chosen += ledger.bytes;
            let expired = time_ms >= 0 && 9 - ledger.closed_at_ms as i64 > time_ms;
            let over = size_bytes >= 0 && (total - chosen) as i64 >= size_bytes;
            consumed && (expired || over)
        };
        prop_assert_eq!(before[..before.len() - 1].iter().take_while(goes).count(), dropped.len());
    }
}
