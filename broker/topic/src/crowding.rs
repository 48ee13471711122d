//! When consumers of all topics together hold too much, the subscriptions that hold most of it get nothing more for a while. Whether
//! that is so is for the owner to say, who sees all topics; a topic only tells what is held of it.

use crate::{Topic, TopicSettings};

impl Topic {
    /// Messages that consumers of Shared and Key_Shared subscriptions hold unacked.
    pub fn held_messages(&self) -> u64 {
        self.subscriptions.iter().map(|(_, subscription)| subscription.dispatcher.held_messages()).sum()
    }

    /// A Shared or Key_Shared subscription that holds more than `most` unacked messages gets nothing more until it holds no more than
    /// that, whatever its own limit is; none lifts this.
    pub fn set_crowded(&mut self, most: Option<u64>) {
        self.crowded = most;
        self.max_held = max_held(&self.settings, most);
        self.want_all();
    }
}

/// Held messages at which a subscription stops.
pub(crate) fn max_held(settings: &TopicSettings, crowded: Option<u64>) -> u64 {
    let own = match settings.max_unacked_per_subscription {
        0 => u64::MAX,
        limit => u64::from(limit),
    };
    crowded.map_or(own, |most| own.min(most.saturating_add(1)))
}
