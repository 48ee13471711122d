//! The configuration: one struct, read once from Pulsar's `key=value` files, the environment and flags.

use std::collections::BTreeMap;

pub mod amounts;
pub mod auth;
pub mod checks;
pub mod connections;
pub mod forms;
pub mod http;
pub mod ignored;
pub mod known;
pub mod later;
pub mod limits;
pub mod listeners;
pub mod loaded;
pub mod machine;
pub mod memory;
pub mod metrics;
pub mod network;
pub mod problem;
pub mod rates;
pub mod reference;
pub mod schemas;
pub mod secrets;
pub mod show;
pub mod sources;
pub mod storage;
pub mod timing;
pub mod tls;
pub mod topics;
pub mod trial;
pub mod upkeep;

mod table;

pub use amounts::ByteSize;
pub use auth::Auth;
pub use connections::Connections;
pub use http::Http;
pub use known::Verdict;
pub use limits::{Inactivity, Limits};
pub use loaded::{Effective, Loaded, Unknown};
pub use memory::Memory;
pub use metrics::Metrics;
pub use network::Network;
pub use problem::{ConfigError, Problem};
pub use rates::{BacklogQuotas, QuotaPolicy, Rates};
pub use schemas::Schemas;
pub use sources::{Origin, Sources};
pub use storage::{Ledgers, Storage};
pub use timing::{Compaction, Patterns, Timing};
pub use tls::Tls;
pub use topics::{Deduplication, Dispatch, Topics};
pub use trial::Trial;
pub use upkeep::Upkeep;

use sources::Choice;
use table::{Given, Section, Setting};

/// Every setting that Geminga acts on, typed and checked. Hand each room its section, not the whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Ports, addresses and the names they are advertised under.
    pub network: Network,
    /// Certificates, keys and what is asked of clients.
    pub tls: Tls,
    /// Who is believed, and who may do what.
    pub auth: Auth,
    /// Event loops, connections and their limits.
    pub connections: Connections,
    /// Limits of the HTTP side.
    pub http: Http,
    /// How topics and subscriptions come to be.
    pub topics: Topics,
    /// How fast and how far messages run ahead of acknowledgements.
    pub dispatch: Dispatch,
    /// Rates.
    pub rates: Rates,
    /// How much may wait to be acknowledged.
    pub quotas: BacklogQuotas,
    /// How messages that are sent twice are recognised.
    pub deduplication: Deduplication,
    /// How much of everything there may be.
    pub limits: Limits,
    /// What becomes of what nobody uses.
    pub inactivity: Inactivity,
    /// What schemas of messages may become.
    pub schemas: Schemas,
    /// Delays and expiry.
    pub timing: Timing,
    /// Compaction of topics.
    pub compaction: Compaction,
    /// Topic patterns.
    pub patterns: Patterns,
    /// The data directory and the log.
    pub storage: Storage,
    /// Ledgers and cursors.
    pub ledgers: Ledgers,
    /// The memory budget and its parts.
    pub memory: Memory,
    /// What metrics tell, and how often their rates are made anew.
    pub metrics: Metrics,
    /// Starting and stopping.
    pub upkeep: Upkeep,
    /// For measurements only.
    pub trial: Trial,
}

/// Says of each section in turn what is the same for all of them.
macro_rules! each_section {
    ($callback:ident) => {
        $callback!(network: Network, tls: Tls, auth: Auth, connections: Connections, http: Http, topics: Topics, dispatch: Dispatch, rates: Rates, quotas: BacklogQuotas, deduplication: Deduplication, limits: Limits, inactivity: Inactivity, schemas: Schemas, timing: Timing, compaction: Compaction, patterns: Patterns, storage: Storage, ledgers: Ledgers, memory: Memory, metrics: Metrics, upkeep: Upkeep, trial: Trial)
    };
}

impl Config {
    fn read(given: &mut Given<'_>) -> Self {
        macro_rules! read {
            ($($field:ident: $section:ident),+) => { Self { $($field: $section::read(given)),+ } };
        }
        each_section!(read)
    }

    /// The settings of each section under its title, in the order of the reference.
    pub(crate) fn sections() -> Vec<(&'static str, Vec<Setting>)> {
        macro_rules! told {
            ($($field:ident: $section:ident),+) => { vec![$(($section::TITLE, $section::settings())),+] };
        }
        each_section!(told)
    }

    /// Every key with its value as it would be written.
    pub(crate) fn show(&self) -> Vec<(&'static str, String)> {
        macro_rules! shown {
            ($($field:ident: $section:ident),+) => { [$(self.$field.show()),+].concat() };
        }
        each_section!(shown)
    }
}

impl Default for Config {
    fn default() -> Self {
        let nothing: BTreeMap<String, Choice> = BTreeMap::new();
        let mut config = Self::read(&mut Given::new(&nothing));
        // Without settings no part can be over the budget.
        config.memory.settle(&nothing, &mut Vec::new());
        config
    }
}

#[cfg(test)]
mod tests;
