//! Slots split evenly: shares differ by one slot at most, and only what a newcomer gets, or one that left had, changes hands.

use wire::hash::KEY_SLOTS;

use super::ranges::{Owned, append};
use crate::consumer::ConsumerIndex;

/// Who is there, in the order they joined.
#[derive(Debug, Default)]
pub(super) struct Even {
    members: Vec<ConsumerIndex>,
}

impl Even {
    /// A newcomer gets the lowest slots of each of the others, as many as those have too many now.
    pub(super) fn join(&mut self, owned: &[Owned], newcomer: ConsumerIndex) -> Vec<Owned> {
        let share = KEY_SLOTS / (count(&self.members) + 1);
        let mut surplus = Shares::of(owned);
        for (member, target) in self.targets(&surplus, KEY_SLOTS - share) {
            let surplus = surplus.of_mut(member);
            *surplus = surplus.saturating_sub(target);
        }
        self.members.push(newcomer);
        let mut after = Vec::with_capacity(owned.len() + self.members.len());
        if owned.is_empty() {
            append(&mut after, 0, KEY_SLOTS, newcomer);
        }
        for (range, owner) in owned {
            let length = u32::from(range.last - range.first) + 1;
            let surplus = surplus.of_mut(*owner);
            let given = length.min(*surplus);
            *surplus -= given;
            append(&mut after, u32::from(range.first), given, newcomer);
            append(&mut after, u32::from(range.first) + given, length - given, *owner);
        }
        after
    }

    /// What one had that leaves goes to whoever has too few now: if it can be, to the owner of the slots just below, else to the one
    /// that joined first.
    pub(super) fn leave(&mut self, owned: &[Owned], leaver: ConsumerIndex) -> Vec<Owned> {
        self.members.retain(|member| *member != leaver);
        let shares = Shares::of(owned);
        let mut wanted = Shares::default();
        for (member, target) in self.targets(&shares, KEY_SLOTS) {
            *wanted.of_mut(member) = target.saturating_sub(shares.get(member));
        }
        // Nobody comes to want more, so whoever was passed over once is not asked again.
        let mut heirs = self.members.iter().copied().peekable();
        let mut after: Vec<Owned> = Vec::with_capacity(owned.len());
        for (range, owner) in owned {
            let (mut first, end) = (u32::from(range.first), u32::from(range.last) + 1);
            if *owner != leaver {
                append(&mut after, first, end - first, *owner);
                continue;
            }
            while first < end {
                let below = after.last().map(|(_, owner)| *owner).filter(|owner| wanted.get(*owner) > 0);
                while heirs.next_if(|member| wanted.get(*member) == 0).is_some() {}
                let Some(heir) = below.or_else(|| heirs.peek().copied()) else { break };
                let wanted = wanted.of_mut(heir);
                let length = (*wanted).min(end - first);
                *wanted -= length;
                append(&mut after, first, length, heir);
                first += length;
            }
        }
        after
    }

    /// How many slots each member is to have when they have so many in all; those that have more now get the odd ones.
    fn targets(&self, shares: &Shares, slots: u32) -> Vec<(ConsumerIndex, u32)> {
        let Some(each) = slots.checked_div(count(&self.members)) else { return Vec::new() };
        let odd = slots % count(&self.members);
        let mut members = self.members.clone();
        members.sort_by_key(|member| std::cmp::Reverse(shares.get(*member)));
        members.into_iter().zip(0..).map(|(member, place)| (member, each + u32::from(place < odd))).collect()
    }

    #[cfg(test)]
    pub(super) fn of(members: Vec<ConsumerIndex>) -> Even {
        Even { members }
    }
}

fn count(members: &[ConsumerIndex]) -> u32 {
    u32::try_from(members.len()).unwrap_or(u32::MAX - 1)
}

/// Slots by consumer. A subscription's consumers have small indices, and this is asked for each range when somebody comes or goes.
#[derive(Debug, Default)]
struct Shares(Vec<u32>);

impl Shares {
    fn of(owned: &[Owned]) -> Shares {
        let mut shares = Shares::default();
        for (range, owner) in owned {
            *shares.of_mut(*owner) += u32::from(range.last - range.first) + 1;
        }
        shares
    }

    fn get(&self, consumer: ConsumerIndex) -> u32 {
        self.0.get(consumer as usize).copied().unwrap_or_default()
    }

    fn of_mut(&mut self, consumer: ConsumerIndex) -> &mut u32 {
        let place = consumer as usize;
        if place >= self.0.len() {
            self.0.resize(place + 1, 0);
        }
        &mut self.0[place]
    }
}
