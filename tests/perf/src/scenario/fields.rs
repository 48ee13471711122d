//! Reads values by path and keeps account of everything that is wrong, so that a person corrects a file once.

use std::{collections::BTreeSet, fmt::Display, ops::RangeInclusive};

use serde_json::Value;

/// A tree of values that is being read.
pub(super) struct Fields<'a> {
    root: &'a Value,
    known: BTreeSet<&'static str>,
    wrong: Vec<String>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        Self { root, known: BTreeSet::new(), wrong: Vec::new() }
    }

    /// Notes what is wrong with a value.
    pub(super) fn refuse(&mut self, path: &str, value: &str, allowed: &str) {
        self.wrong.push(if value.is_empty() { format!("{path}: {allowed}") } else { format!("{path}: {value} is not allowed: {allowed}") });
    }

    /// Whether there is anything at the path but null.
    pub(super) fn has(&mut self, path: &'static str) -> bool {
        self.known.insert(path);
        self.find(path).is_some()
    }

    pub(super) fn text(&mut self, path: &'static str, default: &str) -> String {
        match self.look(path) {
            None => default.to_owned(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => {
                self.refuse(path, &other.to_string(), "a text");
                default.to_owned()
            }
        }
    }

    pub(super) fn flag(&mut self, path: &'static str, default: bool) -> bool {
        match self.look(path) {
            None => default,
            Some(Value::Bool(flag)) => *flag,
            Some(other) => {
                self.refuse(path, &other.to_string(), "true or false");
                default
            }
        }
    }

    pub(super) fn number<T: Copy + Display + TryFrom<u64> + PartialOrd>(
        &mut self,
        path: &'static str,
        default: T,
        range: RangeInclusive<T>,
    ) -> T {
        self.maybe_number(path, range).unwrap_or(default)
    }

    pub(super) fn maybe_number<T: Copy + Display + TryFrom<u64> + PartialOrd>(
        &mut self,
        path: &'static str,
        range: RangeInclusive<T>,
    ) -> Option<T> {
        let value = self.look(path)?;
        let number = value.as_u64().and_then(|number| T::try_from(number).ok()).filter(|number| range.contains(number));
        if number.is_none() {
            self.refuse(path, &value.to_string(), &format!("a whole number, at least {} and at most {}", range.start(), range.end()));
        }
        number
    }

    pub(super) fn decimal(&mut self, path: &'static str, default: f64, range: RangeInclusive<f64>) -> f64 {
        self.maybe_decimal(path, range).unwrap_or(default)
    }

    pub(super) fn maybe_decimal(&mut self, path: &'static str, range: RangeInclusive<f64>) -> Option<f64> {
        let value = self.look(path)?;
        let number = value.as_f64().filter(|number| range.contains(number));
        if number.is_none() {
            self.refuse(path, &value.to_string(), &format!("a number, at least {} and at most {}", range.start(), range.end()));
        }
        number
    }

    pub(super) fn decimals(&mut self, path: &'static str, range: RangeInclusive<f64>) -> Vec<f64> {
        let Some(value) = self.look(path) else { return Vec::new() };
        let list = value.as_array().map(|list| list.iter().map(Value::as_f64).collect::<Option<Vec<_>>>());
        match list {
            Some(Some(list)) if list.iter().all(|number| range.contains(number)) => list,
            _ => {
                let allowed = format!("a list of numbers such as [0, 20], each at least {} and at most {}", range.start(), range.end());
                self.refuse(path, &value.to_string(), &allowed);
                Vec::new()
            }
        }
    }

    /// All that was wrong, with the fields that nobody asked for.
    pub(super) fn finish(mut self) -> Result<(), Vec<String>> {
        let root = self.root;
        self.find_unknown(root, "");
        if self.wrong.is_empty() { Ok(()) } else { Err(self.wrong) }
    }

    fn look(&mut self, path: &'static str) -> Option<&'a Value> {
        self.known.insert(path);
        self.find(path)
    }

    fn find(&self, path: &str) -> Option<&'a Value> {
        let value = path.split('.').try_fold(self.root, |value, name| value.get(name))?;
        (!value.is_null()).then_some(value)
    }

    fn find_unknown(&mut self, value: &Value, path: &str) {
        let Some(object) = value.as_object() else {
            let shown = if path.is_empty() { "the file" } else { path };
            self.wrong.push(format!("{shown}: {value} is not allowed: a group of fields"));
            return;
        };
        for (name, value) in object {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let is_group = self.known.iter().any(|known| known.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('.')));
            if is_group {
                if !value.is_null() {
                    self.find_unknown(value, &path);
                }
            } else if !self.known.contains(path.as_str()) {
                let nearest = self.nearest(&path);
                self.wrong.push(format!("{path}: there is no such field{nearest}"));
            }
        }
    }

    fn nearest(&self, path: &str) -> String {
        let groups = self.known.iter().filter_map(|known| known.rsplit_once('.')).map(|(group, _)| group);
        let all = self.known.iter().copied().chain(groups);
        let near = all.map(|known| (strsim::jaro_winkler(&known.to_lowercase(), &path.to_lowercase()), known));
        match near.max_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((likeness, known)) if likeness > 0.8 => format!("; did you mean {known}?"),
            _ => "; `geminga perf show` prints all fields of a scenario".to_owned(),
        }
    }
}
