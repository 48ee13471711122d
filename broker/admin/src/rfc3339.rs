//! Times as text.

/// `2026-01-05T10:00:00.123Z`, of milliseconds since the epoch.
pub(crate) fn from_ms(ms: u64) -> String {
    let (seconds, ms) = (ms / 1000, ms % 1000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// The same way back: of a time in UTC, with or without fractions.
pub(crate) fn to_ms(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
    let mut parts = date.split('-').map(number);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut parts = time.split(':').map(number);
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let is_one = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_one || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let ms = number(&format!("{:0<3}", fraction.get(..fraction.len().min(3))?))?;
    Some(((days(year, month, day) * 24 + hour) * 3_600 + minute * 60 + second) * 1_000 + ms)
}

/// Days since the epoch.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let (era, of_era) = (year / 400, year % 400);
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + (153 * month + 2) / 5 + day - 1 - 719_468
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
    fn a_moment_goes_to_text_and_back() {
        for ms in [0, 951_782_399_999, 951_868_800_000, 1_767_607_200_123, 4_107_542_400_000] {
            assert_eq!(to_ms(&from_ms(ms)), Some(ms));
        }
        assert_eq!(to_ms("2026-01-05T10:00:00Z"), Some(1_767_607_200_000));
        for strange in [
            "",
            "2026-01-05",
            "2026-13-05T10:00:00Z",
            "2026-01-05T10:00Z",
            "2026-01-05T24:00:00Z",
            "x-y-zTa:b:cZ",
            "2026-01-05T10:00:00.äZ",
        ] {
            assert_eq!(to_ms(strange), None, "{strange}");
        }
    }

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
