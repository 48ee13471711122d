//! How the store is, as far as this worker knows, and what its topics are told of it.

use std::mem::discriminant;
use std::sync::PoisonError;

use ledger::StoreHealth;
use topic::Turn;

use crate::shared::Shared;
use crate::worker::Worker;

impl Worker {
    /// Asks the store how it is. When that has changed, every topic learns whether it may take publishes.
    pub(crate) fn check_store(&mut self) {
        let health = self.shared.store.health();
        let changed = discriminant(&health) != discriminant(&self.store_health);
        // The words may have changed although the state has not: topics loaded from now on are told the newest.
        self.store_health = health;
        if !changed {
            return;
        }
        self.shared.report(&self.store_health);
        let refusal = self.store_refusal();
        for (_, _, hosted) in self.topics.iter_mut() {
            let turn = &mut Turn { now: self.now, cache: &mut self.cache, out: &mut self.effects };
            let Some(topic) = hosted.topic.persistent() else { continue };
            topic.set_store_writable(turn, refusal.clone());
        }
    }

    /// Why publishes are refused, if they are.
    pub(crate) fn store_refusal(&self) -> Option<String> {
        problem(&self.store_health)
    }
}

impl Shared {
    /// Tells the operator of a change, once, whichever worker sees it first; a log that failed ends the process.
    fn report(&self, health: &StoreHealth) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if discriminant(&*reported) == discriminant(health) || matches!(*reported, StoreHealth::Poisoned(_)) {
            return;
        }
        *reported = health.clone();
        match health {
            StoreHealth::Ready => tracing::info!("publishes are taken again: there is space on the disk"),
            StoreHealth::DiskNearlyFull(why) => {
                tracing::error!(why, "publishes are refused: the disk is nearly full. Free space, drain backlogs, or lower logReserveMB");
            }
            StoreHealth::Poisoned(why) => {
                tracing::error!(why, "the log failed; nothing more can be stored by this process");
                self.failed.send_replace(Some(why.clone()));
            }
        }
    }
}

/// What is wrong with the store, in words for a client or an operator.
pub(crate) fn problem(health: &StoreHealth) -> Option<String> {
    match health {
        StoreHealth::Ready => None,
        StoreHealth::DiskNearlyFull(why) => Some(format!("publishes are refused, the disk is nearly full: {why}")),
        StoreHealth::Poisoned(why) => Some(format!("the log failed: {why}")),
    }
}
