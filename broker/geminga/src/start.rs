//! What comes before the broker: settings, logging and the data directory, in this order, so that each failure is told
//! in the way that is already set up.

use std::time::Instant;

use crate::cli::{Settings, ShowConfig, Standalone, exit};
use crate::config::show::{self, NoSuchKey};
use crate::config::{Config, ConfigError, Loaded, Sources};
use crate::data_dir::{self, DataDir, DataDirError};
use crate::logging::{self, LogError, Wanted};

/// All that a broker is built from.
pub struct Prepared {
    /// Settings and what is to be told about them.
    pub loaded: Loaded,
    /// Where they came from, to be read again when one is changed.
    pub sources: Sources,
    /// The data directory, held.
    pub data: DataDir,
    /// When the process began to start.
    pub began: Instant,
}

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A key was asked for that does not exist.
    #[error(transparent)]
    Key(#[from] NoSuchKey),
    /// A level or a format is wrong.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The data directory cannot be used.
    #[error(transparent)]
    Data(#[from] DataDirError),
}

impl StartError {
    /// The exit code that tells a script which of them it was.
    pub fn exit_code(&self) -> u8 {
        match self {
            StartError::Config(_) => exit::CONFIG,
            StartError::Key(_) | StartError::Log(_) => exit::USAGE,
            StartError::Data(_) => exit::DATA,
        }
    }
}

/// Settings, logging and the data directory of a broker.
pub fn prepare(flags: &Standalone, began: Instant) -> Result<Prepared, StartError> {
    let (loaded, sources) = load(&flags.settings)?;
    let default_level = loaded.config.upkeep.log_level.clone();
    logging::start(Wanted { format: flags.log_format, level: flags.log_level.clone(), default_level })?;
    loaded.tell();
    let without_effect = flags.pulsar.given();
    if !without_effect.is_empty() {
        tracing::info!(flags = %without_effect.join(" "), "flags of Pulsar's standalone that have nothing to act on here");
    }
    let directory = &loaded.config.storage.data_directory;
    if flags.wipe_data {
        data_dir::wipe(directory)?;
        tracing::warn!(directory = %directory.display(), "the data directory was wiped");
    }
    let data = DataDir::open(directory)?;
    if let Some(from) = &data.copied_from {
        tracing::warn!(%from, instance = %data.instance, "this data directory was copied or restored; it goes on as an instance of its own");
    }
    Ok(Prepared { loaded, sources, data, began })
}

/// The text that `geminga config` prints.
pub fn show_config(args: &ShowConfig) -> Result<String, StartError> {
    let (loaded, _) = load(&args.settings)?;
    let settings = show::select(&loaded, &args.keys)?;
    Ok(match (args.json, args.keys.is_empty()) {
        (true, _) => show::json(&settings),
        (false, true) => show::table(&settings),
        (false, false) => show::explained(&settings),
    })
}

fn load(settings: &Settings) -> Result<(Loaded, Sources), ConfigError> {
    let sources = Sources::gather(settings.flags(), settings.config.as_deref())?;
    Ok((Config::load(&sources)?, sources))
}
