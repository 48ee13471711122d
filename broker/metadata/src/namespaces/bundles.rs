//! A namespace's bundles: the hash ranges it is divided into.

use serde::{Deserialize, Serialize};

/// Bundles a namespace may have at most.
pub const MAX_BUNDLES: u32 = 65_536;

/// The boundaries of the bundles, ascending from 0 to `u32::MAX`. A bundle holds the hashes from its first boundary up to, not
/// including, its second; the last bundle includes `u32::MAX`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Spelt", into = "Spelt")]
pub struct Bundles {
    boundaries: Vec<u32>,
}

/// Why bundles are none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BundlesError {
    /// Too few or too many.
    #[error("{0} bundles: 1 to {MAX_BUNDLES} are possible")]
    Count(u64),
    /// A boundary that is not `0x` and eight hexadecimal digits.
    #[error("{0:?} is not a bundle boundary such as 0x40000000")]
    Boundary(String),
    /// Boundaries that do not ascend from 0x00000000 to 0xffffffff.
    #[error("bundle boundaries must ascend from 0x00000000 to 0xffffffff")]
    Order,
    /// A count that is not that of the boundaries.
    #[error("{bundles} bundles need {} boundaries, not {boundaries}", bundles + 1)]
    Mismatch {
        /// The count given.
        bundles: u32,
        /// The boundaries given.
        boundaries: usize,
    },
}

impl Bundles {
    /// `count` bundles of the same size, as Pulsar divides them.
    pub fn even(count: u32) -> Result<Bundles, BundlesError> {
        if count == 0 || count > MAX_BUNDLES {
            return Err(BundlesError::Count(u64::from(count)));
        }
        let size = (1u64 << 32) / u64::from(count);
        let inner = (0..count).map(|bundle| u32::try_from(u64::from(bundle) * size).unwrap_or(u32::MAX));
        Ok(Bundles { boundaries: inner.chain([u32::MAX]).collect() })
    }
    /// How many there are.
    pub fn count(&self) -> usize {
        self.boundaries.len() - 1
    }
    /// The boundaries, one more than bundles.
    pub fn boundaries(&self) -> &[u32] {
        &self.boundaries
    }
    /// The boundaries of the bundle that holds `hash`.
    pub fn of(&self, hash: u32) -> (u32, u32) {
        let last = self.boundaries.len() - 2;
        let at = self.boundaries.partition_point(|first| *first <= hash).saturating_sub(1).min(last);
        (self.boundaries[at], self.boundaries[at + 1])
    }
    /// A bundle's name in paths and in the admin API.
    pub fn name((first, last): (u32, u32)) -> String {
        format!("0x{first:08x}_0x{last:08x}")
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spelt {
    boundaries: Option<Vec<String>>,
    num_bundles: Option<i64>,
}

impl From<Bundles> for Spelt {
    fn from(bundles: Bundles) -> Spelt {
        let spelt = bundles.boundaries.iter().map(|boundary| format!("0x{boundary:08x}")).collect();
        Spelt { num_bundles: i64::try_from(bundles.count()).ok(), boundaries: Some(spelt) }
    }
}

impl TryFrom<Spelt> for Bundles {
    type Error = BundlesError;

    fn try_from(spelt: Spelt) -> Result<Bundles, BundlesError> {
        let count = spelt.num_bundles.map(|count| u32::try_from(count).map_err(|_| BundlesError::Count(count.unsigned_abs())));
        let count = count.transpose()?;
        let boundaries = spelt.boundaries.unwrap_or_default();
        if boundaries.is_empty() {
            return Bundles::even(count.unwrap_or(0));
        }
        let parsed = boundaries.iter().map(|boundary| parse(boundary)).collect::<Result<Vec<u32>, _>>()?;
        let ascends = parsed.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascends || parsed.first() != Some(&0) || parsed.last() != Some(&u32::MAX) {
            return Err(BundlesError::Order);
        }
        match count {
            Some(bundles) if bundles as usize + 1 != parsed.len() => Err(BundlesError::Mismatch { bundles, boundaries: parsed.len() }),
            _ if parsed.len() - 1 > MAX_BUNDLES as usize => Err(BundlesError::Count(parsed.len() as u64 - 1)),
            _ => Ok(Bundles { boundaries: parsed }),
        }
    }
}

fn parse(boundary: &str) -> Result<u32, BundlesError> {
    let digits = boundary.strip_prefix("0x").filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
    digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).ok_or_else(|| BundlesError::Boundary(boundary.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn four_bundles_are_divided_as_pulsar_does() {
        let bundles = Bundles::even(4).expect("four");
        let spelt = json!({"boundaries": ["0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff"], "numBundles": 4});
        assert_eq!(serde_json::to_value(&bundles).expect("json"), spelt);
        assert_eq!(serde_json::from_value::<Bundles>(spelt).expect("bundles"), bundles);
        assert_eq!(Bundles::even(3).expect("three").boundaries(), [0, 0x5555_5555, 0xaaaa_aaaa, u32::MAX]);
    }

    #[test]
    fn every_hash_has_one_bundle() {
        for count in [1, 2, 3, 7, 64, MAX_BUNDLES] {
            let bundles = Bundles::even(count).expect("bundles");
            assert_eq!(bundles.count(), count as usize);
            assert_eq!(bundles.of(0).0, 0);
            assert_eq!(bundles.of(u32::MAX).1, u32::MAX);
            for pair in bundles.boundaries().windows(2) {
                assert_eq!(bundles.of(pair[0]), if pair[0] == u32::MAX { bundles.of(u32::MAX) } else { (pair[0], pair[1]) });
                assert_eq!(bundles.of(pair[1] - 1), (pair[0], pair[1]));
            }
        }
    }

    #[test]
    fn a_count_alone_is_enough() {
        let bundles: Bundles = serde_json::from_value(json!({"numBundles": 2, "boundaries": null})).expect("bundles");
        assert_eq!(bundles, Bundles::even(2).expect("two"));
    }

    #[test]
    fn impossible_bundles_say_why() {
        for (spelt, word) in [
            (json!({"numBundles": 0}), "0 bundles"),
            (json!({"numBundles": -1}), "1 bundles"),
            (json!({"boundaries": ["0x00000000", "0xfffffffe"]}), "ascend"),
            (json!({"boundaries": ["0x00000000", "0x80000000", "0x80000000", "0xffffffff"]}), "ascend"),
            (json!({"boundaries": ["0x0", "x", "0xffffffff"]}), "\"x\""),
            (json!({"boundaries": ["0x+1"]}), "0x+1"),
            (json!({"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 2}), "need 3"),
        ] {
            let error = serde_json::from_value::<Bundles>(spelt.clone()).expect_err("impossible");
            assert!(error.to_string().contains(word), "{spelt}: {error}");
        }
    }
}
