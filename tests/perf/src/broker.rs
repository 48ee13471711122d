//! The broker under test: started here on a fresh directory, or somewhere else and reached by its addresses.

mod cpus;
mod disk;
mod geminga;
mod kept;
mod maven;
mod pulsar;
mod started;

use std::{collections::BTreeMap, path::PathBuf};

use clap::ValueEnum;

pub use self::{
    cpus::Cpus,
    kept::{Keep, Kept},
    started::Started,
};
use crate::{
    interrupt::Interrupt,
    result::{BrokerUnderTest, Durability},
};

/// A broker that can be started here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Product {
    /// This program.
    Geminga,
    /// Apache Pulsar standalone, with its bookie in the same process, from Maven artifacts.
    Pulsar,
}

/// Which broker, and under which conditions.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct BrokerChoice {
    /// Start this broker on a fresh directory, and stop it at the end
    #[arg(long, value_name = "PRODUCT")]
    pub start: Option<Product>,
    /// A setting of the broker that is started
    #[arg(long = "set-broker", value_name = "KEY=VALUE", value_parser = setting, requires = "start")]
    pub settings: Vec<(String, String)>,
    /// Processors that the broker is held to, such as 0-1 or 0,2
    #[arg(long = "broker-cpus", value_name = "CPUS", requires = "start")]
    pub cpus: Option<Cpus>,
    /// The program to start in place of this one (Geminga), or the JDK's home (Pulsar)
    #[arg(long, value_name = "PATH", requires = "start")]
    pub executable: Option<PathBuf>,
    /// Make the broker's directory below this one
    #[arg(long, value_name = "DIR", requires = "start", conflicts_with = "tmpfs")]
    pub data_below: Option<PathBuf>,
    /// Keep the broker's data in memory (tmpfs): NOT DURABLE
    #[arg(long, requires = "start")]
    pub tmpfs: bool,
    /// Receipts do not wait for the disk: NOT DURABLE
    #[arg(long, requires = "start")]
    pub sync_off: bool,
    /// Megabytes a second that the broker's log may write, to stand for a slower disk (Geminga)
    #[arg(long, value_name = "MB", requires = "start")]
    pub write_limit_mb: Option<u32>,
    /// Milliseconds added to each sync of the broker's log, to stand for a slower disk (Geminga)
    #[arg(long, value_name = "MS", requires = "start")]
    pub added_sync_ms: Option<u32>,
    /// The run goes over TLS, with certificates made for it (Geminga); scenarios with broker.tls do so anyway
    #[arg(long = "tls", requires = "start")]
    pub tls: bool,
    /// Leave the broker's directory where it is
    #[arg(long, requires = "start")]
    pub keep_data: bool,
    /// Whether a broker that is reached by address syncs before a receipt
    #[arg(long, value_name = "YES_OR_NO", conflicts_with = "start")]
    pub durable: Option<bool>,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not KEY=VALUE"))?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

impl BrokerChoice {
    /// Starts the chosen broker and waits until it is ready, or until the wait is interrupted; none when it is reached by address.
    pub fn start(&self, interrupt: &Interrupt) -> anyhow::Result<Option<Started>> {
        match self.start {
            None => Ok(None),
            Some(Product::Geminga) => geminga::start(self, interrupt).map(Some),
            Some(Product::Pulsar) => pulsar::start(self, interrupt).map(Some),
        }
    }

    /// What a report says of a broker that is reached by address; product and version as it told them.
    pub fn elsewhere(&self, service_url: &str, admin_url: &str, product: &str, version: &str) -> BrokerUnderTest {
        let durability = match self.durable {
            Some(true) => Durability::Durable,
            Some(false) => Durability::NotDurable(vec!["the operator says so".to_owned()]),
            None => Durability::Unknown,
        };
        BrokerUnderTest {
            product: product.to_owned(),
            version: version.to_owned(),
            service_url: service_url.to_owned(),
            admin_url: admin_url.to_owned(),
            durability,
            ..BrokerUnderTest::default()
        }
    }

    fn chosen(&self) -> BTreeMap<String, String> {
        self.settings.iter().cloned().collect()
    }

    /// Why receipts mean less than they should.
    fn durability(on_tmpfs: bool, sync_off: bool) -> Durability {
        let reasons = [(on_tmpfs, "the data is in memory (tmpfs)"), (sync_off, "sync is switched off")];
        let reasons: Vec<String> = reasons.into_iter().filter(|(holds, _)| *holds).map(|(_, reason)| reason.to_owned()).collect();
        if reasons.is_empty() { Durability::Durable } else { Durability::NotDurable(reasons) }
    }
}
