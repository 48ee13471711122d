//! The configuration of a broker that runs: what can be changed is read again together with all the rest, checked, kept in the metadata
//! tree where Pulsar keeps it, and brought to the floors that act on it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use admin::{ConfigChanges, ConfigItem, ConfigRefusal, Configuration};
use metadata::paths::CONFIGURATION;
use metadata::{Expected, MetadataError, MetadataStore, Rejected};
use server::Handle;

use crate::config::sources::{File, Origin};
use crate::config::{Config, ConfigError, Effective, Loaded, Problem, Sources, Verdict, known, later, secrets};
use crate::floors;
use crate::logging;
use crate::start::Prepared;

/// See the module.
pub struct Running {
    handle: Handle,
    metadata: Arc<dyn MetadataStore>,
    epoch: u64,
    /// Without what was changed.
    sources: Sources,
    loaded: Mutex<Loaded>,
}

impl Running {
    /// As it was started.
    pub fn new(prepared: &Prepared, handle: Handle, metadata: Arc<dyn MetadataStore>) -> Self {
        let (sources, loaded) = (prepared.sources.clone(), Mutex::new(prepared.loaded.clone()));
        Self { handle, metadata, epoch: prepared.data.epoch, sources, loaded }
    }

    /// Puts in force again what was changed in an earlier run. What cannot be any more is told and left aside.
    pub fn resume(&self) {
        let (changed, _) = match self.kept() {
            Ok(kept) => kept,
            Err(error) => return tracing::warn!(%error, "changes of the configuration could not be read; it is as it was started"),
        };
        if changed.is_empty() {
            return;
        }
        let count = changed.len();
        match self.tried(changed).and_then(|loaded| self.act(loaded)) {
            Ok(()) => tracing::info!(count, "settings that were changed while the broker ran are in force again"),
            Err(refusal) => tracing::warn!(?refusal, "changes of the configuration cannot be any more; it is as it was started"),
        }
    }

    /// What was changed, and the version of that.
    fn kept(&self) -> Result<(BTreeMap<String, String>, i64), String> {
        let Some(found) = self.metadata.get(CONFIGURATION).map_err(|error| error.to_string())? else { return Ok((BTreeMap::new(), -1)) };
        if found.value.is_empty() {
            return Ok((BTreeMap::new(), found.version));
        }
        let changed = serde_json::from_slice(&found.value).map_err(|error| format!("{CONFIGURATION}: {error}"))?;
        Ok((changed, found.version))
    }

    /// The configuration with these changes, if it can be.
    fn tried(&self, changed: BTreeMap<String, String>) -> Result<Loaded, ConfigRefusal> {
        let sources = Sources { dynamic: changed, ..self.sources.clone() };
        Config::load(&sources).map_err(|error| ConfigRefusal::Wrong(told(error)))
    }

    /// Brings it to the floors.
    fn act(&self, loaded: Loaded) -> Result<(), ConfigRefusal> {
        let settings = floors::server_settings(&loaded.config, self.epoch).map_err(|error| ConfigRefusal::Failed(error.to_string()))?;
        let level = loaded.config.upkeep.log_level.clone();
        let level = matches!(loaded.origin("logLevel"), Some(Origin::Dynamic)).then_some(level);
        logging::change(level.as_deref()).map_err(|error| ConfigRefusal::Failed(error.to_string()))?;
        self.handle.reconfigure(&settings);
        *self.lock() = loaded;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Loaded> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Configuration for Running {
    fn items(&self) -> Vec<ConfigItem> {
        items(&self.lock())
    }

    fn changed(&self) -> (BTreeMap<String, String>, i64) {
        self.kept().unwrap_or_default()
    }

    fn change(&self, changes: ConfigChanges, revision: Option<i64>, trial: bool) -> Result<i64, ConfigRefusal> {
        for (key, _) in &changes {
            may_change(key)?;
        }
        loop {
            let (mut changed, version) = self.kept().map_err(ConfigRefusal::Failed)?;
            if revision.is_some_and(|revision| revision != version) {
                return Err(ConfigRefusal::Stale { revision: version });
            }
            for (key, value) in &changes {
                match value {
                    Some(value) => drop(changed.insert(key.clone(), value.clone())),
                    None => drop(changed.remove(key)),
                }
            }
            let loaded = self.tried(changed.clone())?;
            if trial {
                return Ok(version);
            }
            let bytes = serde_json::to_vec(&changed).map_err(|error| ConfigRefusal::Failed(error.to_string()))?;
            let expected = if version < 0 { Expected::Absent } else { Expected::Version(version) };
            match self.metadata.put(CONFIGURATION, &bytes, expected) {
                Ok(version) => {
                    self.act(loaded)?;
                    let keys = changes.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>().join(",");
                    tracing::info!(keys, version, "the configuration was changed while the broker runs");
                    return Ok(version);
                }
                // Somebody was faster: with theirs it may look otherwise.
                Err(MetadataError::Rejected(Rejected::VersionConflict { .. } | Rejected::Exists { .. } | Rejected::NotFound { .. })) => {}
                Err(error) => return Err(ConfigRefusal::Failed(error.to_string())),
            }
        }
    }

    fn check(&self, text: &str) -> Vec<(String, String)> {
        let file = File { path: "the file".to_owned(), text: text.to_owned() };
        match Config::load(&Sources { file: Some(file), ..Sources::default() }) {
            Ok(loaded) => loaded.unknown.iter().map(|unknown| (unknown.key.clone(), unknown.to_string())).collect(),
            Err(error) => told(error),
        }
    }
}

/// Whether a key can be changed while the broker runs.
fn may_change(key: &str) -> Result<(), ConfigRefusal> {
    let setting = Config::sections().into_iter().flat_map(|(_, settings)| settings).find(|setting| setting.key == key);
    match setting {
        Some(setting) if setting.dynamic.is_some() => Ok(()),
        Some(_) => Err(ConfigRefusal::Static(format!("{key} takes a new start: set it in the file, the environment or a flag"))),
        None if known::verdict(key).is_some() => {
            Err(ConfigRefusal::Static(format!("{key} is not acted on here, so changing it changes nothing")))
        }
        None => {
            let meant = known::meant(key).map(|meant| format!(", did you mean {meant}?")).unwrap_or_default();
            Err(ConfigRefusal::Unknown(format!("there is no setting {key}{meant}")))
        }
    }
}

fn told(error: ConfigError) -> Vec<(String, String)> {
    match error {
        ConfigError::Wrong(problems) => problems.into_iter().map(|Problem { key, reason, .. }| (key, reason)).collect(),
        unreadable => vec![(String::new(), unreadable.to_string())],
    }
}

fn items(loaded: &Loaded) -> Vec<ConfigItem> {
    let settings: BTreeMap<_, _> =
        Config::sections().into_iter().flat_map(|(_, settings)| settings).map(|setting| (setting.key, setting)).collect();
    let worth = |effective: &Effective| effective.verdict == Verdict::Honoured || effective.origin.is_some();
    let item = |effective: Effective| {
        let mut item = ConfigItem {
            source: source(effective.origin.as_ref()),
            origin: effective.origin.as_ref().map(ToString::to_string),
            secret: secrets::is_secret(&effective.key),
            state: state(effective.verdict),
            value: effective.value,
            key: effective.key,
            ..ConfigItem::default()
        };
        if let Some(setting) = settings.get(item.key.as_str()) {
            item.default.clone_from(&setting.default);
            item.allowed.clone_from(&setting.allowed);
            item.description = setting.doc.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
            item.dynamic = setting.dynamic.is_some();
            item.acts = setting.dynamic;
            item.restart_required = setting.dynamic.is_none();
        } else if let Some(later) = later::find(&item.key) {
            later.default.clone_into(&mut item.default);
            item.allowed = later.form.allowed();
        }
        item
    };
    loaded.effective().into_iter().filter(worth).map(item).collect()
}

fn source(origin: Option<&Origin>) -> &'static str {
    match origin {
        None => "default",
        Some(Origin::Dynamic) => "dynamic",
        Some(Origin::Flag(_)) => "cli",
        Some(Origin::Variable(_)) => "env",
        Some(Origin::File { .. }) => "file",
    }
}

fn state(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Honoured => "honoured",
        Verdict::NotYet => "not yet",
        Verdict::Kept => "kept",
        Verdict::Ignored => "ignored",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(sources: &Sources) -> Loaded {
        Config::load(sources).expect("loads")
    }

    fn item(loaded: &Loaded, key: &str) -> ConfigItem {
        items(loaded).into_iter().find(|item| item.key == key).expect("an item")
    }

    #[test]
    fn an_item_tells_where_its_value_comes_from_and_whether_it_can_be_changed() {
        let sources = Sources {
            dynamic: BTreeMap::from([("ttlDurationDefaultInSeconds".to_owned(), "60".to_owned())]),
            flags: vec![
                ("ttlDurationDefaultInSeconds".into(), "9".into(), "--set".into()),
                ("clusterName".into(), "c".into(), "--set".into()),
            ],
            ..Sources::default()
        };
        let loaded = loaded(&sources);
        let ttl = item(&loaded, "ttlDurationDefaultInSeconds");
        assert_eq!((ttl.value.as_str(), ttl.source, ttl.dynamic, ttl.acts), ("60", "dynamic", true, Some("at once")));
        let name = item(&loaded, "clusterName");
        assert_eq!((name.source, name.dynamic, name.restart_required), ("cli", false, true));
        assert_eq!(item(&loaded, "maxMessageSize").source, "default");
    }

    #[test]
    fn secrets_are_not_shown() {
        let sources =
            Sources { flags: vec![("tokenSecretKey".into(), "data:;base64,c2VjcmV0".into(), "--set".into())], ..Sources::default() };
        let secret = item(&loaded(&sources), "tokenSecretKey");
        assert!(secret.secret && !secret.value.contains("c2VjcmV0"), "{secret:?}");
    }

    #[test]
    fn only_what_acts_at_once_can_be_changed_and_a_misspelt_key_finds_the_one_that_was_meant() {
        assert_eq!(may_change("ttlDurationDefaultInSeconds"), Ok(()));
        assert!(matches!(may_change("numIOThreads"), Err(ConfigRefusal::Static(_))));
        assert!(
            matches!(may_change("ttlDurationDefaultInSecond"), Err(ConfigRefusal::Unknown(why)) if why.contains("ttlDurationDefaultInSeconds"))
        );
    }

    #[test]
    fn every_setting_that_can_be_changed_says_from_when_on() {
        let dynamic: Vec<_> = Config::sections().into_iter().flat_map(|(_, settings)| settings).filter(|s| s.dynamic.is_some()).collect();
        assert!(dynamic.len() > 20);
        assert!(dynamic.iter().all(|setting| known::verdict(setting.key) == Some(Verdict::Honoured)), "one of them is not acted on");
    }
}
