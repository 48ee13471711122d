//! Looking at everything a little at a time: loaded topics and connections are walked in steps, with other work between them, so that
//! a look at ten thousand topics holds no loop for longer than a step.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use topic::ConnectionKey;
use topic::stats::TopicStats;
use wire::TopicName;

use crate::connection::Connection;
use crate::handle::TopicError;
use crate::letter::Letter;
use crate::shared::Shared;
use crate::worker::Worker;

/// How long one step may hold a loop.
const STEP: Duration = Duration::from_micros(500);

/// A connection of the Pulsar protocol, as it was when it was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionStats {
    /// What it is called: never used again for another one.
    pub id: String,
    /// The peer's address.
    pub address: SocketAddr,
    /// What the peer says it is; none before it introduced itself.
    pub client_version: Option<String>,
    /// Who the peer is, where that is asked.
    pub role: Option<String>,
    /// Producers on it.
    pub producers: usize,
    /// Consumers on it.
    pub consumers: usize,
    /// For how long it has been open, in milliseconds.
    pub open_ms: u64,
    /// Since when the peer has said nothing, in milliseconds.
    pub silent_ms: u64,
    /// Bytes that wait for the peer to take them.
    pub out_buffer_bytes: usize,
    /// Publishes that wait for the disk.
    pub pending_publishes: usize,
    /// Whether it is not read for now.
    pub paused: bool,
}

fn seen(connection: &Connection, now: u64) -> ConnectionStats {
    let peer = connection.peer.as_ref();
    ConnectionStats {
        id: name(connection.key),
        address: connection.address,
        client_version: peer.map(|peer| peer.client_version.clone()),
        role: peer.and_then(|peer| peer.identity.as_ref()).map(|who| who.role.to_string()),
        producers: connection.producers.len(),
        consumers: connection.consumers.len(),
        open_ms: now.saturating_sub(connection.opened_ms),
        silent_ms: now.saturating_sub(connection.heard_ms),
        out_buffer_bytes: connection.out.len(),
        pending_publishes: connection.pending_publishes,
        paused: connection.link.is_paused(),
    }
}

fn name(key: ConnectionKey) -> String {
    format!("{}-{}-{}", key.worker, key.slot, key.generation)
}

fn key(name: &str) -> Option<ConnectionKey> {
    let mut parts = name.split('-');
    let key =
        ConnectionKey { worker: parts.next()?.parse().ok()?, slot: parts.next()?.parse().ok()?, generation: parts.next()?.parse().ok()? };
    parts.next().is_none().then_some(key)
}

/// What `look` makes of every loaded topic.
pub(crate) async fn topics<T: Send + 'static>(
    shared: &Arc<Shared>,
    look: impl Fn(&TopicName, TopicStats, &mut Vec<T>) + Clone + Send + 'static,
) -> Result<Vec<T>, TopicError> {
    let look = move |worker: &mut Worker, slot: usize, rows: &mut Vec<T>| {
        if let Some(hosted) = worker.topics.at(slot) {
            look(hosted.topic.name(), hosted.topic.stats(), rows);
        }
    };
    gather(shared, |worker| worker.topics.end(), look).await
}

/// Every connection of the Pulsar protocol.
pub(crate) async fn connections(shared: &Arc<Shared>) -> Result<Vec<ConnectionStats>, TopicError> {
    let look = |worker: &mut Worker, slot: usize, rows: &mut Vec<ConnectionStats>| {
        let now = worker.now.monotonic_ms;
        rows.extend(worker.connections.at(slot).map(|connection| seen(connection, now)));
    };
    gather(shared, |worker| worker.connections.end(), look).await
}

/// Closes a connection; its client comes back by itself. False if there is none of that name (any more).
pub(crate) async fn close_connection(shared: &Arc<Shared>, id: &str) -> Result<bool, TopicError> {
    let Some(key) = key(id).filter(|key| usize::from(key.worker) < shared.mailboxes.len()) else { return Ok(false) };
    let (tell, told) = oneshot::channel();
    let close = move |worker: &mut Worker| {
        let found = worker.connections.get_mut(key.slot, key.generation);
        if let Some(connection) = &found {
            tracing::info!(peer = %connection.address, "connection closed by an administrator");
            connection.link.close();
        }
        let _ = tell.send(found.is_some());
    };
    shared.post(key.worker, Letter::Call(Box::new(close)));
    told.await.map_err(|_| TopicError::Gone)
}

/// Goes over the slots of every worker; `end` is the number of slots of one.
async fn gather<T: Send + 'static>(
    shared: &Arc<Shared>,
    end: fn(&Worker) -> usize,
    look: impl Fn(&mut Worker, usize, &mut Vec<T>) + Clone + Send + 'static,
) -> Result<Vec<T>, TopicError> {
    let mut answers = Vec::new();
    for mailbox in &shared.mailboxes {
        let (tell, told) = oneshot::channel();
        let walk = Walk { end, look: look.clone(), tell };
        mailbox.post(Letter::Call(Box::new(move |worker| walk.step(worker, 0, Vec::new()))));
        answers.push(told);
    }
    let mut rows = Vec::new();
    for answer in answers {
        rows.append(&mut answer.await.map_err(|_| TopicError::Gone)?);
    }
    Ok(rows)
}

struct Walk<T, L> {
    end: fn(&Worker) -> usize,
    look: L,
    tell: oneshot::Sender<Vec<T>>,
}

impl<T: Send + 'static, L: Fn(&mut Worker, usize, &mut Vec<T>) + Send + 'static> Walk<T, L> {
    /// Looks at some slots, and leaves the rest to a letter that is read after what came meanwhile.
    fn step(self, worker: &mut Worker, from: usize, mut rows: Vec<T>) {
        // Whoever asked has left.
        if self.tell.is_closed() {
            return;
        }
        let began = Instant::now();
        let mut slot = from;
        while slot < (self.end)(worker) {
            (self.look)(worker, slot, &mut rows);
            slot += 1;
            if slot.is_multiple_of(8) && began.elapsed() >= STEP {
                let rest = Letter::Call(Box::new(move |worker: &mut Worker| self.step(worker, slot, rows)));
                // Through the mailbox and not at once: the sockets have their say between two steps.
                return worker.shared.post(worker.index, rest);
            }
        }
        drop(self.tell.send(rows));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connections_name_leads_back_to_it_and_others_lead_nowhere() {
        let of = ConnectionKey { worker: 3, slot: 70_000, generation: u32::MAX };
        assert_eq!(key(&name(of)), Some(of));
        for wrong in ["", "1-2", "1-2-3-4", "a-2-3", "1-2--3", "99999-1-1"] {
            assert_eq!(key(wrong), None, "{wrong}");
        }
    }
}
