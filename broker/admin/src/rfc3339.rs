//! Times as text.

/// `2026-01-05T10:00:00.123Z`, of milliseconds since the epoch.
pub(crate) fn from_ms(ms: u64) -> String {
    let (seconds, ms) = (ms / 1000, ms % 1000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// Year, month and day, of days since the epoch. Counts in years that begin in March, so that the leap day is the last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        assert_eq!(from_ms(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(from_ms(951_782_399_999), "2000-02-28T23:59:59.999Z");
        assert_eq!(from_ms(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(from_ms(951_868_800_000), "2000-03-01T00:00:00.000Z");
        assert_eq!(from_ms(1_767_607_200_123), "2026-01-05T10:00:00.123Z");
        assert_eq!(from_ms(4_107_542_399_000), "2100-02-28T23:59:59.000Z");
        assert_eq!(from_ms(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
    }
}
