//! Letting go of a topic: in order, or because it cannot go on.

use wire::ServerError;

use crate::errand::SubscriptionIndex;
use crate::subscription::{Asked, Phase};
use crate::topic::Fenced;
use crate::{Effect, Reply, Topic, Turn};

impl Topic {
    /// The topic cannot go on: no publish is acknowledged any more, and it asks to be unloaded. `lost`: somebody else may own it.
    pub(crate) fn fence(&mut self, turn: &mut Turn<'_>, reason: String, lost: bool) {
        let first = self.fenced.is_none();
        if lost || first {
            self.fenced = Some(if lost { Fenced::Lost } else { Fenced::Broken });
        }
        self.ledgers.chain.fence();
        self.forget_publishes(turn, true);
        if lost {
            self.refuse_deletions(turn);
        }
        if first {
            turn.out.push(Effect::Unload { reason });
        }
        self.finish_unload(turn);
    }

    /// Whether a subscription that was being removed is gone is for the next owner to find out.
    fn refuse_deletions(&mut self, turn: &mut Turn<'_>) {
        let mut refused = Vec::new();
        for (_, subscription) in &mut self.subscriptions {
            if let Phase::Deleting { asked } = subscription.phase {
                subscription.phase = Phase::Open;
                refused.extend(asked);
            }
        }
        for asked in refused {
            self.refuse_unloading(turn, asked);
        }
    }

    /// Refuses new work, closes producers and consumers, writes every cursor; [`unloaded`](Self::unloaded) tells when all is answered.
    pub fn unload(&mut self, turn: &mut Turn<'_>) {
        if self.closing {
            return;
        }
        self.closing = true;
        // Those that wait ask the next owner.
        self.access.refuse_waiting(turn, ServerError::ServiceNotReady, "the topic is being unloaded");
        // Without a position they were never stored: their producers send them again, to the next owner.
        self.forget_publishes(turn, false);
        for (to, request) in self.errands.take_last_message() {
            self.refuse_unloading(turn, Asked { to, request });
        }
        for asked in self.take_unanswered() {
            self.refuse_unloading(turn, asked);
        }
        let indices: Vec<SubscriptionIndex> = self.subscriptions.iter().map(|(index, _)| index).collect();
        for index in indices {
            self.unload_subscription(turn, index);
        }
        self.finish_unload(turn);
    }

    fn unload_subscription(&mut self, turn: &mut Turn<'_>, index: SubscriptionIndex) {
        self.close_consumers(turn, index, None);
        let Some(subscription) = self.subscriptions.get_mut(index) else { return };
        let waiters = std::mem::take(&mut subscription.waiters);
        let seeking = match subscription.phase {
            Phase::Seeking { asked, .. } => Some(asked),
            _ => None,
        };
        if seeking.is_some() {
            subscription.phase = Phase::Open;
        }
        for asked in waiters.iter().map(crate::subscription::Waiter::asked).chain(seeking) {
            self.refuse_unloading(turn, asked);
        }
    }

    fn refuse_unloading(&self, turn: &mut Turn<'_>, asked: Asked) {
        self.error(turn, asked, ServerError::ServiceNotReady, "the topic is being unloaded");
    }

    /// Goes on with an unload: producers are closed after their last receipt, cursors are written.
    pub(crate) fn finish_unload(&mut self, turn: &mut Turn<'_>) {
        if !self.closing {
            return;
        }
        if self.publishes.is_empty() {
            for producer in self.producers.take_attached() {
                turn.out.push(Effect::Reply { to: producer.connection, reply: Reply::CloseProducer { producer } });
            }
        }
        if self.fenced == Some(Fenced::Lost) {
            return;
        }
        if self.publishes.is_empty() && self.has_unsaved_sequences() {
            self.note_sequences();
        }
        let (subscriptions, mut lent) = self.lend();
        for (_, subscription) in subscriptions.iter_mut().filter(|(_, subscription)| subscription.is_open()) {
            if let Some(persistence) = &mut subscription.persistence {
                persistence.close(&subscription.lane.cursor, &mut lent, turn);
            }
        }
    }

    /// Whether everything is answered and written, so that the topic can be dropped.
    pub fn unloaded(&self) -> bool {
        self.closing && self.publishes.is_empty() && (self.fenced == Some(Fenced::Lost) || self.is_written())
    }

    fn is_written(&self) -> bool {
        let settled = |subscription: &crate::subscription::Subscription| match (&subscription.phase, &subscription.persistence) {
            (Phase::Open, Some(persistence)) => persistence.is_settled(&subscription.lane.cursor),
            (Phase::Deleting { .. }, _) => false,
            _ => true,
        };
        self.errands.nothing_to_write() && self.subscriptions.iter().all(|(_, subscription)| settled(subscription))
    }
}
