//! What an application has seen: for every device the number that comes next, and what did not fit.

use std::{collections::HashSet, fs, path::Path};

use anyhow::{Context, ensure};

use crate::result::ApplicationCheck;

/// One application's account of all devices.
#[derive(Debug)]
pub struct Tracker {
    next: Numbers,
    /// Passed over and not come since. What comes later is no loss, but it came out of order.
    holes: HashSet<(u32, u32)>,
    counts: Counts,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Distinct messages.
    pub received: u64,
    /// Messages that came again; accepted.
    pub duplicates: u64,
    /// First deliveries above the number that was next.
    pub ordering_violations: u64,
    /// Messages that were not what was sent.
    pub invalid: u64,
}

impl Tracker {
    /// Expects the first reading of each device.
    #[must_use]
    pub fn new(devices: usize) -> Self {
        Self { next: Numbers(vec![0; devices]), holes: HashSet::new(), counts: Counts::default() }
    }

    /// A message that can be read. Returns whether it came for the first time.
    pub fn see(&mut self, device: u32, number: u32) -> bool {
        let Some(next) = self.next.0.get_mut(device as usize) else {
            self.counts.invalid += 1;
            return false;
        };
        if number < *next {
            if !self.holes.is_empty() && self.holes.remove(&(device, number)) {
                self.counts.received += 1;
                return true;
            }
            self.counts.duplicates += 1;
            return false;
        }
        if number > *next {
            self.counts.ordering_violations += 1;
            self.holes.extend((*next..number).map(|hole| (device, hole)));
        }
        *next = number + 1;
        self.counts.received += 1;
        true
    }

    /// A message that cannot be read, or is not where it belongs.
    pub fn see_invalid(&mut self) {
        self.counts.invalid += 1;
    }

    /// The counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The numbers that come next.
    #[must_use]
    pub fn next(&self) -> &Numbers {
        &self.next
    }

    /// Holds the account against what the producers sent: holes, missing tails, and readings that nobody sent.
    #[must_use]
    pub fn check(&self, name: &str, sent: &Numbers) -> ApplicationCheck {
        let difference = sent.compare(&self.next);
        ApplicationCheck {
            name: name.to_owned(),
            received: self.counts.received,
            duplicates: self.counts.duplicates,
            ordering_violations: self.counts.ordering_violations,
            invalid: self.counts.invalid + difference.unsent,
            missing: difference.missing + self.holes.len() as u64,
        }
    }
}

/// For each device the number of its next reading, which is how many there were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers(pub Vec<u32>);

/// How two accounts of the same devices differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Readings at the end that were sent and not seen.
    pub missing: u64,
    /// Readings at the end that were seen and never sent.
    pub unsent: u64,
}

const FIRST_LINE: &[u8] = b"geminga perf numbers 1\n";

impl Numbers {
    /// Holds what was seen against what was sent.
    #[must_use]
    pub fn compare(&self, seen: &Self) -> Difference {
        let mut difference = Difference::default();
        for device in 0..self.0.len().max(seen.0.len()) {
            let number = |numbers: &Self| numbers.0.get(device).copied().unwrap_or(0);
            let (sent, seen) = (number(self), number(seen));
            difference.missing += u64::from(sent.saturating_sub(seen));
            difference.unsent += u64::from(seen.saturating_sub(sent));
        }
        difference
    }

    /// Keeps them in a file: a line that says what it is, then each number in four bytes, the lowest first.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: &Path) -> anyhow::Result<()> {
        let mut bytes = FIRST_LINE.to_vec();
        bytes.extend(self.0.iter().flat_map(|number| number.to_le_bytes()));
        fs::write(path, bytes).with_context(|| format!("{} cannot be written", path.display()))
    }

    /// Reads them again.
    ///
    /// # Errors
    /// The file cannot be read or is something else.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let bytes = fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
        let numbers = bytes.strip_prefix(FIRST_LINE).with_context(|| format!("{} holds no numbers of a run", path.display()))?;
        let (numbers, rest) = numbers.as_chunks::<4>();
        ensure!(rest.is_empty(), "{} ends within a number", path.display());
        Ok(Self(numbers.iter().map(|number| u32::from_le_bytes(*number)).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Correctness, Verdict};

    fn seen(messages: &[(u32, u32)]) -> Tracker {
        let mut tracker = Tracker::new(3);
        for (device, number) in messages {
            tracker.see(*device, *number);
        }
        tracker
    }

    /// Judges as a run is judged, of which the producers sent three readings of device 0 and two of device 1.
    fn verdict(tracker: &Tracker) -> Verdict {
        let check = tracker.check("billing", &Numbers(vec![3, 2, 0]));
        Correctness { published: 5, applications: vec![check], ..Correctness::default() }.verdict()
    }

    #[test]
    fn everything_in_order_is_valid() {
        assert_eq!(verdict(&seen(&[(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)])), Verdict::Valid);
    }

    #[test]
    fn a_loss_in_the_middle_is_found() {
        let tracker = seen(&[(0, 0), (1, 0), (1, 1), (0, 2)]);
        let check = tracker.check("billing", &Numbers(vec![3, 2, 0]));
        assert_eq!((check.missing, check.ordering_violations, check.received), (1, 1, 4));
        assert!(!verdict(&tracker).is_valid());
    }

    #[test]
    fn a_missing_tail_is_found() {
        let tracker = seen(&[(0, 0), (0, 1), (1, 0)]);
        let check = tracker.check("billing", &Numbers(vec![3, 2, 0]));
        assert_eq!((check.missing, check.ordering_violations), (2, 0));
        assert!(!verdict(&tracker).is_valid());
    }

    #[test]
    fn two_messages_in_the_wrong_order_are_found_and_none_is_missing() {
        let tracker = seen(&[(0, 0), (0, 2), (0, 1), (1, 0), (1, 1)]);
        let check = tracker.check("billing", &Numbers(vec![3, 2, 0]));
        assert_eq!((check.missing, check.ordering_violations, check.received, check.duplicates), (0, 1, 5, 0));
        assert!(!verdict(&tracker).is_valid());
    }

    #[test]
    fn a_corrupt_message_is_found() {
        let mut tracker = seen(&[(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]);
        tracker.see_invalid();
        assert!(!verdict(&tracker).is_valid());
    }

    #[test]
    fn readings_that_nobody_sent_are_found() {
        let mut tracker = seen(&[(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (2, 0)]);
        assert!(!verdict(&tracker).is_valid());
        tracker = seen(&[(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]);
        tracker.see(99, 0);
        assert!(!verdict(&tracker).is_valid());
    }

    #[test]
    fn duplicates_are_counted_and_accepted() {
        let tracker = seen(&[(0, 0), (0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (0, 1)]);
        assert_eq!(tracker.counts(), Counts { received: 5, duplicates: 2, ..Counts::default() });
        assert_eq!(verdict(&tracker), Verdict::Valid);
    }

    #[test]
    fn states_survive_a_file_and_are_compared() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("producers.numbers");
        let numbers = Numbers(vec![3, 0, u32::MAX, 7]);
        numbers.save(&path).unwrap();
        assert_eq!(Numbers::load(&path).unwrap(), numbers);
        assert_eq!(numbers.compare(&Numbers(vec![1, 2, u32::MAX, 7])), Difference { missing: 2, unsent: 2 });
        fs::write(&path, b"something else").unwrap();
        assert!(Numbers::load(&path).is_err());
    }
}
