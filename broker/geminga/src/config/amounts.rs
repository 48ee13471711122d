//! Times and sizes: whole units in the file, with the unit in the key's name; typed inside.

use std::num::NonZeroU64;
use std::time::Duration;

use super::forms::{Form, Number};

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(u64);

impl ByteSize {
    /// So many bytes.
    pub const fn bytes(bytes: u64) -> Self {
        Self(bytes)
    }
    /// So many times 1024 bytes.
    pub const fn kib(kib: u64) -> Self {
        Self(kib << 10)
    }
    /// So many times 1024 * 1024 bytes.
    pub const fn mib(mib: u64) -> Self {
        Self(mib << 20)
    }
    /// In bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// In bytes, for sizes of memory; sizes beyond the address space become the largest one.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
    /// In whole MiB, rounded down.
    pub const fn whole_mib(self) -> u64 {
        self.0 >> 20
    }
}

/// The unit that a key's name carries for time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// Millionths of a second.
    Microseconds,
    /// Thousandths of a second.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// Minutes.
    Minutes,
}

impl TimeUnit {
    fn of(self, count: u64) -> Duration {
        Duration::from_micros(count.saturating_mul(self.micros()))
    }
    fn count(self, time: Duration) -> u64 {
        u64::try_from(time.as_micros()).unwrap_or(u64::MAX) / self.micros()
    }
    fn micros(self) -> u64 {
        match self {
            TimeUnit::Microseconds => 1,
            TimeUnit::Milliseconds => 1_000,
            TimeUnit::Seconds => 1_000_000,
            TimeUnit::Minutes => 60_000_000,
        }
    }
    fn name(self) -> &'static str {
        match self {
            TimeUnit::Microseconds => "microseconds",
            TimeUnit::Milliseconds => "milliseconds",
            TimeUnit::Seconds => "seconds",
            TimeUnit::Minutes => "minutes",
        }
    }
}

/// A time, in whole units, from the first to the second number.
#[derive(Clone, Copy)]
pub struct Time(pub TimeUnit, pub u64, pub u64);

/// A time in seconds.
pub const fn seconds(min: u64, max: u64) -> Time {
    Time(TimeUnit::Seconds, min, max)
}
/// A time in microseconds.
pub const fn microseconds(min: u64, max: u64) -> Time {
    Time(TimeUnit::Microseconds, min, max)
}
/// A time in milliseconds.
pub const fn milliseconds(min: u64, max: u64) -> Time {
    Time(TimeUnit::Milliseconds, min, max)
}
/// A time in minutes.
pub const fn minutes(min: u64, max: u64) -> Time {
    Time(TimeUnit::Minutes, min, max)
}

impl Form for Time {
    type Value = Duration;
    fn parse(&self, text: &str) -> Result<Duration, String> {
        Number(self.1, self.2).parse(text).map(|count| self.0.of(count))
    }
    fn show(&self, value: &Duration) -> String {
        self.0.count(*value).to_string()
    }
    fn allowed(&self) -> String {
        format!("{} from {} to {}", self.0.name(), self.1, self.2)
    }
}

/// A time after which something happens; 0 or less is never.
#[derive(Clone, Copy)]
pub struct TimeOrOff(pub TimeUnit);

impl Form for TimeOrOff {
    type Value = Option<Duration>;
    fn parse(&self, text: &str) -> Result<Self::Value, String> {
        let count = Number(i64::from(i32::MIN), i64::from(u32::MAX)).parse(text)?;
        Ok(u64::try_from(count).ok().and_then(NonZeroU64::new).map(|count| self.0.of(count.get())))
    }
    fn show(&self, value: &Self::Value) -> String {
        value.map_or(0, |time| self.0.count(time)).to_string()
    }
    fn allowed(&self) -> String {
        format!("{}; 0 or less switches it off", self.0.name())
    }
}

/// A time for which something is kept; -1 is for ever (none inside).
#[derive(Clone, Copy)]
pub struct TimeOrForEver(pub TimeUnit);

impl Form for TimeOrForEver {
    type Value = Option<Duration>;
    fn parse(&self, text: &str) -> Result<Self::Value, String> {
        let count = Number(-1, i64::from(i32::MAX)).parse(text)?;
        Ok(u64::try_from(count).ok().map(|count| self.0.of(count)))
    }
    fn show(&self, value: &Self::Value) -> String {
        value.map_or_else(|| "-1".to_owned(), |time| self.0.count(time).to_string())
    }
    fn allowed(&self) -> String {
        format!("{}; -1 is for ever", self.0.name())
    }
}

/// The unit that a key's name carries for sizes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SizeUnit {
    /// Bytes.
    Bytes,
    /// 1024 * 1024 bytes, which Pulsar's keys call MB.
    Mebibytes,
}

impl SizeUnit {
    fn shift(self) -> u32 {
        match self {
            SizeUnit::Bytes => 0,
            SizeUnit::Mebibytes => 20,
        }
    }
    fn name(self) -> &'static str {
        match self {
            SizeUnit::Bytes => "bytes",
            SizeUnit::Mebibytes => "MiB",
        }
    }
}

/// A size, in whole units, from the first to the second number.
#[derive(Clone, Copy)]
pub struct Size(pub SizeUnit, pub u64, pub u64);

/// A size in bytes.
pub const fn bytes(min: u64, max: u64) -> Size {
    Size(SizeUnit::Bytes, min, max)
}
/// A size in MiB, up to a pebibyte.
pub const fn mebibytes(min: u64) -> Size {
    Size(SizeUnit::Mebibytes, min, 1 << 30)
}

impl Form for Size {
    type Value = ByteSize;
    fn parse(&self, text: &str) -> Result<ByteSize, String> {
        Number(self.1, self.2).parse(text).map(|count| ByteSize(count << self.0.shift()))
    }
    fn show(&self, value: &ByteSize) -> String {
        (value.0 >> self.0.shift()).to_string()
    }
    fn allowed(&self) -> String {
        format!("{} from {} to {}", self.0.name(), self.1, self.2)
    }
}

/// A part of the memory budget in MiB; 0 or less, which Pulsar takes for no limit, is the default share (0 inside).
#[derive(Clone, Copy)]
pub struct MemoryPart;

impl Form for MemoryPart {
    type Value = ByteSize;
    fn parse(&self, text: &str) -> Result<ByteSize, String> {
        let mib = Number(i64::from(i32::MIN), 1 << 30).parse(text)?;
        Ok(ByteSize::mib(u64::try_from(mib).unwrap_or(0)))
    }
    fn show(&self, value: &ByteSize) -> String {
        value.whole_mib().to_string()
    }
    fn allowed(&self) -> String {
        "MiB; 0 or less is the default share, since nothing is without limit".to_owned()
    }
}

/// A size, or -1 (none inside) with the meaning that the second field tells.
#[derive(Clone, Copy)]
pub struct SizeOr(pub SizeUnit, pub &'static str);

impl Form for SizeOr {
    type Value = Option<ByteSize>;
    fn parse(&self, text: &str) -> Result<Self::Value, String> {
        let count = Number(-1, i64::MAX >> self.0.shift()).parse(text)?;
        Ok(u64::try_from(count).ok().map(|count| ByteSize(count << self.0.shift())))
    }
    fn show(&self, value: &Self::Value) -> String {
        value.map_or_else(|| "-1".to_owned(), |size| (size.0 >> self.0.shift()).to_string())
    }
    fn allowed(&self) -> String {
        format!("{}; -1 is {}", self.0.name(), self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_the_file_become_types_and_back() {
        assert_eq!(seconds(1, 60).parse("30"), Ok(Duration::from_secs(30)));
        assert_eq!(minutes(0, 60).parse("4"), Ok(Duration::from_secs(240)));
        assert_eq!(mebibytes(0).parse("2048"), Ok(ByteSize::mib(2048)));
        assert_eq!(mebibytes(0).show(&ByteSize::mib(2048)), "2048");
        assert_eq!(minutes(0, 60).show(&Duration::from_secs(240)), "4");
    }

    #[test]
    fn minus_one_is_for_ever_and_nothing_below_it_is_taken() {
        assert_eq!(TimeOrForEver(TimeUnit::Minutes).parse("-1"), Ok(None));
        assert_eq!(TimeOrForEver(TimeUnit::Minutes).parse("0"), Ok(Some(Duration::ZERO)));
        assert!(TimeOrForEver(TimeUnit::Minutes).parse("-2").is_err());
        assert_eq!(SizeOr(SizeUnit::Mebibytes, "for ever").parse("-1"), Ok(None));
        assert!(SizeOr(SizeUnit::Mebibytes, "for ever").parse("9223372036854775807").is_err());
    }
}
