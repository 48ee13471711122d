//! What an operator should act on, now: computed when somebody asks, and at each look of the sampler.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use server::ServerStats;

use super::clock::now_ms;
use super::page::{Cell, Listing, columns};
use crate::Site;
use crate::errors::Refusal;
use crate::process::ProcessStats;
use crate::reply::Reply;
use crate::request::Call;
use crate::rfc3339;

/// Open files from which on an operator is told, in percent of what the process may have.
const FILES_PERCENT: u64 = 80;

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Alarm {
    /// What programs tell it apart by.
    pub(crate) id: &'static str,
    severity: &'static str,
    summary: String,
    /// What to do about it.
    advice: &'static str,
    since: String,
}

columns!(Alarm, id, {
    "id" => |row| Cell::Text(row.id),
    "severity" => |row| Cell::Text(row.severity),
    "since" => |row| Cell::Text(&row.since),
});

const CRITICAL: &str = "critical";
const WARNING: &str = "warning";

/// Since when each alarm stands.
#[derive(Default)]
pub(crate) struct Standing(Mutex<BTreeMap<&'static str, u64>>);

impl Standing {
    fn settle(&self, found: Vec<(&'static str, &'static str, String, &'static str)>) -> Vec<Alarm> {
        let mut standing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        standing.retain(|id, _| found.iter().any(|(found, ..)| found == id));
        let alarm = |(id, severity, summary, advice)| {
            let since = *standing.entry(id).or_insert_with(now_ms);
            Alarm { id, severity, summary, advice, since: rfc3339::from_ms(since) }
        };
        found.into_iter().map(alarm).collect()
    }
}

/// All that stand now.
pub(crate) fn look(site: &Site, stats: &ServerStats, process: &ProcessStats) -> Vec<Alarm> {
    let mut found = Vec::new();
    if let Some(problem) = &stats.storage_problem {
        let advice = "free space, drain backlogs or lower logReserveMB; a log that failed needs a new start on a disk that is well";
        found.push(("storage-not-writable", CRITICAL, problem.clone(), advice));
    }
    if let Some(warning) = &site.options.warning {
        found.push(("open-to-all", WARNING, warning.clone(), "set authenticationEnabled=true, or bindAddress=localhost"));
    }
    if let Some(warning) = &site.options.not_durable {
        found.push(("not-durable", CRITICAL, warning.clone(), "take logUnsafeNoSync and logTest… out of the configuration"));
    }
    if let (Some(open), Some(most)) = (process.open_fds, process.max_fds)
        && (open as u64).saturating_mul(100) >= most.saturating_mul(FILES_PERCENT)
    {
        let summary = format!("{open} of {most} files and sockets are open");
        found.push(("few-file-descriptors", WARNING, summary, "raise the limit of open files of this process (ulimit -n)"));
    }
    if let Some(error) = site.own.audit.trouble() {
        found.push((
            "audit-not-written",
            WARNING,
            format!("the audit log cannot be written: {error}"),
            "look at the disk and the rights of the data directory",
        ));
    }
    let blocked = site.handle.blocked_addresses();
    if blocked > 0 {
        let summary = format!("{blocked} addresses are kept out for a while because their logins failed again and again");
        found.push(("failed-logins", WARNING, summary, "look for clients with old credentials, or for somebody who guesses"));
    }
    site.own.standing.settle(found)
}

/// GET: what an operator should act on.
pub(crate) async fn list(call: Call) -> Result<Reply, Refusal> {
    let listing = Listing::read(&call.query)?;
    let stats = call.handle().stats(false).await?;
    let process = call.handle().control(|_| ProcessStats::read()).await?;
    Reply::json(&listing.of(&look(&call.site, &stats, &process))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_stands_since_it_was_first_seen_and_anew_after_it_was_gone() {
        let standing = Standing::default();
        let one = || vec![("one", WARNING, "x".to_owned(), "y")];
        let first = standing.settle(one());
        assert_eq!(standing.settle(one()), first);
        assert_eq!(standing.settle(Vec::new()), []);
        assert!(standing.0.lock().unwrap().is_empty());
    }
}
