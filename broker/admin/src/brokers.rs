//! The broker itself: whether it is well, who it is, and what it speaks.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use metadata::clusters;
use server::Handle;
use tokio::time::timeout;

use crate::errors::Refusal;
use crate::json::LeaderBroker;
use crate::reply::Reply;
use crate::request::Call;

/// GET: `ok` when a message could be written and read back.
pub(crate) async fn health(call: Call) -> Result<Reply, Refusal> {
    let site = &call.site;
    let verdict = match site.health.recent(site.options.health_lasts) {
        Some(verdict) => verdict,
        None => {
            let limit = call.handle().check_health();
            let verdict = timeout(HEALTH_TIMEOUT, limit).await.unwrap_or_else(|_| Err(format!("no answer within {HEALTH_TIMEOUT:?}")));
            site.health.remember(verdict.clone());
            verdict
        }
    };
    let well = || Reply::text("ok").with_warning(site.options.warning.as_deref());
    verdict.map(|()| well()).map_err(|why| Refusal::internal(format!("The broker is not well: {why}")))
}

/// A client that probes gives up after about as long.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(10);

/// The last verdict, so that probes at a high rate do not become a load. The lock is held for a copy only.
#[derive(Default)]
pub(crate) struct Health(Mutex<Option<(Instant, Result<(), String>)>>);

impl Health {
    fn recent(&self, lasts: Duration) -> Option<Result<(), String>> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|(at, _)| at.elapsed() < lasts).map(|(_, verdict)| verdict.clone())
    }

    fn remember(&self, verdict: Result<(), String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), verdict));
    }
}

/// GET: `ok` as soon as requests are served at all.
pub(crate) async fn ready(_call: Call) -> Result<Reply, Refusal> {
    Ok(Reply::text("ok"))
}

/// GET: `OK` for load balancers; 404 while the file named in the configuration is not there.
pub(crate) async fn status_page(call: Call) -> Result<Reply, Refusal> {
    let file = call.options().status_file.clone();
    let present = match file {
        Some(file) => call.handle().control(move |_| file.exists()).await?,
        None => true,
    };
    if present { Ok(Reply::text("OK")) } else { Err(Refusal::not_found("The status file is not there")) }
}

/// GET: the level of Pulsar's API that is served, as bare text.
pub(crate) async fn version(call: Call) -> Result<Reply, Refusal> {
    Ok(Reply::text(call.options().pulsar_level.clone()))
}

/// GET: addresses of the brokers of this cluster.
pub(crate) async fn list(call: Call) -> Result<Reply, Refusal> {
    Reply::json(&[id(call.handle())])
}

/// GET: addresses of the brokers of a cluster; those of another cluster are not known here.
pub(crate) async fn of_cluster(call: Call) -> Result<Reply, Refusal> {
    let name = call.param("cluster").to_owned();
    if name == call.handle().settings().cluster {
        return list(call).await;
    }
    call.handle().control(move |m| clusters::get(m, &name)).await??;
    Reply::json(&[(); 0])
}

/// GET: the broker that leads the cluster: this one, as long as there is only one.
pub(crate) async fn leader(call: Call) -> Result<Reply, Refusal> {
    let handle = call.handle();
    Reply::json(&LeaderBroker { broker_id: id(handle), service_url: &handle.endpoints().http })
}

/// What a broker is called: `host:port` of its HTTP side.
pub(crate) fn id(handle: &Handle) -> &str {
    let http = &handle.endpoints().http;
    http.strip_prefix("http://").unwrap_or(http)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_repeated_for_a_while() {
        let health = Health::default();
        assert_eq!(health.recent(Duration::from_secs(60)), None);
        health.remember(Err("disk".into()));
        assert_eq!(health.recent(Duration::from_secs(60)), Some(Err("disk".into())));
        assert_eq!(health.recent(Duration::ZERO), None);
    }
}
