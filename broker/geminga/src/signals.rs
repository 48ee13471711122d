//! What ends a broker: a signal, or a log that can take nothing more.

use std::io;
use std::time::Duration;

use ledger::{LedgerStore, StoreHealth};
use tokio::signal::unix::{SignalKind, signal};

/// Why it ended.
#[derive(Debug)]
pub enum Ended {
    /// The named signal.
    Asked(&'static str),
    /// A sync or write failed; nothing more can be acknowledged by this process.
    LogFailed(String),
}

/// How often the log is asked how it is. A failed log answers every publish itself; this only ends the process.
const CHECK: Duration = Duration::from_secs(1);

/// Waits on the calling thread.
pub fn wait(log: &dyn LedgerStore) -> io::Result<Ended> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut check = tokio::time::interval(CHECK);
        loop {
            tokio::select! {
                _ = terminate.recv() => return Ok(Ended::Asked("SIGTERM")),
                _ = interrupt.recv() => return Ok(Ended::Asked("SIGINT")),
                _ = check.tick() => {
                    if let StoreHealth::Poisoned(why) = log.health() {
                        return Ok(Ended::LogFailed(why));
                    }
                }
            }
        }
    })
}
