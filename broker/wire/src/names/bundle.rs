//! A bundle: a range of a namespace's topics by the hash of their names; the unit of ownership and lookup.

use std::{fmt, str::FromStr};

use super::TopicName;

/// Where a topic stands among the bundles of its namespace: CRC-32 (IEEE) of its full name.
///
/// Pulsar hashes a partition by its own name, so the partitions of a topic spread over the bundles.
pub fn hash_of_topic(name: &TopicName) -> u32 {
    crc32fast::hash(name.as_str().as_bytes())
}

/// A range of hashes: the lower end belongs to it, the upper one does not, except that nothing lies beyond `0xffffffff`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BundleRange {
    lower: u32,
    upper: u32,
}

/// Why a text or a pair of numbers is no range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BundleRangeError {
    /// Not of the form `0x00000000_0x40000000`.
    #[error("bundle range {0:?} is not of the form 0x00000000_0x40000000")]
    Form(String),
    /// The lower end is not below the upper one.
    #[error("bundle range 0x{lower:08x}_0x{upper:08x} is empty")]
    Empty {
        /// The lower end.
        lower: u32,
        /// The upper end.
        upper: u32,
    },
}

impl BundleRange {
    /// All hashes.
    pub const FULL: Self = Self { lower: 0, upper: u32::MAX };

    /// The range from `lower` to `upper`.
    pub fn new(lower: u32, upper: u32) -> Result<Self, BundleRangeError> {
        if lower >= upper {
            return Err(BundleRangeError::Empty { lower, upper });
        }
        Ok(Self { lower, upper })
    }

    /// The lower end, which belongs to the range.
    pub fn lower(&self) -> u32 {
        self.lower
    }

    /// The upper end.
    pub fn upper(&self) -> u32 {
        self.upper
    }

    /// Whether a hash lies in the range.
    pub fn contains(&self, hash: u32) -> bool {
        self.lower <= hash && (hash < self.upper || self.upper == u32::MAX)
    }

    /// The hash space in `count` equal parts, as a namespace begins; a count of zero is one.
    pub fn split_evenly(count: u32) -> impl Iterator<Item = Self> {
        let count = u64::from(count.max(1));
        let end = 1u64 << 32;
        let boundary = move |i: u64| if i == count { u32::MAX } else { (end / count * i) as u32 };
        (0..count).map(move |i| Self { lower: boundary(i), upper: boundary(i + 1) })
    }
}

impl FromStr for BundleRange {
    type Err = BundleRangeError;

    fn from_str(text: &str) -> Result<Self, BundleRangeError> {
        let end = |part: &str| {
            let digits = part.strip_prefix("0x").filter(|digits| digits.len() == 8 && digits.bytes().all(|d| d.is_ascii_hexdigit()))?;
            u32::from_str_radix(digits, 16).ok()
        };
        let ends = text.split_once('_').and_then(|(lower, upper)| end(lower).zip(end(upper)));
        let (lower, upper) = ends.ok_or_else(|| BundleRangeError::Form(text.to_owned()))?;
        Self::new(lower, upper)
    }
}

impl fmt::Display for BundleRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:08x}_0x{:08x}", self.lower, self.upper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_written_as_it_is_read() {
        let range: BundleRange = "0x40000000_0x80000000".parse().unwrap();
        assert_eq!((range.lower(), range.upper(), range.to_string().as_str()), (0x4000_0000, 0x8000_0000, "0x40000000_0x80000000"));
        assert_eq!("0x4_0x8".parse::<BundleRange>(), Err(BundleRangeError::Form("0x4_0x8".to_owned())));
        assert_eq!("0x00000001_0x00000001".parse::<BundleRange>(), Err(BundleRangeError::Empty { lower: 1, upper: 1 }));
    }

    #[test]
    fn even_parts_cover_every_hash_once() {
        let parts: Vec<_> = BundleRange::split_evenly(4).collect();
        let texts: Vec<_> = parts.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["0x00000000_0x40000000", "0x40000000_0x80000000", "0x80000000_0xc0000000", "0xc0000000_0xffffffff"]);
        for hash in [0, 0x3fff_ffff, 0x4000_0000, 0x8000_0000, u32::MAX] {
            assert_eq!(parts.iter().filter(|part| part.contains(hash)).count(), 1, "{hash:#x}");
        }
    }

    #[test]
    fn a_topic_is_hashed_by_its_full_name() {
        // The check value of CRC-32, and a name computed with Python's zlib.
        assert_eq!(crc32fast::hash(b"123456789"), 0xcbf4_3926);
        let name: TopicName = "persistent://public/default/orders".parse().unwrap();
        assert_eq!(hash_of_topic(&name), ORDERS_BY_ZLIB);
    }

    const ORDERS_BY_ZLIB: u32 = 0xb135_b9dc;
}
