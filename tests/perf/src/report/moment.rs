//! Moments of the calendar, from milliseconds since 1970.

/// Such as `2026-11-30 15:04:05`, in UTC.
pub(crate) fn utc(ms: u64) -> String {
    let ((year, month, day), second) = (civil(ms / 86_400_000), ms / 1000 % 86_400);
    format!("{year}-{month:02}-{day:02} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// The same as part of a file name: `20261130-150405`.
pub(crate) fn file_name(ms: u64) -> String {
    utc(ms).replace(['-', ':'], "").replace(' ', "-")
}

/// Year, month and day of a number of days since 1970, by the proleptic Gregorian calendar.
fn civil(days: u64) -> (u64, u64, u64) {
    // Years that begin in March have their odd day at the end, and 400 of them have always the same length.
    let since_march = days + 719_468;
    let (era, day_of_era) = (since_march / 146_097, since_march % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00:00");
        assert_eq!(utc(951_782_400_000), "2000-02-29 00:00:00");
        assert_eq!(utc(1_796_051_045_999), "2026-11-30 15:04:05");
        assert_eq!(file_name(1_796_051_045_000), "20261130-150405");
    }
}
