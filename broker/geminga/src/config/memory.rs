//! One memory budget and its parts, which never add up to more than it.

use std::collections::BTreeMap;

use super::amounts::{ByteSize, MemoryPart, mebibytes};
use super::machine::memory_limit;
use super::problem::Problem;
use super::sources::Choice;
use super::table::settings;

settings! {
    /// One budget for everything that grows with load, and its parts. Parts that are not set share what the others leave.
    pub struct Memory, "Memory" {
        /// Memory for all buffers and caches together. What a connection, a topic or a subscription costs by itself comes on top,
        /// as does the page cache, so leave room.
        budget: ByteSize = "memoryBudgetMb", mebibytes(MIN_BUDGET_MIB), default default_budget(memory_limit()),
            told "half of the memory that the control group or the machine has, from 64 to 8192";
        /// Messages received and not yet durable, all connections together, divided between the event loops. When it is spent, connections
        /// are not read until receipts are out.
        publish_buffer: ByteSize = "maxMessagePublishBufferSizeInMB", MemoryPart, default share(0), told "25 % of memoryBudgetMb", pulsar "half of the direct memory";
        /// Entries kept for consumers, so that they need not be read from the disk; 0 keeps none.
        cache: ByteSize = "managedLedgerCacheSizeMB", mebibytes(0), default share(1), told "40 % of memoryBudgetMb", pulsar "20 % of the direct memory";
        /// Bytes on their way to consumers and other peers, all connections together, divided between the event loops. When it is spent,
        /// connections whose peers read slowly get less each.
        out_buffers: ByteSize = "outBufferMemoryMb", MemoryPart, default share(2), told "15 % of memoryBudgetMb";
        /// Reads from the disk on their way to consumers.
        reads_in_flight: ByteSize = "managedLedgerMaxReadsInFlightSizeInMB", MemoryPart, default share(3), told "10 % of memoryBudgetMb", pulsar "0, without limit";
        /// Blocks on their way to the log: a second copy of what was received, until it is durable. When it is spent, connections that publish
        /// are not read until half of it is free.
        log_queue: ByteSize = "logQueueMemoryMb", MemoryPart, default share(4), told "5 % of memoryBudgetMb";
        /// Index of what is in the log, for reads of old messages.
        index_cache: ByteSize = "logIndexCacheMb", MemoryPart, default share(5), told "3 % of memoryBudgetMb";
        /// Pages of the metadata store.
        metadata_cache: ByteSize = "metadataCacheMb", MemoryPart, default share(6), told "2 % of memoryBudgetMb";
    }
}

const MIN_BUDGET_MIB: u64 = 32;
const PARTS: usize = 7;
/// The only part that may be nothing.
const CACHE: &str = "managedLedgerCacheSizeMB";

/// Percent of the budget that each part gets when nothing is set, in the order of the fields.
const SHARES: [u64; PARTS] = [25, 40, 15, 10, 5, 3, 2];
const KEYS: [&str; PARTS] = [
    "maxMessagePublishBufferSizeInMB",
    CACHE,
    "outBufferMemoryMb",
    "managedLedgerMaxReadsInFlightSizeInMB",
    "logQueueMemoryMb",
    "logIndexCacheMb",
    "metadataCacheMb",
];

fn default_budget(limit: ByteSize) -> ByteSize {
    ByteSize::mib((limit.whole_mib() / 2).clamp(64, 8_192))
}

fn share(part: usize) -> ByteSize {
    part_of(default_budget(memory_limit()), SHARES[part], 100)
}

fn part_of(whole: ByteSize, part: u64, of: u64) -> ByteSize {
    ByteSize::bytes(((u128::from(whole.get()) * u128::from(part)) / u128::from(of.max(1))) as u64)
}

impl Memory {
    fn parts(&mut self) -> [&mut ByteSize; PARTS] {
        [
            &mut self.publish_buffer,
            &mut self.cache,
            &mut self.out_buffers,
            &mut self.reads_in_flight,
            &mut self.log_queue,
            &mut self.index_cache,
            &mut self.metadata_cache,
        ]
    }

    /// Gives the parts that were not set their share, at most, of what the set ones leave.
    pub(super) fn settle(&mut self, chosen: &BTreeMap<String, Choice>, problems: &mut Vec<Problem>) {
        let budget = self.budget;
        let mut is_set = [false; PARTS];
        let mut set = Vec::new();
        for (index, (key, part)) in KEYS.iter().zip(self.parts()).enumerate() {
            let written = chosen.get(*key).is_some_and(|choice| !choice.text.is_empty());
            if written && (*key == CACHE || part.get() > 0) {
                is_set[index] = true;
                set.push((*key, part.get()));
            }
        }
        let taken = set.iter().fold(0u64, |sum, (_, size)| sum.saturating_add(*size));
        let least = ByteSize::mib((PARTS - set.len()) as u64).get();
        if taken.saturating_add(least) > budget.get() {
            problems.push(over(budget, &set, least, chosen));
            return;
        }
        let left = ByteSize::bytes(budget.get() - taken);
        let shares: u64 = SHARES.iter().zip(is_set).filter(|(_, set)| !set).map(|(share, _)| share).sum();
        let mut unset: Vec<(u64, &mut ByteSize)> =
            SHARES.into_iter().zip(self.parts()).zip(is_set).filter(|(_, set)| !set).map(|(part, _)| part).collect();
        for (share, part) in &mut unset {
            **part = part_of(left, *share, shares).min(part_of(budget, *share, 100));
        }
        lift_to_least(unset.into_iter().map(|(_, part)| part).collect());
    }
}

// Small shares of a small rest fall below 1 MiB; the larger parts that were not set pay for them.
fn lift_to_least(mut parts: Vec<&mut ByteSize>) {
    let least = ByteSize::mib(1);
    let mut owed = 0;
    for part in parts.iter_mut().filter(|part| ***part < least) {
        owed += least.get() - part.get();
        **part = least;
    }
    while owed > 0 {
        let Some(rich) = parts.iter_mut().max().filter(|part| ***part > least) else { return };
        let paid = owed.min(rich.get() - least.get());
        **rich = ByteSize::bytes(rich.get() - paid);
        owed -= paid;
    }
}

fn over(budget: ByteSize, set: &[(&str, u64)], least: u64, chosen: &BTreeMap<String, Choice>) -> Problem {
    let origin = |key: &str| chosen.get(key).map_or_else(|| "default".to_owned(), |choice| choice.origin.to_string());
    let parts: Vec<String> = set.iter().map(|(key, size)| format!("{key}={} ({})", size >> 20, origin(key))).collect();
    let reason = format!(
        "these parts and at least {} MiB for the others are more than memoryBudgetMb={} ({}); lower them or raise memoryBudgetMb",
        least >> 20,
        budget.whole_mib(),
        origin("memoryBudgetMb"),
    );
    Problem::of(parts.join(" + "), reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::sources::Origin;

    fn settled(set: &[(&'static str, u64)], budget: u64) -> (Memory, Vec<Problem>) {
        let mut chosen = BTreeMap::new();
        for (key, mib) in set.iter().copied().chain([("memoryBudgetMb", budget)]) {
            chosen.insert(key.to_owned(), Choice { text: mib.to_string(), origin: Origin::Flag("--set".into()) });
        }
        let mut given = crate::config::table::Given::new(&chosen);
        let mut memory = <Memory as crate::config::table::Section>::read(&mut given);
        let mut problems = given.problems;
        memory.settle(&chosen, &mut problems);
        (memory, problems)
    }

    fn sum(memory: &mut Memory) -> u64 {
        memory.parts().iter().map(|part| part.get()).sum()
    }

    #[test]
    fn default_shares_are_the_whole_budget() {
        assert_eq!(SHARES.iter().sum::<u64>(), 100);
        assert_eq!(KEYS.len(), <Memory as crate::config::table::Section>::settings().len() - 1);
    }

    #[test]
    fn the_default_budget_is_half_the_limit_between_its_bounds() {
        assert_eq!(default_budget(ByteSize::mib(4_096)), ByteSize::mib(2_048));
        assert_eq!(default_budget(ByteSize::mib(50)), ByteSize::mib(64));
        assert_eq!(default_budget(ByteSize::mib(1 << 20)), ByteSize::mib(8_192));
    }

    #[test]
    fn parts_never_add_up_to_more_than_the_budget() {
        for budget in [32, 33, 48, 64, 100, 1_000, 8_192, 1 << 20] {
            for set in [&[][..], &[("managedLedgerCacheSizeMB", 0)], &[("managedLedgerCacheSizeMB", 20)], &[("logQueueMemoryMb", 26)]] {
                let (mut memory, problems) = settled(set, budget);
                assert_eq!(problems, [], "{budget} {set:?}");
                assert!(sum(&mut memory) <= ByteSize::mib(budget).get(), "{budget} {set:?}: {memory:?}");
                for (key, part) in KEYS.iter().zip(memory.parts()) {
                    let wanted = set.iter().find(|(name, _)| name == key);
                    match wanted {
                        Some((_, mib)) => assert_eq!(*part, ByteSize::mib(*mib)),
                        None => assert!(*part >= ByteSize::mib(1), "{key} {budget} {set:?}"),
                    }
                }
            }
        }
    }

    #[test]
    fn parts_over_the_budget_are_refused_by_name() {
        let (_, problems) = settled(&[("managedLedgerCacheSizeMB", 900), ("logQueueMemoryMb", 200)], 1_000);
        let told = problems.first().expect("a problem").to_string();
        for part in ["managedLedgerCacheSizeMB=900", "logQueueMemoryMb=200", "memoryBudgetMb=1000"] {
            assert!(told.contains(part), "{told}");
        }
    }
}
