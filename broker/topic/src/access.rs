//! Who may produce: everybody, or one producer alone. The rules are the same for topics that store nothing.
//!
//! Each new producer that has the topic to itself gets a higher epoch, recorded with the topic before it is let in. So one that was
//! thrown out and comes back with its old epoch is known for what it is, also after a restart.

use std::collections::VecDeque;

use wire::ServerError;

use crate::event::AttachProducer;
use crate::producers::Producers;
use crate::subscription::Asked;
use crate::{Effect, ProducerKey, ProducerSlot, Reply, Topic, Turn};

/// The topic's property that holds the epoch; Pulsar's name for it.
pub(crate) const EPOCH_PROPERTY: &str = "pulsar.topic.epoch";

/// How a producer shares its topic with others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AccessMode {
    /// With all others that share.
    #[default]
    Shared,
    /// Alone, or not at all.
    Exclusive,
    /// Alone, once the others have left.
    WaitForExclusive,
    /// Alone; the others have to leave.
    ExclusiveWithFencing,
}

impl AccessMode {
    /// As Pulsar spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            AccessMode::Shared => "Shared",
            AccessMode::Exclusive => "Exclusive",
            AccessMode::WaitForExclusive => "WaitForExclusive",
            AccessMode::ExclusiveWithFencing => "ExclusiveWithFencing",
        }
    }
}

/// Who has the topic to itself, and who wants it.
#[derive(Debug, Default)]
pub(crate) struct Access {
    /// Whether the producer that is attached, if one is, is attached alone.
    exclusive: bool,
    /// The highest epoch given away, recorded or about to be.
    epoch: Option<u64>,
    claim: Option<Claim>,
    waiting: VecDeque<AttachProducer>,
}

/// A producer that is let in as soon as its epoch is recorded.
#[derive(Debug)]
struct Claim {
    /// None if it left meanwhile.
    attach: Option<AttachProducer>,
    /// The revision of the topic's properties that has the epoch.
    revision: u64,
}

/// What becomes of a producer that wants in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Admit,
    /// It has the topic to itself; whoever is there has to leave.
    Claim,
    Wait,
    Refuse(ServerError, &'static str),
}

/// What came of a producer that asked to be let in.
pub(crate) enum Admission {
    /// It is in already.
    Known(ProducerSlot, String, AccessMode),
    /// It comes in.
    Enters(AttachProducer),
    /// It gets the topic to itself.
    Claims(AttachProducer),
    /// It waits, or was refused, and knows.
    Answered,
}

impl Access {
    /// Of a topic that was just loaded, by its property.
    pub(crate) fn loaded(epoch: Option<&str>) -> Access {
        Access { epoch: epoch.and_then(|epoch| epoch.parse().ok()), ..Access::default() }
    }

    /// Producers that wait to have the topic to themselves.
    pub(crate) fn waiting(&self) -> u32 {
        u32::try_from(self.waiting.len()).unwrap_or(u32::MAX)
    }

    /// The epoch of a producer that has just been let in, if it has the topic to itself.
    pub(crate) fn epoch_of(&self, mode: AccessMode) -> Option<u64> {
        self.epoch.filter(|_| mode != AccessMode::Shared)
    }

    fn judge(&self, attach: &AttachProducer, attached: bool) -> Verdict {
        let taken = self.claim.is_some() || (self.exclusive && attached);
        let fenced = |why| Verdict::Refuse(ServerError::ProducerFenced, why);
        if attach.access != AccessMode::Shared && attach.topic_epoch < self.epoch && attach.topic_epoch.is_some() {
            return fenced("another producer has had the topic to itself since");
        }
        match attach.access {
            AccessMode::Shared if taken || !self.waiting.is_empty() => {
                Verdict::Refuse(ServerError::ProducerBusy, "a producer has, or waits to have, the topic to itself")
            }
            AccessMode::Shared => Verdict::Admit,
            AccessMode::Exclusive if taken || !self.waiting.is_empty() => {
                fenced("another producer has, or waits to have, the topic to itself")
            }
            AccessMode::Exclusive if attached => fenced("other producers are attached"),
            AccessMode::WaitForExclusive if taken || attached || !self.waiting.is_empty() => Verdict::Wait,
            AccessMode::Exclusive | AccessMode::WaitForExclusive | AccessMode::ExclusiveWithFencing => Verdict::Claim,
        }
    }

    /// Judges a producer, and tells those that have to make room for it.
    pub(crate) fn admit(&mut self, mut attach: AttachProducer, producers: &mut Producers, prefix: &str, turn: &mut Turn<'_>) -> Admission {
        let asked = Asked { to: attach.key.connection, request: attach.request };
        if let Some((slot, name, mode)) = producers.attached(attach.key) {
            return Admission::Known(slot, name.to_owned(), mode);
        }
        if self.comes_back(&attach, producers) {
            return Admission::Enters(attach);
        }
        match self.judge(&attach, producers.present() > 0) {
            Verdict::Admit => {
                self.exclusive = false;
                Admission::Enters(attach)
            }
            Verdict::Claim => {
                if attach.access == AccessMode::ExclusiveWithFencing {
                    self.fence_others(producers, turn);
                }
                Admission::Claims(attach)
            }
            Verdict::Wait => {
                let name = producers.name_for(&attach, prefix);
                attach.name = Some(name.clone());
                // Whoever it waits for has had the topic since.
                attach.topic_epoch = None;
                let reply = Reply::ProducerWaiting { request: asked.request, producer: attach.key, name };
                self.waiting.push_back(attach);
                turn.out.push(Effect::Reply { to: asked.to, reply });
                Admission::Answered
            }
            Verdict::Refuse(error, why) => {
                asked.refuse(turn, error, why);
                Admission::Answered
            }
        }
    }

    /// Whether it is the one that has the topic to itself, by name and epoch: its old connection may not be known to be dead yet.
    fn comes_back(&self, attach: &AttachProducer, producers: &Producers) -> bool {
        let same = attach.topic_epoch.is_some() && attach.topic_epoch == self.epoch;
        attach.access != AccessMode::Shared
            && attach.access != AccessMode::ExclusiveWithFencing
            && same
            && self.exclusive
            && self.claim.is_none()
            && attach.name.as_deref().is_some_and(|name| producers.has(name))
    }

    /// Whoever is there, or waits, has to leave.
    fn fence_others(&mut self, producers: &mut Producers, turn: &mut Turn<'_>) {
        self.refuse_waiting(turn, ServerError::ProducerFenced, "another producer took the topic for itself");
        for producer in producers.take_attached() {
            turn.out.push(Effect::Reply { to: producer.connection, reply: Reply::CloseProducer { producer } });
        }
    }

    /// Takes the topic for one producer. Returns its epoch if that is a new one, and none if it comes back with the one it has.
    pub(crate) fn take(&mut self, attach: &AttachProducer) -> Option<u64> {
        if attach.topic_epoch.is_some() && attach.topic_epoch == self.epoch {
            // A claim that was fenced may still be waiting for its record; it is of no interest any more.
            self.claim = None;
            return None;
        }
        let epoch = attach.topic_epoch.unwrap_or_else(|| self.epoch.map_or(0, |epoch| epoch + 1));
        self.epoch = Some(epoch);
        Some(epoch)
    }

    /// The next one that is let in has the topic to itself.
    pub(crate) fn alone(&mut self) {
        self.exclusive = true;
    }

    /// The first one that waits, if nobody has the topic.
    pub(crate) fn next_waiting(&mut self, producers: &Producers) -> Option<AttachProducer> {
        let free = self.claim.is_none() && producers.present() == 0;
        if free { self.waiting.pop_front() } else { None }
    }

    /// Whether the producer is one that waits; it does so no longer.
    pub(crate) fn withdraw(&mut self, key: ProducerKey) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|attach| attach.key != key);
        let claims = self.claim.as_mut().and_then(|claim| claim.attach.take_if(|attach| attach.key == key));
        claims.is_some() || self.waiting.len() < before
    }

    /// Whoever waits does so in vain.
    pub(crate) fn refuse_waiting(&mut self, turn: &mut Turn<'_>, error: ServerError, why: &str) {
        let claim = self.claim.as_mut().and_then(|claim| claim.attach.take());
        for waiting in claim.into_iter().chain(self.waiting.drain(..)) {
            Asked { to: waiting.key.connection, request: waiting.request }.refuse(turn, error, why);
        }
    }
}

impl Topic {
    /// Lets a producer in, has it wait, or refuses it.
    pub(crate) fn admit_producer(&mut self, turn: &mut Turn<'_>, attach: AttachProducer) {
        let (key, asked) = (attach.key, Asked { to: attach.key.connection, request: attach.request });
        if let Err((error, message)) = self.producers.have_room_for(&attach, &self.settings.limits) {
            return asked.refuse(turn, error, &message);
        }
        match self.access.admit(attach, &mut self.producers, &self.settings.producer_name_prefix, turn) {
            Admission::Known(slot, name, mode) => self.producer_ready(turn, key, asked, slot, name, mode),
            Admission::Enters(attach) => self.let_in(turn, attach),
            Admission::Claims(attach) => self.claim(turn, attach),
            Admission::Answered => {}
        }
        self.forget_held(turn, false);
    }

    /// Gives a producer the topic, under a new epoch unless it comes back with the one it has.
    fn claim(&mut self, turn: &mut Turn<'_>, attach: AttachProducer) {
        let Some(epoch) = self.access.take(&attach) else {
            self.access.alone();
            return self.let_in(turn, attach);
        };
        let revision = self.ledgers.set_property(EPOCH_PROPERTY, epoch.to_string(), &mut self.errands, turn);
        self.access.claim = Some(Claim { attach: Some(attach), revision });
    }

    /// The topic's properties were recorded: whoever waited for that is let in.
    pub(crate) fn settle_claim(&mut self, turn: &mut Turn<'_>) {
        if self.closing || self.access.claim.as_ref().is_none_or(|claim| claim.revision > self.ledgers.recorded_properties()) {
            return;
        }
        if let Some(attach) = self.access.claim.take().and_then(|claim| claim.attach) {
            self.access.alone();
            self.let_in(turn, attach);
        }
        self.promote(turn);
    }

    /// A producer may have left: if nobody is left, it is the turn of the first that waits.
    pub(crate) fn promote(&mut self, turn: &mut Turn<'_>) {
        while !self.closing && self.fenced.is_none() && self.quota_refusal(turn.now).is_none() {
            let Some(attach) = self.access.next_waiting(&self.producers) else { return };
            self.claim(turn, attach);
        }
    }
}
