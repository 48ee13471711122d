//! What users note on topics and subscriptions: names with values, which the broker keeps and does not look at.

use crate::access::EPOCH_PROPERTY;
use crate::subscription::{Asked, Subscription};
use crate::{Topic, Turn};

impl Topic {
    /// What users noted on the topic.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.ledgers.chain.properties().iter();
        all.filter(|(key, _)| key != EPOCH_PROPERTY).map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Notes something on the topic, or takes a note away (none); answers with `Success` when it is recorded.
    pub fn note(&mut self, turn: &mut Turn<'_>, asked: Asked, notes: Vec<(String, Option<String>)>) {
        if self.is_going_away(turn, asked) {
            return;
        }
        let notes: Vec<_> = notes.into_iter().filter(|(key, _)| key != EPOCH_PROPERTY).collect();
        if notes.is_empty() {
            return self.success(turn, asked);
        }
        let revision = self.ledgers.change_properties(notes, &mut self.errands, turn);
        self.noted.push((revision, asked));
    }

    /// The properties were recorded: whoever waited for that is told.
    pub(crate) fn settle_notes(&mut self, turn: &mut Turn<'_>) {
        let recorded = self.ledgers.recorded_properties();
        let done: Vec<Asked> = self.noted.extract_if(.., |(revision, _)| *revision <= recorded).map(|(_, asked)| asked).collect();
        for asked in done {
            self.success(turn, asked);
        }
    }

    /// What users noted on a subscription; none if there is no such subscription.
    #[must_use]
    pub fn subscription_properties(&self, subscription: &str) -> Option<&[(String, String)]> {
        let found = self.subscriptions.get(*self.by_name.get(subscription)?)?;
        Some(found.persistence.as_ref().map_or(&found.properties, |persistence| persistence.properties()))
    }

    /// Replaces what is noted on a subscription; durable soon. False if there is no such subscription.
    pub fn note_on_subscription(&mut self, turn: &mut Turn<'_>, subscription: &str, properties: Vec<(String, String)>) -> bool {
        let Some(index) = self.by_name.get(subscription).copied() else { return false };
        let (subscriptions, mut lent) = self.lend();
        let Some(Subscription { lane, persistence, properties: noted, .. }) = subscriptions.get_mut(index) else { return false };
        match persistence {
            Some(persistence) => persistence.note(properties, &lane.cursor, &mut lent, turn),
            None => *noted = properties,
        }
        true
    }
}
