//! Prometheus' text format 0.0.4: each family once, its samples together.

use std::fmt::{Display, Write};

/// What a family's numbers mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
    Summary,
}

/// A family's head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) help: &'static str,
}

impl Family {
    pub(crate) const fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Counter, help }
    }

    pub(crate) const fn histogram(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Histogram, help }
    }

    pub(crate) const fn summary(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Summary, help }
    }

    pub(crate) const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Gauge, help }
    }
}

/// The text so far.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    text: String,
    name: &'static str,
}

impl Exposition {
    /// Begins a family; the samples that follow are its own.
    pub(crate) fn family(&mut self, family: Family) {
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Summary => "summary",
        };
        let Family { name, help, .. } = family;
        // Writing to a string cannot fail.
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        self.name = name;
    }

    /// One number of the family begun last; `labels` as [`label`] made them, separated by commas.
    pub(crate) fn sample(&mut self, labels: &str, value: impl Display) {
        let _ = writeln!(self.text, "{}{{{labels}}} {value}", self.name);
    }

    /// The samples of a histogram or summary: `suffix` is one of `_bucket`, `_sum` and `_count`.
    pub(crate) fn part(&mut self, suffix: &str, labels: &str, value: impl Display) {
        let _ = writeln!(self.text, "{}{suffix}{{{labels}}} {value}", self.name);
    }

    /// A family of one number.
    pub(crate) fn single(&mut self, family: Family, labels: &str, value: impl Display) {
        self.family(family);
        self.sample(labels, value);
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

/// `name="value"`, with the value escaped.
pub(crate) fn label(name: &str, value: &str) -> String {
    let mut text = String::with_capacity(name.len() + value.len() + 3);
    text.push_str(name);
    text.push_str("=\"");
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
pub(crate) mod parser {
    //! A strict reader of the format, for tests.

    use std::collections::{BTreeMap, HashSet};

    /// Family name to its samples (`labels` to value).
    pub(crate) type Parsed = BTreeMap<String, BTreeMap<String, f64>>;

    /// Panics, with the line, on a text that is not well formed, on a family that is not contiguous and on a sample told twice.
    pub(crate) fn parse(text: &str) -> Parsed {
        let mut families = Parsed::new();
        let mut current = String::new();
        let mut helped = HashSet::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap_or_else(|| panic!("{line}"));
                assert!(!help.is_empty() && helped.insert(name.to_owned()), "{line}");
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap_or_else(|| panic!("{line}"));
                assert!(["counter", "gauge", "histogram", "summary"].contains(&kind), "{line}");
                assert!(!families.contains_key(name), "family told twice: {line}");
                assert!(helped.contains(name), "no help before {line}");
                name.clone_into(&mut current);
                families.insert(current.clone(), BTreeMap::new());
            } else {
                let (sample, rest) = line.split_once('{').unwrap_or_else(|| panic!("{line}"));
                let suffix = sample.strip_prefix(&*current).unwrap_or_else(|| panic!("sample outside its family: {line}"));
                assert!(["", "_bucket", "_sum", "_count"].contains(&suffix), "sample outside its family: {line}");
                let name = current.as_str();
                let (labels, value) = rest.rsplit_once("} ").unwrap_or_else(|| panic!("{line}"));
                check_labels(labels);
                let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
                let before = families.get_mut(name).unwrap().insert(format!("{labels}{suffix}"), value);
                assert!(before.is_none(), "sample told twice: {line}");
            }
        }
        assert!(text.ends_with('\n'));
        families
    }

    fn check_labels(mut labels: &str) {
        loop {
            let (name, rest) = labels.split_once("=\"").unwrap_or_else(|| panic!("{labels}"));
            assert!(!name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{labels}");
            let mut escaped = false;
            let end = rest.find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            let end = end.unwrap_or_else(|| panic!("{labels}"));
            match rest[end + 1..].strip_prefix(',') {
                Some(more) => labels = more,
                None => return assert!(rest[end + 1..].is_empty(), "{labels}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_are_escaped() {
        let mut out = Exposition::default();
        out.single(Family::gauge("g", "A gauge."), &label("topic", "a\"b\\c\nd"), 1);
        let text = out.into_text();
        assert_eq!(text, "# HELP g A gauge.\n# TYPE g gauge\ng{topic=\"a\\\"b\\\\c\\nd\"} 1\n");
        assert_eq!(parser::parse(&text)["g"].len(), 1);
    }

    #[test]
    #[should_panic(expected = "family told twice")]
    fn the_parser_notices_a_torn_family() {
        let mut out = Exposition::default();
        for name in ["a", "b", "a"] {
            out.family(Family::counter(name, "help"));
        }
        // Without the second help line, which is noticed first.
        parser::parse(&out.into_text().replacen("# HELP a help\n", "", 2).replacen("# TYPE a", "# HELP a help\n# TYPE a", 1));
    }
}
