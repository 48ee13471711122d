//! Under which conditions a run was made.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What was asked for, of whom, where.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Settings {
    /// The scenario, resolved: nothing in it is inherited or left to a default.
    pub scenario: Value,
    /// What the command line and the environment changed, as `path=value`.
    #[serde(default)]
    pub overrides: Vec<String>,
    /// From which everything random is derived.
    pub seed: u64,
    /// This program, with version.
    pub program: String,
    /// The other end.
    pub broker: BrokerUnderTest,
    /// Where this program ran, and the broker if it was started here.
    pub machine: Machine,
}

/// The other end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct BrokerUnderTest {
    /// Such as `Geminga` or `Apache Pulsar`; `unknown` for an address.
    pub product: String,
    /// As it says itself.
    pub version: String,
    /// Where messages went.
    pub service_url: String,
    /// Where it was administered.
    pub admin_url: String,
    /// How it was started, when it was by this program.
    pub command: Vec<String>,
    /// Settings that were chosen for it; all others have its defaults.
    pub chosen: BTreeMap<String, String>,
    /// Processors that it was held to, such as `0-1`.
    pub cpus: Option<String>,
    /// What it stored messages on.
    pub disk: Disk,
    /// Whether a receipt means that a message survives a loss of power.
    pub durability: Durability,
    /// What a receipt waits for, in words; empty when nobody said.
    #[serde(default)]
    pub receipts: String,
}

/// What a broker stored messages on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Disk {
    /// Its file system, such as `ext4` or `tmpfs`; `unknown` for an address.
    pub file_system: String,
    /// Sync was switched off.
    pub sync_off: bool,
    /// Bytes a second that it was held to.
    pub write_limit: Option<u64>,
    /// Milliseconds that were added to each sync.
    pub added_sync_ms: Option<f64>,
}

/// Whether a receipt means that a message survives a loss of power.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// It does, as far as broker and disk keep their promises.
    Durable,
    /// It does not, and why.
    NotDurable(Vec<String>),
    /// The broker was not started here, and nobody said.
    #[default]
    Unknown,
}

impl Durability {
    /// What a report says of it.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Durable => "durable",
            Self::NotDurable(_) => "NOT DURABLE",
            Self::Unknown => "durability unknown",
        }
    }
}

/// Where a run was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the processor.
    pub processor: String,
    /// Processors that this program may use.
    pub processors: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// Kernel and its version.
    pub kernel: String,
}
