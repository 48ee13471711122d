//! Every key there is and what is done with it; and, for a misspelt one, the key that was probably meant.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::later::{self, Plan};
use super::{Config, ignored};

/// What happens to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is acted on.
    Honoured,
    /// It is checked and kept, and will be acted on in a later version.
    NotYet,
    /// It is kept and shown, and changes nothing.
    Kept,
    /// It has nothing to act on here.
    Ignored,
}

/// Settings with a place of their own that nothing acts on yet.
const NOT_YET: &[&str] = &[
    "managedLedgerInactiveLedgerRolloverTimeSeconds",
    "managedLedgerMaxUnackedRangesToPersistInMetadataStore",
    "managedLedgerPersistIndividualAckAsLongArray",
    "managedLedgerCursorRolloverTimeInSeconds",
    "managedLedgerDeleteMaxConcurrentRequests",
    "managedLedgerMaxReadsInFlightSizeInMB",
    "autoSkipNonRecoverableData",
];

static ACTED_ON: LazyLock<BTreeSet<&'static str>> =
    LazyLock::new(|| Config::sections().into_iter().flat_map(|(_, settings)| settings.into_iter().map(|s| s.key)).collect());

/// What happens to `key`; none when it is unknown.
pub fn verdict(key: &str) -> Option<Verdict> {
    if ACTED_ON.contains(key) {
        return Some(if NOT_YET.contains(&key) { Verdict::NotYet } else { Verdict::Honoured });
    }
    if let Some(later) = later::find(key) {
        return Some(match later.plan {
            Plan::NotYet => Verdict::NotYet,
            Plan::Kept => Verdict::Kept,
        });
    }
    if later::KEPT_FAMILIES.iter().any(|family| key.starts_with(family)) {
        return Some(Verdict::Kept);
    }
    ignored::find(key).map(|_| Verdict::Ignored)
}

/// Whether `key` is a key in its own right, not only a member of a family.
pub fn is_known_by_name(key: &str) -> bool {
    ACTED_ON.contains(key) || later::find(key).is_some() || ignored::find(key).is_some_and(|i| i.key == key && !i.family)
}

/// The known key that is most like `key`, when it is like enough to be meant.
pub fn meant(key: &str) -> Option<&'static str> {
    let lower = key.to_ascii_lowercase();
    let later = later::groups().iter().flat_map(|(_, keys)| keys.iter().map(|later| later.key));
    let ignored = ignored::all().iter().filter(|i| !i.family).map(|i| i.key);
    let candidates = ACTED_ON.iter().copied().chain(later).chain(ignored);
    let nearest = candidates.map(|known| (strsim::damerau_levenshtein(&lower, &known.to_ascii_lowercase()), known)).min()?;
    (nearest.0 <= (key.len() / 4).max(1)).then_some(nearest.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_key_finds_the_one_that_was_meant() {
        assert_eq!(meant("numIoThreads"), Some("numIOThreads"));
        assert_eq!(meant("brokerServciePort"), Some("brokerServicePort"));
        assert_eq!(meant("maxMesageSize"), Some("maxMessageSize"));
        assert_eq!(meant("keepAliveIntervalSecs"), Some("keepAliveIntervalSeconds"));
        assert_eq!(meant("somethingElseAltogether"), None);
        assert_eq!(meant("x"), None);
    }

    #[test]
    fn no_key_is_in_two_tables() {
        for (_, keys) in later::groups() {
            for later in *keys {
                assert!(!ACTED_ON.contains(later.key), "{}", later.key);
                assert!(ignored::find(later.key).is_none_or(|i| i.family), "{}", later.key);
            }
        }
        for ignored in ignored::all() {
            assert!(!ACTED_ON.contains(ignored.key), "{}", ignored.key);
        }
    }

    #[test]
    fn no_setting_that_is_acted_on_falls_into_a_family() {
        for key in ACTED_ON.iter() {
            assert!(ignored::find(key).is_none(), "{key}");
            assert!(!later::KEPT_FAMILIES.iter().any(|family| key.starts_with(family)), "{key}");
        }
    }
}
