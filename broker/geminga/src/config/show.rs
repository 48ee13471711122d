//! What `geminga config` prints: values in effect and where each comes from.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::known::{self, Verdict};
use super::{Config, Effective, Loaded, ignored, later};

/// A key that was asked for and does not exist.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no setting {key}{}", .meant.map(|meant| format!(", did you mean {meant}?")).unwrap_or_default())]
pub struct NoSuchKey {
    /// As it was asked for.
    pub key: String,
    /// What was probably meant.
    pub meant: Option<&'static str>,
}

/// The settings to print: those asked for, or, with none asked for, all that are acted on and all that are set.
pub fn select(loaded: &Loaded, keys: &[String]) -> Result<Vec<Effective>, NoSuchKey> {
    let all = loaded.effective();
    if keys.is_empty() {
        return Ok(all.into_iter().filter(|e| e.verdict == Verdict::Honoured || e.origin.is_some()).collect());
    }
    let find = |key: &String| {
        let known = all.iter().find(|effective| effective.key == *key).cloned();
        let unset = || {
            let verdict = known::verdict(key)?;
            Some(Effective { key: key.clone(), value: String::new(), origin: None, verdict })
        };
        known.or_else(unset).ok_or_else(|| NoSuchKey { key: key.clone(), meant: known::meant(key) })
    };
    keys.iter().map(find).collect()
}

/// A table for people.
pub fn table(settings: &[Effective]) -> String {
    let width = |of: fn(&Effective) -> usize, most: usize| settings.iter().map(of).max().unwrap_or(0).min(most);
    let (keys, values) = (width(|e| e.key.len(), 56), width(|e| e.value.len(), 40));
    let mut out = String::new();
    for setting in settings {
        let note = match setting.verdict {
            Verdict::Honoured => "",
            Verdict::NotYet => " (not acted on yet)",
            Verdict::Kept => " (kept, changes nothing)",
            Verdict::Ignored => " (ignored)",
        };
        let _ = writeln!(out, "{:keys$}  {:values$}  {}{note}", setting.key, setting.value, source(setting));
    }
    out
}

/// A table, and under it what each setting means and what may be written.
pub fn explained(settings: &[Effective]) -> String {
    let known: Vec<_> = Config::sections().into_iter().flat_map(|(_, settings)| settings).collect();
    let mut out = table(settings);
    for setting in settings {
        let _ = write!(out, "\n{}\n", setting.key);
        if let Some(setting) = known.iter().find(|known| known.key == setting.key) {
            for line in &setting.doc {
                let _ = writeln!(out, "  {}", line.trim());
            }
            let default = setting.told.unwrap_or(&setting.default);
            let _ = writeln!(out, "  Allowed: {}. Default: {default}.", setting.allowed);
        } else if let Some(later) = later::find(&setting.key) {
            let _ = writeln!(out, "  Allowed: {}. Default in Pulsar: {}.", later.form.allowed(), later.default);
        } else if let Some(ignored) = ignored::find(&setting.key) {
            let _ = writeln!(out, "  Ignored: {}.", ignored.why);
        }
    }
    out
}

/// An array of objects for scripts.
pub fn json(settings: &[Effective]) -> String {
    let state = |verdict| match verdict {
        Verdict::Honoured => "honoured",
        Verdict::NotYet => "not yet",
        Verdict::Kept => "kept",
        Verdict::Ignored => "ignored",
    };
    let all: Vec<Value> =
        settings.iter().map(|s| json!({ "key": s.key, "value": s.value, "source": source(s), "state": state(s.verdict) })).collect();
    format!("{:#}\n", Value::Array(all))
}

fn source(setting: &Effective) -> String {
    setting.origin.as_ref().map_or_else(|| "default".to_owned(), ToString::to_string)
}
