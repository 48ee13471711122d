//! The end of a topic: nothing is published any more, what is stored can be read, and consumers that have everything are told.

use wire::ServerError;

use crate::errand::SubscriptionIndex;
use crate::subscription::{Asked, Subscription};
use crate::{Effect, Reply, Topic, Turn};

pub(crate) const TERMINATED: &str = "the topic is terminated";

/// The end of one topic.
#[derive(Debug, Default)]
pub(crate) struct End {
    /// Whether publishes are refused.
    pub(crate) is_near: bool,
    /// Whether the end is recorded.
    is_recorded: bool,
    /// Who waits for it.
    asked: Vec<Asked>,
}

impl End {
    /// Of a topic that was loaded, terminated or not.
    pub(crate) fn loaded(terminated: bool) -> End {
        End { is_near: terminated, is_recorded: terminated, asked: Vec::new() }
    }

    pub(crate) fn take_asked(&mut self) -> Vec<Asked> {
        std::mem::take(&mut self.asked)
    }
}

impl Topic {
    /// Ends the topic after what was accepted so far; later publishes are refused. Answers with `Place`, the last message's, when
    /// that is recorded, or with `Error`.
    pub fn terminate(&mut self, turn: &mut Turn<'_>, asked: Asked) {
        if self.is_going_away(turn, asked) {
            return;
        }
        if self.end.is_recorded {
            return self.tell_end(turn, asked);
        }
        self.end.asked.push(asked);
        self.end.is_near = true;
        self.refuse_publishes_without_place(turn);
        self.ledgers.terminate();
        self.ledgers.advance(&mut self.errands, turn);
    }

    fn tell_end(&self, turn: &mut Turn<'_>, asked: Asked) {
        let at = self.ledgers.chain.terminated().unwrap_or(self.ledgers.chain.last_confirmed());
        turn.out.push(Effect::Reply { to: asked.to, reply: Reply::Place { request: asked.request, at } });
    }

    /// The end is recorded: producers have to leave, and whoever asked is told.
    pub(crate) fn ended(&mut self, turn: &mut Turn<'_>) {
        self.end.is_recorded = true;
        self.access.refuse_waiting(turn, ServerError::TopicTerminatedError, TERMINATED);
        for producer in self.producers.take_attached() {
            turn.out.push(Effect::Reply { to: producer.connection, reply: Reply::CloseProducer { producer } });
        }
        for asked in self.end.take_asked() {
            self.tell_end(turn, asked);
        }
        let indices: Vec<SubscriptionIndex> = self.subscriptions.iter().map(|(index, _)| index).collect();
        for index in indices {
            self.tell_who_has_everything(turn, index);
        }
    }

    /// Tells the consumers of a subscription that the topic has ended, once all of it is acked.
    pub(crate) fn tell_who_has_everything(&mut self, turn: &mut Turn<'_>, index: SubscriptionIndex) {
        if !self.end.is_recorded {
            return;
        }
        let Some(Subscription { lane, .. }) = self.subscriptions.get_mut(index) else { return };
        if lane.cursor.backlog(&self.ledgers.chain) > 0 {
            return;
        }
        for (_, consumer) in &mut lane.consumers {
            if consumer.hears_of_the_end() {
                let reply = Reply::EndOfTopic { consumer: consumer.key };
                turn.out.push(Effect::Reply { to: consumer.key.connection, reply });
            }
        }
    }
}
