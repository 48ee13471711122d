//! How many clients a topic takes, and of which kinds.

use wire::ServerError;

use crate::attach::Refusal;
use crate::dedup::DEDUPLICATION_CURSOR;
use crate::event::{AttachConsumer, AttachProducer};
use crate::subscription::Subscription;
use crate::{SubscriptionKind, Topic};

/// How many clients a topic takes; 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Producers (`maxProducersPerTopic`).
    pub producers: u32,
    /// Producers from one address (`maxSameAddressProducersPerTopic`).
    pub producers_of_address: u32,
    /// Consumers (`maxConsumersPerTopic`).
    pub consumers: u32,
    /// Consumers from one address (`maxSameAddressConsumersPerTopic`).
    pub consumers_of_address: u32,
    /// Consumers of one subscription (`maxConsumersPerSubscription`).
    pub consumers_of_subscription: u32,
    /// Subscriptions (`maxSubscriptionsPerTopic`).
    pub subscriptions: u32,
    /// Types of subscriptions that consumers may use (`subscriptionTypesEnabled`).
    pub kinds: Kinds,
}

/// Types of subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(u8);

impl Default for Kinds {
    fn default() -> Kinds {
        Kinds(u8::MAX)
    }
}

impl FromIterator<SubscriptionKind> for Kinds {
    fn from_iter<I: IntoIterator<Item = SubscriptionKind>>(kinds: I) -> Kinds {
        Kinds(kinds.into_iter().fold(0, |set, kind| set | Kinds::bit(kind)))
    }
}

impl Kinds {
    fn bit(kind: SubscriptionKind) -> u8 {
        1 << kind as u8
    }

    /// Whether a type is among them.
    #[must_use]
    pub fn contains(self, kind: SubscriptionKind) -> bool {
        self.0 & Kinds::bit(kind) != 0
    }
}

impl Limits {
    /// Whether one more producer may come; `addresses` are those of the producers there are.
    pub(crate) fn producer<'a>(&self, attach: &AttachProducer, addresses: impl Iterator<Item = &'a str>) -> Result<(), Refusal> {
        let busy = |what| Err((ServerError::ProducerBusy, format!("Topic reached max {what} limit")));
        let (all, same) = count(addresses, &attach.address);
        match () {
            () if is_reached(self.producers, all) => busy("producers"),
            () if is_reached(self.producers_of_address, same) => busy("same address producers"),
            () => Ok(()),
        }
    }

    /// Whether one more consumer may come; `addresses` are those of the topic's consumers.
    pub(crate) fn consumer<'a>(
        &self,
        attach: &AttachConsumer,
        in_subscription: usize,
        addresses: impl Iterator<Item = &'a str>,
    ) -> Result<(), Refusal> {
        let busy = |what| Err((ServerError::ConsumerBusy, format!("{what} limit")));
        if is_reached(self.consumers_of_subscription, in_subscription) {
            return busy("Subscription reached max consumers");
        }
        if self.consumers == 0 && self.consumers_of_address == 0 {
            return Ok(());
        }
        let (all, same) = count(addresses, &attach.address);
        match () {
            () if is_reached(self.consumers, all) => busy("Topic reached max consumers"),
            () if is_reached(self.consumers_of_address, same) => busy("Topic reached max same address consumers"),
            () => Ok(()),
        }
    }

    /// Whether consumers may use a type.
    pub(crate) fn kind(&self, kind: SubscriptionKind, topic: &wire::TopicName) -> Result<(), Refusal> {
        if self.kinds.contains(kind) {
            return Ok(());
        }
        Err((ServerError::NotAllowedError, format!("Topic[{topic}] doesn't support {} sub type!", kind.name())))
    }

    /// Whether one more subscription may come into being beside `there`.
    pub(crate) fn subscription(&self, there: usize) -> Result<(), Refusal> {
        if is_reached(self.subscriptions, there) {
            let most = self.subscriptions;
            return Err((ServerError::NotAllowedError, format!("Exceed the maximum number of subscriptions of the topic: {most}")));
        }
        Ok(())
    }
}

impl Topic {
    /// Subscriptions that users made; the broker's own cursors do not count.
    pub fn subscriptions(&self) -> usize {
        self.subscriptions.iter().filter(|(_, subscription)| subscription.is_users()).count()
    }

    /// Addresses of all consumers.
    pub(crate) fn consumer_addresses(&self) -> impl Iterator<Item = &str> {
        let consumers = self.subscriptions.iter().flat_map(|(_, subscription)| subscription.lane.consumers.iter());
        consumers.map(|(_, consumer)| consumer.address())
    }
}

impl Subscription {
    /// Whether it is not the broker's own.
    pub(crate) fn is_users(&self) -> bool {
        self.name != DEDUPLICATION_CURSOR && !self.name.starts_with("__")
    }
}

fn is_reached(limit: u32, there: usize) -> bool {
    limit > 0 && there >= limit as usize
}

/// How many there are, and how many of them are from the same host as `address`, which has a port, too.
fn count<'a>(addresses: impl Iterator<Item = &'a str>, address: &str) -> (usize, usize) {
    let host = |address: &'a str| address.rsplit_once(':').map_or(address, |(host, _)| host);
    let own = address.rsplit_once(':').map_or(address, |(host, _)| host);
    addresses.fold((0, 0), |(all, same), other| (all + 1, same + usize::from(host(other) == own)))
}
