//! The configuration: one struct, read once from Pulsar's `key=value` files, the environment and flags.

use std::collections::BTreeMap;

pub mod connections;
pub mod forms;
pub mod http;
pub mod listeners;
pub mod machine;
pub mod memory;
pub mod network;
pub mod problem;
pub mod secrets;
pub mod sources;
pub mod storage;
pub mod topics;
pub mod upkeep;

mod table;

pub use connections::Connections;
pub use forms::ByteSize;
pub use http::Http;
pub use memory::Memory;
pub use network::Network;
pub use problem::{ConfigError, Problem};
pub use sources::{Origin, Sources};
pub use storage::{Ledgers, Storage};
pub use topics::{Dispatch, Topics};
pub use upkeep::Upkeep;

use sources::Choice;
use table::{Given, Section};

/// Every setting that Geminga acts on, typed and checked. Hand each room its section, not the whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Ports, addresses and the names they are advertised under.
    pub network: Network,
    /// Event loops, connections and their limits.
    pub connections: Connections,
    /// Limits of the HTTP side.
    pub http: Http,
    /// How topics and subscriptions come to be.
    pub topics: Topics,
    /// How fast and how far messages run ahead of acknowledgements.
    pub dispatch: Dispatch,
    /// The data directory and the log.
    pub storage: Storage,
    /// Ledgers and cursors.
    pub ledgers: Ledgers,
    /// The memory budget and its parts.
    pub memory: Memory,
    /// Starting, stopping and telling how it goes.
    pub upkeep: Upkeep,
}

impl Config {
    fn read(given: &mut Given<'_>) -> Self {
        Self {
            network: Network::read(given),
            connections: Connections::read(given),
            http: Http::read(given),
            topics: Topics::read(given),
            dispatch: Dispatch::read(given),
            storage: Storage::read(given),
            ledgers: Ledgers::read(given),
            memory: Memory::read(given),
            upkeep: Upkeep::read(given),
        }
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
