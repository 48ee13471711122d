//! What a broker's `/metrics` says of its entry cache.

use crate::result::CacheUse;

/// Counters of the cache at one moment, summed over topics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CacheClock {
    hits: u64,
    misses: u64,
    storage_entries: u64,
    storage_reads: Option<u64>,
}

impl CacheClock {
    /// Reads them from the text of `/metrics`; none when the broker does not tell.
    pub fn parse(text: &str) -> Option<Self> {
        let sum = |name: &str| {
            let values = text.lines().filter_map(|line| value_of(line, name));
            values.fold(None, |sum: Option<f64>, value| Some(sum.unwrap_or(0.0) + value)).map(|sum| sum as u64)
        };
        Some(Self {
            hits: sum("geminga_cache_hits_total")?,
            misses: sum("geminga_cache_misses_total")?,
            storage_entries: sum("geminga_storage_read_entries_total").unwrap_or(0),
            storage_reads: sum("geminga_storage_reads_total"),
        })
    }

    /// What happened since an earlier look. A topic that was loaded again meanwhile begins at zero.
    pub fn since(&self, before: &Self) -> CacheUse {
        CacheUse {
            source: "/metrics".to_owned(),
            hits: self.hits.saturating_sub(before.hits),
            misses: self.misses.saturating_sub(before.misses),
            storage_reads: self.storage_reads.zip(before.storage_reads).map(|(now, then)| now.saturating_sub(then)),
            storage_entries: Some(self.storage_entries.saturating_sub(before.storage_entries)),
            storage_bytes: None,
        }
    }
}

/// The value in a line `name{labels} value`.
fn value_of(line: &str, name: &str) -> Option<f64> {
    let rest = line.strip_prefix(name)?;
    let value = match rest.strip_prefix('{') {
        // A label's text may hold anything but an end of line.
        Some(labelled) => labelled.rsplit_once('}')?.1,
        None => rest.strip_prefix(' ')?,
    };
    value.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "# TYPE geminga_cache_hits_total counter\n\
        geminga_cache_hits_total{cluster=\"standalone\",topic=\"persistent://a/b/c}\"} 10\n\
        geminga_cache_hits_total{cluster=\"standalone\",topic=\"x\"} 5\n\
        geminga_cache_misses_total{topic=\"x\"} 1\n\
        geminga_storage_read_entries_total{topic=\"x\"} 7\n";

    #[test]
    fn topics_are_added_up() {
        let after = BEFORE.replace("} 10\n", "} 110\n").replace("} 1\n", "} 11\n");
        let used = CacheClock::parse(&after).unwrap().since(&CacheClock::parse(BEFORE).unwrap());
        assert_eq!((used.hits, used.misses, used.storage_entries, used.storage_reads), (100, 10, Some(0), None));
        assert_eq!(used.hit_ratio(), Some(100.0 / 110.0));
    }

    #[test]
    fn a_broker_that_does_not_tell_has_no_cache_to_report() {
        assert_eq!(CacheClock::parse("pulsar_ml_cache_hits_rate{cluster=\"x\"} 1.5\n"), None);
    }
}
