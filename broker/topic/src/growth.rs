//! How counters grew over the last period of statistics. The counters themselves only ever count; once a period somebody looks.

/// What `N` counters grew by over the last period, and how long it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Growth<const N: usize> {
    before: [u64; N],
    by: [u64; N],
    seconds: f64,
}

impl<const N: usize> Default for Growth<N> {
    fn default() -> Self {
        Self { before: [0; N], by: [0; N], seconds: 0.0 }
    }
}

impl<const N: usize> Growth<N> {
    /// A period of so many seconds has ended, with the counters at these values.
    pub(crate) fn period_ended(&mut self, totals: [u64; N], seconds: f64) {
        for ((by, before), total) in self.by.iter_mut().zip(&mut self.before).zip(totals) {
            *by = total.saturating_sub(*before);
            *before = total;
        }
        self.seconds = seconds;
    }

    /// What they grew by.
    pub(crate) fn by(&self) -> [u64; N] {
        self.by
    }

    /// So much over the last period, in a second.
    pub(crate) fn per_second<const M: usize>(&self, by: [u64; M]) -> [f64; M] {
        by.map(|by| if self.seconds > 0.0 { by as f64 / self.seconds } else { 0.0 })
    }

    /// The same in a second; 0 until the first period has ended.
    pub(crate) fn rates(&self) -> [f64; N] {
        self.per_second(self.by)
    }
}

/// Upper ends of the classes of entry sizes, in bytes; one more class holds what is larger.
pub const ENTRY_SIZES: [u64; 8] = [128, 512, 1024, 2048, 4096, 16_384, 102_400, 1_048_576];

/// Upper ends of the classes of write latencies, in microseconds; one more class holds what took longer.
pub const WRITE_LATENCIES: [u64; 9] = [500, 1_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 1_000_000];

/// Counts by class, and their sum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Classes<const ENDS: usize, const CLASSES: usize> {
    ends: &'static [u64; ENDS],
    pub(crate) counts: [u64; CLASSES],
    pub(crate) sum: u64,
}

impl<const ENDS: usize, const CLASSES: usize> Classes<ENDS, CLASSES> {
    pub(crate) const fn new(ends: &'static [u64; ENDS]) -> Self {
        Self { ends, counts: [0; CLASSES], sum: 0 }
    }

    /// Counts `times` of `value`.
    pub(crate) fn count(&mut self, value: u64, times: u64) {
        // Small values are the frequent ones, and are found first.
        let class = self.ends.iter().position(|end| value <= *end).unwrap_or(ENDS);
        if let Some(count) = self.counts.get_mut(class) {
            *count += times;
        }
        self.sum += value * times;
    }
}

/// Entries of a topic by their bytes.
pub(crate) type Sizes = Classes<8, 9>;

/// Entries of a topic by the time their write took.
pub(crate) type Latencies = Classes<9, 10>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_what_came_in_the_last_period_only() {
        let mut growth = Growth::default();
        assert_eq!(growth.rates(), [0.0]);
        growth.period_ended([100], 10.0);
        assert_eq!(growth.rates(), [10.0]);
        growth.period_ended([120], 5.0);
        assert_eq!((growth.rates(), growth.by()), ([4.0], [20]));
        growth.period_ended([120], 5.0);
        assert_eq!(growth.rates(), [0.0]);
    }

    #[test]
    fn a_value_is_in_the_first_class_that_holds_it() {
        let mut sizes = Sizes::new(&ENTRY_SIZES);
        for value in [0, 128, 129, 1_048_576, 1_048_577] {
            sizes.count(value, 1);
        }
        assert_eq!(sizes.counts, [2, 1, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(sizes.sum, 128 + 129 + 1_048_576 + 1_048_577);
    }
}
