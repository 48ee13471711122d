//! How numbers are spelt for people.

/// A whole number with its thousands apart.
pub(crate) fn whole(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut spelt = String::new();
    if value < 0.0 && digits != "0" {
        spelt.push('−');
    }
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            spelt.push(',');
        }
        spelt.push(digit);
    }
    spelt
}

/// A number with the digits that its size deserves.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 1000.0 => whole(value),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A number on an axis: short.
pub(crate) fn tick(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, "G"),
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    format!("{}{unit}", trimmed(scaled))
}

/// Microseconds, in the unit that fits.
pub(crate) fn micros(value: f64) -> String {
    match value {
        value if value < 1e3 => format!("{value:.0} µs"),
        value if value < 10e3 => format!("{:.2} ms", value / 1e3),
        value if value < 100e3 => format!("{:.1} ms", value / 1e3),
        value if value < 1e6 => format!("{:.0} ms", value / 1e3),
        value if value < 100e6 => format!("{:.2} s", value / 1e6),
        value => format!("{:.0} s", value / 1e6),
    }
}

/// Microseconds on an axis.
pub(crate) fn micros_tick(value: f64) -> String {
    let (scaled, unit) = match value {
        value if value < 1e3 => (value, "µs"),
        value if value < 1e6 => (value / 1e3, "ms"),
        value => (value / 1e6, "s"),
    };
    format!("{} {unit}", trimmed(scaled))
}

/// Bytes in megabytes of 10^6, or in gigabytes when there are many.
pub(crate) fn megabytes(bytes: f64) -> String {
    if bytes >= 1e10 { format!("{} GB", number(bytes / 1e9)) } else { format!("{} MB", number(bytes / 1e6)) }
}

/// Seconds.
pub(crate) fn seconds(value: f64) -> String {
    format!("{} s", number(value))
}

/// A change in per cent, with its sign.
pub(crate) fn change(percent: f64) -> String {
    let sign = if percent >= 0.0 { "+" } else { "−" };
    let size = percent.abs();
    if size >= 1000.0 { format!("{sign}{} %", whole(size)) } else { format!("{sign}{size:.1} %") }
}

/// How many times more or less, where per cent no longer say it well.
pub(crate) fn times(ratio: f64) -> Option<String> {
    match ratio {
        ratio if ratio >= 2.0 && ratio.is_finite() => Some(format!("{} times as much", number(ratio))),
        ratio if ratio > 0.0 && ratio <= 0.5 => Some(format!("{} times less", number(1.0 / ratio))),
        _ => None,
    }
}

/// A percentile's name, such as `p99.9`.
pub(crate) fn percentile(percentile: f64) -> String {
    format!("p{percentile}")
}

fn trimmed(value: f64) -> String {
    let spelt = format!("{value:.2}");
    spelt.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spelt_for_people() {
        assert_eq!(whole(1_234_567.2), "1,234,567");
        assert_eq!(whole(-999.0), "−999");
        assert_eq!(number(0.123_4), "0.12");
        assert_eq!(tick(1_500_000.0), "1.5M");
        assert_eq!(tick(100.0), "100");
        assert_eq!(micros(1_530.0), "1.53 ms");
        assert_eq!(micros_tick(200_000.0), "200 ms");
        assert_eq!(change(-12.94), "−12.9 %");
        assert_eq!(percentile(99.9), "p99.9");
        assert_eq!(times(0.025).as_deref(), Some("40.0 times less"));
        assert_eq!(times(13.0).as_deref(), Some("13.0 times as much"));
        assert_eq!((times(1.4), times(0.0)), (None, None));
    }
}
