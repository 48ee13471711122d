//! Settings that change while the server runs: one letter brings them to every loop, and loaded topics follow.

use std::sync::{Arc, PoisonError};

use crate::letter::Letter;
use crate::policies;
use crate::settings::ServerSettings;
use crate::shared::Shared;
use crate::worker::Worker;

impl Shared {
    /// The settings in force now, for those who ask rarely; a loop has them at hand.
    pub(crate) fn live(&self) -> Arc<ServerSettings> {
        self.live.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Puts those settings in force that can change while the server runs; the others stay as they were at the start.
pub(crate) fn reconfigure(shared: &Arc<Shared>, wanted: &ServerSettings) {
    let settings = Arc::new(changeable(&shared.settings, wanted));
    *shared.live.write().unwrap_or_else(PoisonError::into_inner) = settings.clone();
    for mailbox in &shared.mailboxes {
        let settings = settings.clone();
        mailbox.post(Letter::Call(Box::new(move |worker| worker.follow(settings))));
    }
    // What topics do comes from these settings and from the policies of their namespaces.
    policies::resync(shared);
}

fn changeable(began: &ServerSettings, wanted: &ServerSettings) -> ServerSettings {
    ServerSettings {
        turn_interval: wanted.turn_interval,
        keep_alive: wanted.keep_alive,
        handshake_timeout: wanted.handshake_timeout,
        write_stall_timeout: wanted.write_stall_timeout,
        max_pending_publishes: wanted.max_pending_publishes,
        max_clients_per_connection: wanted.max_clients_per_connection,
        max_lookups: wanted.max_lookups,
        auto_topic_creation: wanted.auto_topic_creation,
        auto_topic_partitions: wanted.auto_topic_partitions,
        max_partitions: wanted.max_partitions,
        default_bundles: wanted.default_bundles,
        policies: wanted.policies.clone(),
        topic: topic::TopicSettings {
            // Names of producers go on from where they are, and the log takes no larger entries than it was opened for.
            producer_name_prefix: began.topic.producer_name_prefix.clone(),
            max_entry_bytes: began.topic.max_entry_bytes,
            // What all topics share is told apart by what it is, not by what it allows: it counts on.
            rates: began.topic.rates.clone(),
            ..wanted.topic.clone()
        },
        ..began.clone()
    }
}

impl Worker {
    fn follow(&mut self, settings: Arc<ServerSettings>) {
        self.gather.set_interval(settings.turn_interval);
        self.settings = settings;
    }
}
