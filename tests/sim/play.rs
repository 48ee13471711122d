//! The play: what happens next is drawn from the seed, what must hold is checked after each step.

use std::collections::{BTreeMap, VecDeque};

use ledger::{Position, Retention};
use topic::faults::Faults;
use topic::{
    Ack, AckIds, AttachConsumer, ConnectionKey, ConsumerKey, ConsumerSlot, Effect, Reply, SeekTo, StartAt, SubscriptionKind, TopicSettings,
};

use super::mirror::{Delivery, Index, Mirror};
use super::owner::{Owner, small_settings};
use super::producer::{Acknowledged, Producer};
use super::world::World;

/// How a play differs from the usual.
#[derive(Clone, Copy, Default)]
pub(crate) struct Script {
    /// Deliberate mistakes of the topic.
    pub(crate) faults: Faults,
    /// A deliberate mistake of storage: it says "durable" too early.
    pub(crate) confirm_early: bool,
    /// Steps before everything comes to rest.
    pub(crate) steps: usize,
}

/// What a play amounted to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Entries acknowledged to producers.
    pub(crate) acknowledged: usize,
    /// Entries sent to consumers.
    pub(crate) delivered: usize,
    /// Entries sent to consumers again.
    pub(crate) redelivered: usize,
    /// Times the broker died.
    pub(crate) crashes: usize,
    /// Times the topic was let go of in order.
    pub(crate) unloads: usize,
    /// Seeks answered.
    pub(crate) seeks: usize,
}

struct Consumer {
    key: ConsumerKey,
    subscription: &'static str,
    slot: Option<ConsumerSlot>,
    asking: bool,
    permits: i64,
    writable: bool,
}

/// What a request was for.
enum Request {
    Producer(usize),
    Consumer(Index, Option<Position>),
    Seek(&'static str, Position),
    Unsubscribe(&'static str, Index),
}

struct Play {
    rng: fastrand::Rng,
    owner: Owner,
    settings: TopicSettings,
    producers: Vec<Producer>,
    consumers: Vec<Consumer>,
    mirrors: BTreeMap<&'static str, Mirror>,
    acknowledged: Acknowledged,
    requests: BTreeMap<u64, Request>,
    next_request: u64,
    refusing: bool,
    calm: bool,
    tally: Tally,
    trail: VecDeque<String>,
}

const SUBSCRIPTIONS: [(&str, SubscriptionKind, bool); 4] = [
    ("exclusive", SubscriptionKind::Exclusive, true),
    ("shared", SubscriptionKind::Shared, true),
    ("latest", SubscriptionKind::Shared, true),
    ("reader", SubscriptionKind::Exclusive, false),
];

/// Plays one seed. An error says what did not hold, and what led to it.
pub(crate) fn play(seed: u64, script: Script) -> Result<Tally, String> {
    let mut play = Play::new(seed, script);
    play.run(script.steps).map_err(|violation| {
        let trail: Vec<String> = play.trail.iter().cloned().collect();
        format!("seed {seed}: {violation}\n  {}", trail.join("\n  "))
    })?;
    Ok(play.tally)
}

impl Play {
    fn new(seed: u64, script: Script) -> Play {
        let mut rng = fastrand::Rng::with_seed(seed);
        let settings = TopicSettings {
            retention: if rng.bool() { Retention::default() } else { Retention { time_ms: -1, size_bytes: -1 } },
            max_unacked_per_consumer: if rng.bool() { 0 } else { rng.u32(3..30) },
            max_unacked_per_subscription: if rng.bool() { 0 } else { rng.u32(10..60) },
            max_read_entries: rng.usize(1..12),
            ..small_settings()
        };
        let cache = if rng.u8(..4) == 0 { 0 } else { rng.usize(100..5_000) };
        let mut owner = Owner::over(World::default(), settings.clone(), cache, script.faults);
        owner.confirm_early = script.confirm_early;
        let consumer = |index: usize| {
            let connection = ConnectionKey { worker: 1, slot: index as u32, generation: 0 };
            let (subscription, ..) = SUBSCRIPTIONS[[0, 0, 1, 1, 1, 2, 2, 3][index]];
            Consumer {
                key: ConsumerKey { connection, id: index as u64 },
                subscription,
                slot: None,
                asking: false,
                permits: 0,
                writable: true,
            }
        };
        Play {
            rng,
            owner,
            settings,
            producers: (0..3).map(Producer::new).collect(),
            consumers: (0..8).map(consumer).collect(),
            mirrors: BTreeMap::new(),
            acknowledged: Acknowledged::new(),
            requests: BTreeMap::new(),
            next_request: 0,
            refusing: false,
            calm: false,
            tally: Tally::default(),
            trail: VecDeque::new(),
        }
    }

    fn run(&mut self, steps: usize) -> Result<(), String> {
        for _ in 0..steps {
            self.step()?;
        }
        self.come_to_rest()
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        if self.trail.len() == 60 {
            self.trail.pop_front();
        }
        self.trail.push_back(what());
    }

    fn step(&mut self) -> Result<(), String> {
        match self.rng.u32(..1_000) {
            0..180 => self.produce()?,
            180..340 => self.storage()?,
            340..420 => {
                self.owner.finish_write();
            }
            420..540 => {
                let which = self.rng.usize(..4);
                if self.rng.u8(..20) == 0 {
                    self.owner.fail_read(which)
                } else {
                    self.owner.finish_read(which)
                };
            }
            540..620 => {
                let ms = self.rng.u64(1..800);
                self.owner.wait(ms);
            }
            620..740 => self.flow()?,
            740..850 => self.ack()?,
            850..880 => self.redeliver()?,
            880..925 => self.attach_consumer()?,
            925..945 => self.detach_consumer()?,
            945..965 => self.toggle_writable()?,
            965..970 => self.seek()?,
            970..973 => self.unsubscribe()?,
            973..980 => self.detach_producer()?,
            980..985 => {
                self.owner.fail_write();
            }
            985..988 => self.toggle_refusal(),
            988..990 => self.fail_appends()?,
            990..993 => self.crash()?,
            993..995 => self.unload(false)?,
            _ => self.check_rest(false)?,
        }
        if self.rng.bool() {
            self.owner.tick();
        }
        self.listen()?;
        if self.owner.unload_reason.is_some() {
            self.unload(true)?;
        }
        Ok(())
    }

    fn request(&mut self, request: Request) -> u64 {
        self.next_request += 1;
        self.requests.insert(self.next_request, request);
        self.next_request
    }

    fn produce(&mut self) -> Result<(), String> {
        let index = self.rng.usize(..self.producers.len());
        if !self.producers[index].is_attached() {
            return self.attach_producer(index);
        }
        for _ in 0..self.rng.usize(1..6) {
            let messages = if self.rng.bool() { 1 } else { self.rng.u32(2..9) };
            let time = self.owner.now.wall_ms;
            self.producers[index].produce(messages, time);
        }
        self.send(index)
    }

    fn attach_producer(&mut self, index: usize) -> Result<(), String> {
        let request = self.request(Request::Producer(index));
        let attach = self.producers[index].attach(request);
        self.note(|| format!("producer {index} attaches"));
        self.owner.call(|topic, turn| topic.attach_producer(turn, attach));
        self.listen()?;
        self.send(index)
    }

    fn send(&mut self, index: usize) -> Result<(), String> {
        while let Some(publish) = self.producers[index].next() {
            self.owner.call(|topic, turn| topic.publish(turn, publish));
        }
        self.listen()
    }

    fn detach_producer(&mut self) -> Result<(), String> {
        let index = self.rng.usize(..self.producers.len());
        if self.producers[index].is_attached() {
            let key = self.producers[index].key();
            self.note(|| format!("producer {index} loses its connection"));
            self.owner.call(|topic, turn| topic.detach_producer(turn, key, None));
            self.listen()?;
            self.producers[index].closed();
        }
        Ok(())
    }

    fn storage(&mut self) -> Result<(), String> {
        let most = self.rng.usize(1..12);
        self.owner.finish_appends(most);
        if self.rng.u8(..4) == 0 {
            self.owner.sync();
        }
        self.listen()
    }

    fn toggle_refusal(&mut self) {
        self.refusing = !self.refusing;
        let refusal = self.refusing.then(|| "the disk is nearly full".to_owned());
        self.owner.call(|topic, turn| topic.set_store_writable(turn, refusal));
    }

    fn attach_consumer(&mut self) -> Result<(), String> {
        let index = self.rng.usize(..self.consumers.len());
        self.attach_this(index)
    }

    fn attach_this(&mut self, index: Index) -> Result<(), String> {
        let consumer = &mut self.consumers[index];
        if consumer.slot.is_some() || consumer.asking {
            return Ok(());
        }
        let name = consumer.subscription;
        let (_, kind, durable) = SUBSCRIPTIONS.into_iter().find(|(other, ..)| *other == name).expect("known");
        consumer.key.connection.generation += 1;
        consumer.asking = true;
        let (key, known) = (consumer.key, self.mirrors.contains_key(name));
        let (start, floor) = match (durable, known, name) {
            (false, ..) => {
                let at = self.some_position();
                (StartAt::At(at), Some(at))
            }
            (_, false, "latest") => (StartAt::Latest, self.acknowledged.last_key_value().map(|(at, _)| at.following())),
            _ => (StartAt::Earliest, None),
        };
        let request = self.request(Request::Consumer(index, floor));
        self.note(|| format!("consumer {index} asks for {name} from {start:?}"));
        let attach = AttachConsumer {
            key,
            request,
            subscription: name.to_owned(),
            kind,
            durable,
            start: Some(start),
            name: format!("c{index}"),
            priority: i32::from(index == 3),
            epoch: None,
            properties: Vec::new(),
            address: String::new(),
            client_version: String::new(),
        };
        self.owner.call(|topic, turn| topic.attach_consumer(turn, attach));
        self.listen()
    }

    fn some_position(&mut self) -> Position {
        let count = self.acknowledged.len();
        let index = self.rng.usize(..=count);
        self.acknowledged.keys().nth(index).copied().unwrap_or(Position::EARLIEST)
    }

    /// A random consumer that is attached.
    fn attached(&mut self) -> Option<(Index, ConsumerKey, ConsumerSlot)> {
        let index = self.rng.usize(..self.consumers.len());
        let consumer = &self.consumers[index];
        consumer.slot.map(|slot| (index, consumer.key, slot))
    }

    fn detach_consumer(&mut self) -> Result<(), String> {
        let Some((index, key, _)) = self.attached() else { return Ok(()) };
        self.note(|| format!("consumer {index} leaves"));
        self.gone(index);
        self.owner.call(|topic, turn| topic.detach_consumer(turn, key, None));
        self.listen()
    }

    fn gone(&mut self, index: Index) {
        let consumer = &mut self.consumers[index];
        consumer.slot = None;
        consumer.asking = false;
        if let Some(mirror) = self.mirrors.get_mut(consumer.subscription) {
            mirror.left(index);
        }
    }

    fn flow(&mut self) -> Result<(), String> {
        let Some((index, ..)) = self.attached() else { return Ok(()) };
        let permits = self.rng.u32(1..20);
        self.flow_to(index, permits)
    }

    fn flow_to(&mut self, index: Index, permits: u32) -> Result<(), String> {
        let consumer = &mut self.consumers[index];
        let (Some(slot), key) = (consumer.slot, consumer.key) else { return Ok(()) };
        consumer.permits += i64::from(permits);
        self.note(|| format!("consumer {index} gives {permits} permits"));
        self.owner.call(|topic, turn| topic.flow(turn, key, slot, permits));
        self.listen()
    }

    fn toggle_writable(&mut self) -> Result<(), String> {
        let Some((index, key, slot)) = self.attached() else { return Ok(()) };
        let writable = !self.consumers[index].writable;
        self.consumers[index].writable = writable;
        self.owner.call(|topic, turn| topic.set_writable(turn, key, slot, writable));
        self.listen()
    }

    fn ack(&mut self) -> Result<(), String> {
        let Some((index, key, slot)) = self.attached() else { return Ok(()) };
        let Some(mirror) = self.mirrors.get_mut(self.consumers[index].subscription) else { return Ok(()) };
        // On a Shared subscription anybody may ack what another was sent.
        let held = if self.rng.u8(..4) == 0 { mirror.all_held() } else { mirror.held_by(index) };
        let Some(at) = self.rng.choice(held.iter().copied()) else { return Ok(()) };
        let ids = match self.rng.u8(..6) {
            0 if !mirror.is_shared() => {
                mirror.ack_through(at, &self.acknowledged);
                AckIds::Cumulative(at, None, None)
            }
            1 if mirror.messages(at) > 1 => {
                let messages = mirror.messages(at);
                let left = mirror.ack_part(at, &[self.rng.u64(..)]);
                AckIds::Many(vec![(at, Some(left), self.rng.bool().then_some(messages))])
            }
            2 => {
                let some: Vec<Position> = held.into_iter().filter(|_| self.rng.bool()).collect();
                some.iter().for_each(|at| mirror.ack(*at));
                AckIds::Many(some.into_iter().map(|at| (at, None, None)).collect())
            }
            _ => {
                mirror.ack(at);
                AckIds::One(at)
            }
        };
        self.note(|| format!("consumer {index} acks {ids:?}"));
        self.owner.call(|topic, turn| topic.ack(turn, Ack { key, slot, request: None, ids }));
        self.listen()
    }

    fn redeliver(&mut self) -> Result<(), String> {
        let Some((index, key, slot)) = self.attached() else { return Ok(()) };
        let Some(mirror) = self.mirrors.get_mut(self.consumers[index].subscription) else { return Ok(()) };
        let mut ids = mirror.held_by(index);
        let all = self.rng.bool() || !mirror.is_shared();
        if !all {
            ids.retain(|_| self.rng.bool());
            if ids.is_empty() {
                return Ok(());
            }
        }
        mirror.give_back(index, &ids);
        self.note(|| format!("consumer {index} wants again {ids:?}, all: {all}"));
        let ids = if all { Vec::new() } else { ids };
        self.owner.call(|topic, turn| topic.redeliver(turn, key, slot, ids, None));
        self.listen()
    }

    fn seek(&mut self) -> Result<(), String> {
        let Some((index, key, _)) = self.attached() else { return Ok(()) };
        let (to, floor) = match self.rng.u8(..5) {
            // Publishes that are sent again make times go back, so what a time means is checked elsewhere.
            0 => (SeekTo::Time(self.owner.now.wall_ms - self.rng.u64(..50_000)), Position::LATEST),
            1 => (SeekTo::Message(Position::EARLIEST), Position::EARLIEST),
            _ => {
                let at = self.some_position();
                (SeekTo::Message(at), at)
            }
        };
        let name = self.consumers[index].subscription;
        let request = self.request(Request::Seek(name, floor));
        self.note(|| format!("consumer {index} moves {name} to {to:?}"));
        self.owner.call(|topic, turn| topic.seek(turn, key, request, to));
        self.listen()
    }

    fn unsubscribe(&mut self) -> Result<(), String> {
        let Some((index, key, _)) = self.attached() else { return Ok(()) };
        let name = self.consumers[index].subscription;
        let request = self.request(Request::Unsubscribe(name, index));
        self.note(|| format!("consumer {index} removes {name}"));
        self.owner.call(|topic, turn| topic.unsubscribe(turn, key, request, true));
        self.listen()
    }

    fn fail_appends(&mut self) -> Result<(), String> {
        let stored = self.rng.usize(..3);
        self.note(|| "an append fails".to_owned());
        self.owner.fail_appends(stored);
        self.listen()
    }

    fn crash(&mut self) -> Result<(), String> {
        self.tally.crashes += 1;
        self.note(|| "the broker dies".to_owned());
        let (stored, written) = (self.rng.usize(..6), self.rng.usize(..4));
        self.owner.crash(stored, written);
        self.reloaded(true)
    }

    fn unload(&mut self, failed: bool) -> Result<(), String> {
        self.tally.unloads += 1;
        self.note(|| format!("the topic is unloaded, failed: {failed}"));
        self.owner.unload_and_load();
        self.listen()?;
        self.reloaded(false)
    }

    /// Connections are gone, and so is all that is not durable.
    fn reloaded(&mut self, crashed: bool) -> Result<(), String> {
        self.owner.heard.clear();
        self.refusing = false;
        self.producers.iter_mut().for_each(Producer::closed);
        for consumer in &mut self.consumers {
            consumer.slot = None;
            consumer.asking = false;
        }
        for mirror in self.mirrors.values_mut() {
            mirror.reloaded(crashed);
        }
        for (_, request) in std::mem::take(&mut self.requests) {
            self.uncertain(request);
        }
        let recorded: Vec<String> = self.owner.world.cursors().map(str::to_owned).collect();
        self.mirrors.retain(|name, _| recorded.iter().any(|recorded| recorded == name));
        for name in recorded {
            let (known, kind, durable) = SUBSCRIPTIONS.into_iter().find(|(known, ..)| *known == name).expect("known");
            // Its creation was never answered: nothing is promised but what comes from now on.
            let floor = self.acknowledged.last_key_value().map_or(Position::EARLIEST, |(at, _)| at.following());
            self.mirrors.entry(known).or_insert_with(|| Mirror::new(kind, durable, floor));
        }
        self.check_nothing_lost()
    }

    /// A request whose answer was lost may have been carried out.
    fn uncertain(&mut self, request: Request) {
        let Request::Seek(name, floor) = request else { return };
        let floor = self.bounded(floor);
        if let Some(mirror) = self.mirrors.get_mut(name) {
            mirror.perhaps_moved(floor);
        }
    }

    /// The place that a move to `floor` really goes to: not before the first entry there is, nor past the end.
    fn bounded(&self, floor: Position) -> Position {
        let end = self.acknowledged.last_key_value().map_or(floor, |(at, _)| at.following());
        floor.min(end).max(self.first())
    }

    /// Ledgers that nobody needed any more may be gone.
    fn first(&self) -> Position {
        let first = self.owner.topic.stats().ledgers.first().map_or(0, |(id, ..)| *id);
        Position::new(first, 0)
    }

    fn check_nothing_lost(&self) -> Result<(), String> {
        let lost = |at: &Position| !self.owner.world.holds(*at) && !self.owner.world.deleted.contains(&at.ledger);
        match self.acknowledged.keys().find(|at| lost(at)) {
            Some(at) => Err(format!("{at} was acknowledged and is lost")),
            None => Ok(()),
        }
    }

    /// Clients take in what came.
    fn listen(&mut self) -> Result<(), String> {
        for effect in std::mem::take(&mut self.owner.heard) {
            match effect {
                Effect::Receipt { to, sequence, highest_sequence, at, .. } => {
                    let producer = self.producers.iter_mut().find(|producer| producer.key() == to).ok_or("a receipt for nobody")?;
                    producer.receipt(sequence, highest_sequence, at, &mut self.acknowledged)?;
                    self.tally.acknowledged += 1;
                }
                Effect::Refused { to, .. } => {
                    if let Some(index) = self.producers.iter().position(|producer| producer.key() == to && producer.is_attached()) {
                        self.producers[index].closed();
                        self.owner.call(|topic, turn| topic.detach_producer(turn, to, None));
                    }
                }
                Effect::Deliver { to, at, redeliveries, ack_set, bytes, .. } => {
                    let peek = wire::payload::peek(&bytes).map_err(|error| format!("{at} is damaged: {error}"))?;
                    let index = self.consumers.iter().position(|consumer| consumer.key == to && consumer.slot.is_some());
                    let to = index.ok_or_else(|| format!("{at} came to a consumer that is not there"))?;
                    if let Some((producer, sequence)) = self.acknowledged.get(&at)
                        && (peek.producer_name != format!("p{producer}") || peek.sequence_id != *sequence)
                    {
                        return Err(format!("{at} holds another message than was acknowledged"));
                    }
                    let delivery = Delivery { to, at, messages: peek.messages, redeliveries, left: ack_set.map(|left| *left) };
                    self.delivered(&delivery)?;
                }
                Effect::Reply { reply, .. } => self.answered(reply)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn delivered(&mut self, delivery: &Delivery) -> Result<(), String> {
        let index = delivery.to;
        self.trail.push_back(format!("consumer {index} gets {} (count {})", delivery.at, delivery.redeliveries));
        self.tally.delivered += 1;
        self.tally.redelivered += usize::from(delivery.redeliveries > 0);
        let consumer = &mut self.consumers[index];
        if consumer.permits <= 0 {
            return Err(format!("{} came to {index}, which has {} permits", delivery.at, consumer.permits));
        }
        if !consumer.writable {
            return Err(format!("{} came to {index}, whose connection is full", delivery.at));
        }
        let mirror = self.mirrors.get_mut(consumer.subscription).ok_or("a delivery of no subscription")?;
        let world = &self.owner.world;
        let used = mirror.deliver(delivery, &self.acknowledged, |at| world.holds(at))?;
        consumer.permits -= i64::from(used);
        Ok(())
    }

    fn answered(&mut self, reply: Reply) -> Result<(), String> {
        match reply {
            Reply::ProducerReady { request, slot, .. } => {
                if let Some(Request::Producer(index)) = self.requests.remove(&request) {
                    self.producers[index].ready(slot);
                }
            }
            Reply::CloseProducer { producer } => {
                self.producers.iter_mut().filter(|known| known.key() == producer).for_each(Producer::closed);
            }
            Reply::ConsumerReady { request, slot, .. } => {
                if let Some(Request::Consumer(index, floor)) = self.requests.remove(&request) {
                    self.note(|| format!("consumer {index} is attached"));
                    self.consumer_ready(index, slot, floor);
                }
            }
            Reply::CloseConsumer { consumer } => {
                if let Some(index) = self.consumers.iter().position(|known| known.key == consumer) {
                    self.gone(index);
                }
            }
            Reply::Success { request } => match self.requests.remove(&request) {
                Some(Request::Seek(name, floor)) => {
                    self.tally.seeks += 1;
                    self.note(|| format!("{name} was moved to {floor}"));
                    let floor = self.bounded(floor);
                    if let Some(mirror) = self.mirrors.get_mut(name) {
                        mirror.moved(floor);
                    }
                }
                Some(Request::Unsubscribe(name, index)) => {
                    self.consumers[index].slot = None;
                    self.mirrors.remove(name);
                }
                _ => {}
            },
            Reply::Error { request, .. } => match self.requests.remove(&request) {
                Some(Request::Consumer(index, _)) => self.consumers[index].asking = false,
                Some(seek @ Request::Seek(..)) => self.uncertain_if_closed(seek),
                _ => {}
            },
            _ => {}
        }
        Ok(())
    }

    /// A seek that was refused before it began left the consumers where they are.
    fn uncertain_if_closed(&mut self, seek: Request) {
        let Request::Seek(name, _) = &seek else { return };
        if self.consumers.iter().all(|consumer| consumer.subscription != *name || consumer.slot.is_none()) {
            self.uncertain(seek);
        }
    }

    fn consumer_ready(&mut self, index: Index, slot: ConsumerSlot, floor: Option<Position>) {
        let consumer = &mut self.consumers[index];
        let name = consumer.subscription;
        (consumer.slot, consumer.asking, consumer.permits, consumer.writable) = (Some(slot), false, 0, true);
        let (_, kind, durable) = SUBSCRIPTIONS.into_iter().find(|(known, ..)| *known == name).expect("known");
        let floor = floor.unwrap_or(Position::EARLIEST).max(self.first());
        if !durable {
            // A reader that is late starts where the chain begins.
            self.mirrors.insert(name, Mirror::new(kind, false, floor));
        }
        self.mirrors.entry(name).or_insert_with(|| Mirror::new(kind, durable, floor));
    }

    /// Lets everything under way end, then looks whether anybody waits for something that is there.
    fn check_rest(&mut self, last: bool) -> Result<(), String> {
        for _ in 0..4 {
            self.owner.sync();
            self.owner.settle();
            self.listen()?;
            self.owner.wait(6_000);
        }
        self.owner.sync();
        self.owner.settle();
        self.listen()?;
        if self.owner.unload_reason.is_some() {
            return Ok(());
        }
        let stats = self.owner.topic.stats();
        for subscription in &stats.subscriptions {
            let Some(mirror) = self.mirrors.get(subscription.name.as_str()) else { continue };
            let attached = |consumer: &&Consumer| consumer.subscription == subscription.name && consumer.slot.is_some();
            for (index, consumer) in self.consumers.iter().enumerate().filter(|(_, consumer)| attached(consumer)) {
                let known = subscription.consumers.iter().find(|known| known.id == consumer.key.id).ok_or("a consumer is not counted")?;
                if known.available_permits != consumer.permits {
                    return Err(format!("consumer {index} has {} permits, the topic counts {}", consumer.permits, known.available_permits));
                }
                if mirror.is_shared() && known.unacked_messages != mirror.unacked(index) {
                    return Err(format!("consumer {index} holds {}, the topic counts {}", mirror.unacked(index), known.unacked_messages));
                }
                let over = mirror.is_shared() && self.is_over_a_limit(known.unacked_messages, subscription.unacked_messages);
                let takes = consumer.permits > 0 && consumer.writable && !over;
                if takes && subscription.backlog > mirror.held() as u64 {
                    let more = subscription.backlog - mirror.held() as u64;
                    return Err(format!("consumer {index} of {} has permits and {more} entries do not come", subscription.name));
                }
            }
        }
        if last { Ok(()) } else { self.check_nothing_lost() }
    }

    fn is_over_a_limit(&self, consumer: u64, subscription: u64) -> bool {
        let over = |limit: u32, count: u64| limit > 0 && count >= u64::from(limit);
        over(self.settings.max_unacked_per_consumer, consumer) || over(self.settings.max_unacked_per_subscription, subscription)
    }

    /// Everybody comes back, takes and acks everything; then nothing may be missing.
    fn come_to_rest(&mut self) -> Result<(), String> {
        self.calm = true;
        if self.refusing {
            self.toggle_refusal();
        }
        for _ in 0..400 {
            self.check_rest(true)?;
            if self.owner.unload_reason.is_some() {
                self.unload(true)?;
            }
            for index in 0..self.producers.len() {
                if self.producers[index].is_attached() { self.send(index)? } else { self.attach_producer(index)? }
            }
            for index in 0..self.consumers.len() {
                self.attach_this(index)?;
                self.drain(index)?;
            }
            if self.is_done() {
                break;
            }
        }
        if let Some(stuck) = self.producers.iter().position(|producer| producer.open() > 0) {
            return Err(format!("producer {stuck} waits for receipts for ever"));
        }
        for (name, mirror) in self.mirrors.iter().filter(|(name, _)| **name != "reader") {
            if let Some(missing) = mirror.missing(&self.acknowledged) {
                return Err(format!("{missing} never came to {name}"));
            }
        }
        self.owner.sync();
        self.crash()
    }

    fn drain(&mut self, index: Index) -> Result<(), String> {
        let consumer = &mut self.consumers[index];
        let (Some(slot), key, name) = (consumer.slot, consumer.key, consumer.subscription) else { return Ok(()) };
        consumer.writable = true;
        self.owner.call(|topic, turn| topic.set_writable(turn, key, slot, true));
        self.listen()?;
        self.flow_to(index, 50)?;
        let held = self.mirrors.get(name).map(|mirror| mirror.held_by(index)).unwrap_or_default();
        for at in held {
            if let Some(mirror) = self.mirrors.get_mut(name) {
                mirror.ack(at);
            }
            self.owner.call(|topic, turn| topic.ack(turn, Ack { key, slot, request: None, ids: AckIds::One(at) }));
            self.listen()?;
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        let stats = self.owner.topic.stats();
        self.producers.iter().all(|producer| producer.open() == 0)
            && stats.subscriptions.iter().all(|subscription| subscription.backlog == 0)
    }
}
