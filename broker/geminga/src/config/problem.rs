//! What is wrong with a configuration, told all at once: key, value, where it was written and what is allowed.

use std::collections::BTreeMap;
use std::fmt;

use super::secrets;
use super::sources::{Choice, Origin};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key, or the keys, that it is about.
    pub key: String,
    /// What was written, none when the key is a secret or several are meant.
    pub value: Option<String>,
    /// Where it was written; none when it comes from several places.
    pub origin: Option<Origin>,
    /// What is wrong and what is allowed instead.
    pub reason: String,
}

impl Problem {
    pub(super) fn bad_value(key: &str, choice: &Choice, reason: String, allowed: String) -> Self {
        let reason = if reason.is_empty() { format!("allowed: {allowed}") } else { format!("{reason}; allowed: {allowed}") };
        let value = (!secrets::is_secret(key)).then(|| choice.text.clone());
        Self { key: key.to_owned(), value, origin: Some(choice.origin.clone()), reason }
    }

    /// Settings that contradict each other, each with its value and where that comes from.
    pub(super) fn together(keys: &[&str], shown: &BTreeMap<&str, String>, chosen: &BTreeMap<String, Choice>, reason: &str) -> Self {
        let told = keys.iter().map(|key| {
            let value = shown.get(key).map_or("", String::as_str);
            let origin = chosen.get(*key).map_or_else(|| "default".to_owned(), |choice| choice.origin.to_string());
            format!("{key}={value} ({origin})")
        });
        Self::of(told.collect::<Vec<_>>().join(", "), reason)
    }

    pub(super) fn of(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { key: key.into(), value: None, origin: None, reason: reason.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        if let Some(value) = &self.value {
            write!(f, "={value}")?;
        }
        if let Some(origin) = &self.origin {
            write!(f, " ({origin})")?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {path}: {reason}")]
    Unreadable {
        /// As it was asked for.
        path: String,
        /// What the system said.
        reason: String,
    },
    /// Every value that is wrong.
    #[error("{}", all(.0))]
    Wrong(Vec<Problem>),
}

fn all(problems: &[Problem]) -> String {
    let count = match problems.len() {
        1 => "1 setting is wrong:".to_owned(),
        n => format!("{n} settings are wrong:"),
    };
    problems.iter().fold(count, |text, problem| text + "\n  " + &problem.to_string())
}
