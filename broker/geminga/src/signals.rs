//! What ends a broker: a signal, or a log that can take nothing more.

use std::io;
use std::time::Duration;

use ledger::{LedgerStore, StoreHealth};
use server::Handle;
use tokio::signal::unix::{SignalKind, signal};

/// Why it ended.
#[derive(Debug)]
pub enum Ended {
    /// The named signal.
    Asked(&'static str),
    /// A sync or write failed; nothing more can be acknowledged by this process.
    LogFailed(String),
}

/// How often an idle log is asked how it is; a failed append is told at once.
const CHECK: Duration = Duration::from_secs(1);

/// Waits on the calling thread.
pub fn wait(log: &dyn LedgerStore, server: &Handle) -> io::Result<Ended> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut failed = std::pin::pin!(server.log_failed());
        let mut check = tokio::time::interval(CHECK);
        loop {
            tokio::select! {
                _ = terminate.recv() => return Ok(Ended::Asked("SIGTERM")),
                _ = interrupt.recv() => return Ok(Ended::Asked("SIGINT")),
                why = &mut failed => return Ok(Ended::LogFailed(why)),
                _ = check.tick() => {
                    if let StoreHealth::Poisoned(why) = log.health() {
                        return Ok(Ended::LogFailed(why));
                    }
                }
            }
        }
    })
}
