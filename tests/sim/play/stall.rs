//! A Key_Shared subscription whose consumers come, go, pause and give back all the time; how long does anything wait that could come?

use std::collections::BTreeMap;

use ledger::Position;
use topic::{Ack, AckIds};

use super::super::mirror::{Index, Stored};
use super::{CASTS, Play, SUBSCRIPTIONS, Script};

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stall {
    /// Joins, leaves, pauses, resumptions and redeliveries.
    pub(crate) moves: usize,
    /// Entries sent.
    pub(crate) delivered: usize,
    /// The longest an entry waited whose owner took entries, in simulated milliseconds.
    pub(crate) longest_ms: u64,
    /// The same where nobody else held entries of its key.
    pub(crate) longest_undrained_ms: u64,
}

/// Consumers ack after that long at most, paused or not.
const SLOWEST_ACK_MS: u64 = 100;

/// Entries not acked at most.
const MOST: usize = 300;

struct Watch {
    paused: Vec<bool>,
    /// When which entry will be acked, and by whom.
    acks: BTreeMap<Position, (Index, u64)>,
    /// Since when entries could have come.
    waiting: BTreeMap<Position, (Index, u64)>,
    undrained: BTreeMap<Position, (Index, u64)>,
    /// Entries that are not acked, with the slots of their keys, and where the next one will be looked for.
    stored: BTreeMap<Position, Stored>,
    next: Position,
}

/// Plays until so many moves were made.
pub(crate) fn move_about(seed: u64, script: Script, moves: usize) -> Result<Stall, String> {
    let mut play = Play::new(seed * 2 + 1, script);
    let count = CASTS[1].len();
    let keys: Vec<Index> = (0..count).filter(|index| play.consumers[*index].subscription == "keys").collect();
    let mut watch = Watch {
        paused: vec![false; count],
        next: Position::new(0, 0),
        acks: BTreeMap::new(),
        waiting: BTreeMap::new(),
        undrained: BTreeMap::new(),
        stored: BTreeMap::new(),
    };
    let mut stall = Stall::default();
    play.attach_this(keys[0])?;
    while stall.moves < moves {
        let ms = play.rng.u64(1..8);
        play.owner.wait(ms);
        play.listen()?;
        play.carry_out()?;
        if play.rng.u8(..3) == 0 {
            let index = keys[play.rng.usize(..keys.len())];
            stall.moves += usize::from(play.make_a_move(index, &mut watch)?);
        }
        for index in &keys {
            if !watch.paused[*index] && play.consumers[*index].permits < 5 {
                play.flow_to(*index, 10)?;
            }
        }
        play.ack_what_is_due(&mut watch)?;
        play.watch(&mut watch, &mut stall).map_err(|stuck| format!("seed {seed}: {stuck}"))?;
    }
    stall.delivered = play.tally.delivered;
    Ok(stall)
}

impl Play {
    /// Producers publish while there is room; storage does its work, not always at once.
    fn carry_out(&mut self) -> Result<(), String> {
        let backlog = self.owner.topic.stats().subscriptions.first().map_or(0, |keys| keys.backlog as usize);
        if backlog < MOST {
            self.produce()?;
        }
        self.owner.finish_appends(usize::MAX);
        self.listen()?;
        while self.owner.finish_write() {}
        self.listen()?;
        if self.rng.bool() {
            self.owner.finish_read(0);
        }
        self.listen()
    }

    fn make_a_move(&mut self, index: Index, watch: &mut Watch) -> Result<bool, String> {
        let Some(slot) = self.consumers[index].slot else {
            let asked = self.rng.bool();
            if asked {
                watch.paused[index] = false;
                self.attach_this(index)?;
            }
            return Ok(asked);
        };
        let key = self.consumers[index].key;
        match self.rng.u8(..10) {
            0..2 => {
                self.gone(index);
                self.owner.call(|topic, turn| topic.detach_consumer(turn, key, None));
            }
            2..5 => watch.paused[index] = !watch.paused[index],
            5 => return self.toggle_this(index).map(|()| true),
            _ => {
                let Some(mirror) = self.mirrors.get_mut("keys") else { return Ok(false) };
                let mut ids = mirror.held_by(index);
                ids.retain(|_| self.rng.bool());
                if ids.is_empty() {
                    return Ok(false);
                }
                mirror.give_back(index, &ids);
                self.owner.call(|topic, _| topic.redeliver(key, slot, ids, None));
            }
        }
        self.listen()?;
        Ok(true)
    }

    fn ack_what_is_due(&mut self, watch: &mut Watch) -> Result<(), String> {
        let now = self.owner.now.monotonic_ms;
        let Some(mirror) = self.mirrors.get("keys") else { return Ok(()) };
        let held = mirror.all_held_by();
        watch.acks.retain(|at, (by, _)| held.get(at) == Some(by));
        for (at, by) in held {
            let due = now + self.rng.u64(1..=SLOWEST_ACK_MS);
            watch.acks.entry(at).or_insert((by, due));
        }
        // With limits, one that may hold less than a message has parts would wait for ever.
        let whole = self.settings.max_unacked_per_consumer == 0 && self.settings.max_unacked_per_subscription == 0;
        let due: Vec<(Position, Index)> = watch.acks.iter().filter(|(_, (_, due))| *due <= now).map(|(at, (by, _))| (*at, *by)).collect();
        for (at, by) in due {
            let (Some(slot), key) = (self.consumers[by].slot, self.consumers[by].key) else { continue };
            let Some(mirror) = self.mirrors.get_mut("keys") else { continue };
            // What clients do with parts: they ack them once the message is whole.
            if mirror.held_by(by).contains(&at) && !(whole && mirror.is_unfinished(at)) {
                mirror.ack(at);
                self.owner.call(|topic, turn| topic.ack(turn, Ack { key, slot, request: None, ids: AckIds::One(at) }));
                self.listen()?;
            }
        }
        Ok(())
    }

    /// Takes the time of what could have come.
    fn watch(&self, watch: &mut Watch, stall: &mut Stall) -> Result<(), String> {
        let now = self.owner.now.monotonic_ms;
        let stats = self.owner.topic.stats();
        let subscription = stats.subscriptions.iter().find(|subscription| subscription.name == SUBSCRIPTIONS[4].0);
        let (Some(mirror), Some(subscription)) = (self.mirrors.get("keys"), subscription) else { return Ok(()) };
        watch.stored.extend(self.stored_from(watch.next));
        watch.next = watch.stored.last_key_value().map_or(watch.next, |(at, _)| at.following());
        watch.stored.retain(|at, _| !mirror.has_acked(*at));
        let most = self.look_ahead(subscription.consumers.len());
        for (at_once, since, longest) in
            [(false, &mut watch.waiting, &mut stall.longest_ms), (true, &mut watch.undrained, &mut stall.longest_undrained_ms)]
        {
            let takes = |index: Index| self.takes(index, mirror.unacked(index), subscription.unacked_messages);
            let could: BTreeMap<Position, Index> =
                mirror.could_come(&watch.stored, self.owner.now.wall_ms, most, at_once, takes).into_iter().collect();
            since.retain(|at, (owner, _)| could.get(at) == Some(owner));
            for (at, owner) in could {
                let (_, begun) = since.entry(at).or_insert((owner, now));
                *longest = (*longest).max(now - *begun);
                if now - *begun > 10_000 {
                    return Err(format!("{at} has not come to {owner} for 10 s, which owns its key and takes entries"));
                }
            }
        }
        Ok(())
    }
}
