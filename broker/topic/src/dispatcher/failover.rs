//! Which consumer of a Failover subscription is the active one: the same answer wherever and whenever the same consumers are asked
//! about, so that the partitions of a topic spread evenly over them.

use slab::Slab;
use wire::TopicName;

use crate::consumer::{Consumer, ConsumerIndex};
use crate::{Effect, Turn};

/// The one that gets everything. Only those with the lowest priority number come into question; by name, partition `i` has the
/// `i`th of them, round and round. A topic without partitions goes to the one whose name and the topic's hash highest, so that
/// topics spread, too, and a consumer that comes or goes moves only what is its own.
pub(crate) fn elect(consumers: &Slab<Consumer>, topic: &TopicName) -> Option<ConsumerIndex> {
    let first = consumers.iter().map(|(_, consumer)| consumer.priority).min()?;
    let mut members: Vec<_> = consumers.iter().filter(|(_, consumer)| consumer.priority == first).collect();
    members.sort_by(|(_, a), (_, b)| (a.name(), a.key).cmp(&(b.name(), b.key)));
    let chosen = match topic.partition_index() {
        Some(partition) => members.get(partition as usize % members.len()),
        None => members.iter().max_by_key(|(_, consumer)| wire::hash::murmur3(format!("{topic}/{}", consumer.name()).as_bytes())),
    };
    chosen.and_then(|(index, _)| ConsumerIndex::try_from(*index).ok())
}

/// Tells everybody who does not know it yet whether it is the active one; whoever no longer is hears that first.
pub(crate) fn announce(consumers: &mut Slab<Consumer>, active: Option<ConsumerIndex>, turn: &mut Turn<'_>) {
    tell(consumers, turn, false, |consumer, told| told != Some(false) && Some(consumer) != active);
    tell(consumers, turn, true, |consumer, told| told != Some(true) && Some(consumer) == active);
}

/// Tells those consumers that `whom` picks whether they are the active one; `whom` sees what each was told last.
pub(super) fn tell(consumers: &mut Slab<Consumer>, turn: &mut Turn<'_>, active: bool, whom: impl Fn(ConsumerIndex, Option<bool>) -> bool) {
    for (index, consumer) in consumers {
        if whom(u32::try_from(index).unwrap_or(u32::MAX), consumer.told_active())
            && let Some(reply) = consumer.tell_active(active)
        {
            turn.out.push(Effect::Reply { to: consumer.key.connection, reply });
        }
    }
}

/// Tells those who have been silent for long enough what they were to be told.
pub(super) fn end_silences(consumers: &mut Slab<Consumer>, turn: &mut Turn<'_>) {
    let now = turn.now.monotonic_ms;
    for (_, consumer) in consumers {
        if consumer.silent_until.is_some_and(|at| at <= now)
            && let Some(reply) = consumer.end_silence()
        {
            turn.out.push(Effect::Reply { to: consumer.key.connection, reply });
        }
    }
}

/// When the first of those who are silent is to be told nevertheless.
pub(super) fn first_end_of_silence(consumers: &Slab<Consumer>) -> Option<u64> {
    consumers.iter().filter_map(|(_, consumer)| consumer.silent_until).min()
}
