//! From sources to a configuration that is typed, checked and knows where each value comes from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::checks;
use super::known::{self, Verdict};
use super::later;
use super::problem::{ConfigError, Problem};
use super::secrets;
use super::sources::{Choice, File, Origin, Sources};
use super::table::Given;
use super::{Config, machine};

/// A key that nobody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// As written.
    pub key: String,
    /// Where.
    pub origin: Origin,
    /// The known key that was probably meant.
    pub meant: Option<&'static str>,
}

/// A value in effect, for `geminga config`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// The key.
    pub key: String,
    /// As it would be written; secrets are hidden.
    pub value: String,
    /// Where it comes from; none for the default.
    pub origin: Option<Origin>,
    /// What is done with it.
    pub verdict: Verdict,
}

/// A configuration and what is to be told about it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// For the banner: what is advertised, when nobody said what to advertise.
    pub advertises: Option<String>,
    /// Keys that nobody knows.
    pub unknown: Vec<Unknown>,
    /// Keys that have nothing to act on here.
    pub ignored: Vec<String>,
    /// Keys set to something other than their default that this version does not act on.
    pub not_yet: Vec<String>,
    chosen: BTreeMap<String, Choice>,
}

impl Sources {
    /// The flags, this process's environment and the configuration file: the one named, or the one that
    /// PULSAR_STANDALONE_CONF or PULSAR_BROKER_CONF names.
    pub fn gather(flags: Vec<(String, String, String)>, file: Option<&Path>) -> Result<Self, ConfigError> {
        let variables: Vec<(String, String)> =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect();
        let named = |name: &str| variables.iter().find(|(n, v)| n == name && !v.is_empty()).map(|(_, v)| PathBuf::from(v));
        let path = file.map(Path::to_path_buf).or_else(|| named("PULSAR_STANDALONE_CONF")).or_else(|| named("PULSAR_BROKER_CONF"));
        let file = path.map(|path| read(&path)).transpose()?;
        Ok(Self { dynamic: BTreeMap::new(), flags, variables, file })
    }
}

fn read(path: &Path) -> Result<File, ConfigError> {
    let shown = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|error| ConfigError::Unreadable { path: shown.clone(), reason: error.to_string() })?;
    Ok(File { path: shown, text: String::from_utf8_lossy(&bytes).into_owned() })
}

impl Config {
    /// Reads, checks and completes the configuration; every value that is wrong is in the error.
    pub fn load(sources: &Sources) -> Result<Loaded, ConfigError> {
        Self::load_on(sources, machine::host_name)
    }

    pub(super) fn load_on(sources: &Sources, host_name: impl FnOnce() -> String) -> Result<Loaded, ConfigError> {
        let chosen = sources.choose(known::is_known_by_name);
        let mut given = Given::new(&chosen);
        let mut config = Config::read(&mut given);
        let mut problems = given.problems;
        check_later(&chosen, &mut problems);
        let advertises = config.network.settle(&chosen, sources.file.is_some(), host_name);
        config.tls.settle(&mut config.network);
        let mut together = Vec::new();
        config.memory.settle(&chosen, &mut together);
        checks::check(&config, &chosen, &mut together);
        // A value that could not be read is no ground for a second complaint.
        together.retain(|conflict| !problems.iter().any(|bad| conflict.key.contains(&bad.key) || conflict.reason.contains(&bad.key)));
        problems.append(&mut together);
        if !problems.is_empty() {
            return Err(ConfigError::Wrong(problems));
        }
        let mut loaded = Loaded { config, advertises, unknown: Vec::new(), ignored: Vec::new(), not_yet: Vec::new(), chosen };
        loaded.sort_out();
        Ok(loaded)
    }
}

fn check_later(chosen: &BTreeMap<String, Choice>, problems: &mut Vec<Problem>) {
    for (key, choice) in chosen.iter().filter(|(_, choice)| !choice.text.is_empty()) {
        let Some(later) = later::find(key) else { continue };
        if let Err(reason) = later.form.check(&choice.text) {
            problems.push(Problem::bad_value(key, choice, reason, later.form.allowed()));
        } else if later::REFUSED_WHEN_TRUE.contains(&key.as_str()) && choice.text.eq_ignore_ascii_case("true") {
            let reason = "this version cannot do that yet, and will not run open instead".to_owned();
            problems.push(Problem::bad_value(key, choice, reason, "false".to_owned()));
        }
    }
}

impl Loaded {
    fn sort_out(&mut self) {
        for (key, choice) in &self.chosen {
            match known::verdict(key) {
                Some(Verdict::Honoured) => {}
                Some(Verdict::Ignored) => self.ignored.push(key.clone()),
                Some(Verdict::NotYet | Verdict::Kept) => {
                    let default = later::find(key).map_or("", |later| later.default);
                    if !choice.text.is_empty() && !choice.text.eq_ignore_ascii_case(default) {
                        self.not_yet.push(key.clone());
                    }
                }
                None => self.unknown.push(Unknown { key: key.clone(), origin: choice.origin.clone(), meant: known::meant(key) }),
            }
        }
    }

    /// Where the value of `key` comes from; none when it is the default.
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        let counts = |choice: &&Choice| !choice.text.is_empty() || BLANK_IS_OFF.contains(&key);
        self.chosen.get(key).filter(counts).map(|choice| &choice.origin)
    }

    /// Every known key with the value in effect: those acted on in the order of the reference, then the others that were set.
    pub fn effective(&self) -> Vec<Effective> {
        let mut all: Vec<Effective> = Vec::new();
        for (key, value) in self.config.show() {
            let verdict = known::verdict(key).unwrap_or(Verdict::Honoured);
            all.push(Effective { key: key.to_owned(), value: hidden(key, value), origin: self.origin(key).cloned(), verdict });
        }
        for later in later::groups().iter().flat_map(|(_, keys)| keys.iter()) {
            let value =
                self.chosen.get(later.key).map(|choice| choice.text.as_str()).filter(|text| !text.is_empty()).unwrap_or(later.default);
            let verdict = known::verdict(later.key).unwrap_or(Verdict::NotYet);
            let value = hidden(later.key, value.to_owned());
            all.push(Effective { key: later.key.to_owned(), value, origin: self.origin(later.key).cloned(), verdict });
        }
        for (key, choice) in &self.chosen {
            let verdict = known::verdict(key);
            if let Some(verdict @ (Verdict::Ignored | Verdict::Kept)) = verdict
                && later::find(key).is_none()
            {
                let value = hidden(key, choice.text.clone());
                all.push(Effective { key: key.clone(), value, origin: Some(choice.origin.clone()), verdict });
            }
        }
        all
    }

    /// Tells the log, once each, about keys that are unknown, ignored or not acted on yet.
    pub fn tell(&self) {
        if !self.ignored.is_empty() {
            tracing::info!(count = self.ignored.len(), keys = %shortened(&self.ignored), "settings of Pulsar's that have nothing to act on here");
        }
        let plugins = self.ignored.iter().filter(|key| super::ignored::asks_for_plugin(key) && self.is_set(key));
        for key in plugins {
            tracing::warn!(key, "Java extensions cannot be loaded: use a WebAssembly plugin instead");
        }
        if !self.not_yet.is_empty() {
            tracing::warn!(keys = %self.not_yet.join(","), "settings that this version accepts and does not act on yet");
        }
        if !self.unknown.is_empty() {
            let told: Vec<String> = self.unknown.iter().map(Unknown::to_string).collect();
            tracing::warn!(keys = %told.join("; "), "unknown settings");
        }
        if let Some(advertises) = &self.advertises {
            tracing::info!("{advertises}");
        }
        if let Some(warning) = self.config.trial.warning() {
            tracing::warn!("{warning}");
        }
    }

    fn is_set(&self, key: &str) -> bool {
        self.chosen.get(key).is_some_and(|choice| !choice.text.is_empty())
    }
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.key, self.origin)?;
        match self.meant {
            Some(meant) => write!(f, ", did you mean {meant}?"),
            None => Ok(()),
        }
    }
}

/// Keys that a blank value switches off.
const BLANK_IS_OFF: &[&str] = &["brokerServicePort", "brokerServicePortTls", "webServicePort", "webServicePortTls"];

fn hidden(key: &str, value: String) -> String {
    if secrets::is_secret(key) && !value.is_empty() { secrets::HIDDEN.to_owned() } else { value }
}

/// Keys with the members of a family folded into one word, so that seventy of them are still one readable line.
fn shortened(keys: &[String]) -> String {
    let mut families: Vec<(&str, usize)> = Vec::new();
    for key in keys {
        let entry = super::ignored::find(key);
        let name = entry.filter(|entry| entry.family).map_or(key.as_str(), |entry| entry.key);
        match families.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => families.push((name, 1)),
        }
    }
    let words = families
        .into_iter()
        .map(|(name, count)| if keys.iter().any(|key| key == name) { name.to_owned() } else { format!("{name}*({count})") });
    words.collect::<Vec<_>>().join(",")
}
