//! Logs are events with fields, on the standard error: for people on a terminal, or one JSON object a line.

use std::fmt;
use std::io::{self, IsTerminal};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    #[value(alias = "text")]
    Human,
    /// One JSON object a line
    Json,
}

/// A level or a format that is none.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Not a level, and not levels per part.
    #[error("{origin} {text:?} is no log level: use error, warn, info, debug, trace or off, or levels per part as in info,server=debug")]
    Level {
        /// The flag or the variable.
        origin: &'static str,
        /// As written.
        text: String,
    },
    /// Not a format.
    #[error("PULSAR_LOG_FORMAT {0:?} is no log format: use human (or text) or json")]
    Format(String),
    /// Logging was set up before.
    #[error("logging is set up already")]
    Twice,
}

/// What the flags say; what they do not is asked of the environment, PULSAR_LOG_FORMAT and PULSAR_LOG_LEVEL.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// `--log-format`
    pub format: Option<Format>,
    /// `--log-level`
    pub level: Option<String>,
    /// The level when nobody says one.
    pub default_level: String,
}

/// Sets logging up, once in the life of a process.
pub fn start(wanted: Wanted) -> Result<(), LogError> {
    let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
    let (format, filter) = settle(wanted, variable("PULSAR_LOG_FORMAT"), variable("PULSAR_LOG_LEVEL"))?;
    let begun = filter.clone();
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let started = match format {
        Format::Human => {
            let builder = builder.with_timer(TimeOfDay).with_target(false).with_ansi(io::stderr().is_terminal() && colours());
            let builder = builder.with_filter_reloading();
            let handle = builder.reload_handle();
            let _ = LEVEL.set(Level { begun, set: Box::new(move |filter| drop(handle.reload(filter))) });
            builder.try_init()
        }
        Format::Json => {
            let builder = builder.json().flatten_event(true).with_current_span(true).with_span_list(false).with_filter_reloading();
            let handle = builder.reload_handle();
            let _ = LEVEL.set(Level { begun, set: Box::new(move |filter| drop(handle.reload(filter))) });
            builder.try_init()
        }
    };
    started.map_err(|_| LogError::Twice)
}

/// What is logged, and how to change it.
struct Level {
    /// At the start.
    begun: EnvFilter,
    set: Box<dyn Fn(EnvFilter) + Send + Sync>,
}

static LEVEL: OnceLock<Level> = OnceLock::new();

/// Logs at another level from now on; none goes back to that of the start.
///
/// # Errors
/// What is no level.
pub fn change(level: Option<&str>) -> Result<(), LogError> {
    let Some(known) = LEVEL.get() else { return Ok(()) };
    let wanted = match level {
        Some(level) => filter("logLevel", level.to_owned())?,
        None => known.begun.clone(),
    };
    (known.set)(wanted);
    Ok(())
}

/// Whether something is a level.
///
/// # Errors
/// When it is none.
pub fn check(level: &str) -> Result<(), LogError> {
    filter("logLevel", level.to_owned()).map(drop)
}

fn colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn settle(wanted: Wanted, format: Option<String>, level: Option<String>) -> Result<(Format, EnvFilter), LogError> {
    let format = match (wanted.format, format) {
        (Some(format), _) => format,
        (None, None) => Format::Human,
        (None, Some(text)) => match text.to_ascii_lowercase().as_str() {
            "human" | "text" => Format::Human,
            "json" => Format::Json,
            _ => return Err(LogError::Format(text)),
        },
    };
    let (origin, text) = match (wanted.level, level) {
        (Some(level), _) => ("--log-level", level),
        (None, Some(level)) => ("PULSAR_LOG_LEVEL", level),
        (None, None) => ("logLevel", wanted.default_level),
    };
    Ok((format, filter(origin, text)?))
}

// A bare word that is no level would be read as the name of a part, and silence everything.
fn filter(origin: &'static str, text: String) -> Result<EnvFilter, LogError> {
    let known = |level: &str| level.parse::<tracing::metadata::LevelFilter>().is_ok() && !level.trim().is_empty();
    let sound = text.split(',').all(|part| known(part.rsplit_once('=').map_or(part, |(_, level)| level).trim()));
    let parts = text.split(',').map(|part| {
        let part = part.trim();
        // Rooms are named without the prefix of their crates.
        let room = part.split_once('=').filter(|(room, _)| ROOMS.contains(room));
        room.map_or_else(|| part.to_owned(), |(room, level)| format!("geminga_{room}={level}"))
    });
    let directives = parts.collect::<Vec<_>>().join(",");
    match EnvFilter::try_new(directives) {
        Ok(filter) if sound => Ok(filter),
        _ => Err(LogError::Level { origin, text }),
    }
}

const ROOMS: &[&str] = &["wire", "ledger", "metadata", "topic", "client", "server", "admin"];

/// `12:34:56.789`, in UTC: the date is the terminal's business, and JSON lines carry it.
struct TimeOfDay;

impl FormatTime for TimeOfDay {
    fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        w.write_str(&time_of_day(since.as_millis()))
    }
}

fn time_of_day(millis: u128) -> String {
    let seconds = millis / 1_000 % 86_400;
    format!("{:02}:{:02}:{:02}.{:03}", seconds / 3_600, seconds / 60 % 60, seconds % 60, millis % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(format: Option<&str>, level: Option<&str>) -> Result<(Format, String), String> {
        let wanted = Wanted { default_level: "info".into(), ..Wanted::default() };
        let settled = settle(wanted, format.map(str::to_owned), level.map(str::to_owned));
        settled.map(|(format, filter)| (format, filter.to_string())).map_err(|error| error.to_string())
    }

    #[test]
    fn the_environment_says_what_the_flags_do_not() {
        assert_eq!(settled(None, None), Ok((Format::Human, "info".to_owned())));
        assert_eq!(settled(Some("JSON"), Some("debug")), Ok((Format::Json, "debug".to_owned())));
        assert_eq!(settled(Some("text"), Some("info,server=debug")), Ok((Format::Human, "geminga_server=debug,info".to_owned())));
        let flags = Wanted { format: Some(Format::Human), level: Some("error".into()), default_level: "info".into() };
        let (format, filter) = settle(flags, Some("json".into()), Some("trace".into())).expect("settles");
        assert_eq!((format, filter.to_string().as_str()), (Format::Human, "error"));
    }

    #[test]
    fn what_is_no_level_or_format_is_refused() {
        assert!(settled(Some("xml"), None).expect_err("refused").contains("xml"));
        for level in ["loud", "info,", "server=loud", ""] {
            assert!(settled(None, Some(level)).expect_err(level).contains("no log level"));
        }
    }

    #[test]
    fn the_time_of_day_is_short_and_in_utc() {
        assert_eq!(time_of_day(0), "00:00:00.000");
        assert_eq!(time_of_day(1_000 * (86_400 * 3 + 12 * 3_600 + 34 * 60 + 56) + 789), "12:34:56.789");
    }
}
