//! Who may produce: access modes, their epochs, and those who wait.

use proptest::prelude::*;
use topic::{AccessMode, AccessMode::*, AttachProducer, Reply, Topic};
use wire::ServerError;

use crate::client::{attach_producer, entry, publish, receipts, send};
use crate::sim::owner::{Owner, small_settings};

fn asks(id: u64, access: AccessMode) -> AttachProducer {
    AttachProducer { access, ..attach_producer(id, Some(&format!("producer-{id}"))) }
}

/// What a producer heard: `ready 1 under 4`, `waits 1`, `refused 1 ProducerBusy`, `closed 1`.
fn heard(owner: &mut Owner) -> Vec<String> {
    let word = |reply: Reply| match reply {
        Reply::ProducerReady { producer, topic_epoch: Some(epoch), .. } => format!("ready {} under {epoch}", producer.id),
        Reply::ProducerReady { producer, .. } => format!("ready {}", producer.id),
        Reply::ProducerWaiting { producer, .. } => format!("waits {}", producer.id),
        Reply::Error { request, error, .. } => format!("refused {} {error:?}", request - 100),
        Reply::CloseProducer { producer } => format!("closed {}", producer.id),
        Reply::Success { request } => format!("done {}", request - 1_000),
        other => panic!("unexpected {other:?}"),
    };
    owner.replies().into_iter().map(word).collect()
}

fn ask(owner: &mut Owner, attach: AttachProducer) -> Vec<String> {
    owner.call(|topic, turn| topic.attach_producer(turn, attach));
    owner.settle();
    heard(owner)
}

fn leaves(owner: &mut Owner, id: u64) -> Vec<String> {
    let key = attach_producer(id, None).key;
    owner.call(|topic, turn| topic.detach_producer(turn, key, Some(1_000 + id)));
    owner.settle();
    heard(owner)
}

#[test]
fn the_epoch_is_recorded_before_the_producer_is_let_in() {
    let mut owner = Owner::new(small_settings());
    owner.call(|topic, turn| topic.attach_producer(turn, asks(1, Exclusive)));
    assert_eq!(heard(&mut owner), [""; 0], "the record is not written");
    assert!(owner.finish_write());
    assert_eq!(heard(&mut owner), ["ready 1 under 0"]);
    owner.crash(0, 0);
    assert_eq!(ask(&mut owner, asks(2, Exclusive)), ["ready 2 under 1"], "also after a crash the next one is the next");
}

#[test]
fn an_epoch_that_cannot_be_recorded_lets_nobody_in() {
    let mut owner = Owner::new(small_settings());
    owner.call(|topic, turn| topic.attach_producer(turn, asks(1, Exclusive)));
    owner.call(|topic, turn| topic.attach_producer(turn, asks(2, WaitForExclusive)));
    assert!(owner.refuse_change());
    owner.call(Topic::unload);
    assert_eq!(heard(&mut owner), ["waits 2", "refused 1 ServiceNotReady", "refused 2 ServiceNotReady"]);
}

#[test]
fn while_one_is_being_let_in_others_see_it_as_there() {
    let mut owner = Owner::new(small_settings());
    owner.call(|topic, turn| topic.attach_producer(turn, asks(1, Exclusive)));
    owner.call(|topic, turn| topic.attach_producer(turn, asks(2, Shared)));
    owner.call(|topic, turn| topic.attach_producer(turn, asks(3, Exclusive)));
    owner.call(|topic, turn| topic.attach_producer(turn, asks(4, WaitForExclusive)));
    assert_eq!(heard(&mut owner), ["refused 2 ProducerBusy", "refused 3 ProducerFenced", "waits 4"]);
    owner.call(|topic, turn| topic.attach_producer(turn, asks(5, ExclusiveWithFencing)));
    assert_eq!(heard(&mut owner), ["refused 1 ProducerFenced", "refused 4 ProducerFenced"]);
    owner.settle();
    assert_eq!(heard(&mut owner), ["ready 5 under 1"]);
}

#[test]
fn one_that_leaves_while_it_is_being_let_in_makes_room() {
    let mut owner = Owner::new(small_settings());
    owner.call(|topic, turn| topic.attach_producer(turn, asks(1, Exclusive)));
    owner.call(|topic, turn| topic.attach_producer(turn, asks(2, WaitForExclusive)));
    assert_eq!(leaves(&mut owner, 1), ["waits 2", "done 1", "ready 2 under 1"]);
}

#[test]
fn one_that_waits_is_told_when_it_is_its_turn_and_can_leave_before() {
    let mut owner = Owner::new(small_settings());
    assert_eq!(ask(&mut owner, asks(1, Exclusive)), ["ready 1 under 0"]);
    for id in 2..5 {
        assert_eq!(ask(&mut owner, asks(id, WaitForExclusive)), [format!("waits {id}")]);
    }
    assert_eq!(owner.topic.stats().waiting_producers, 3);
    assert_eq!(leaves(&mut owner, 2), ["done 2"]);
    assert_eq!(leaves(&mut owner, 1), ["done 1", "ready 3 under 1"]);
    let key = asks(3, Shared).key;
    owner.call(|topic, turn| topic.detach_producer(turn, key, None));
    owner.settle();
    assert_eq!(heard(&mut owner), ["ready 4 under 2"], "a lost connection is as good as leaving");
}

#[test]
fn the_next_owner_comes_after_the_last_receipt_of_the_one_that_closes() {
    let mut owner = Owner::new(small_settings());
    owner.call(|topic, turn| topic.attach_producer(turn, asks(1, Exclusive)));
    owner.settle();
    let slot = match owner.replies().pop() {
        Some(Reply::ProducerReady { producer, slot, .. }) => crate::client::Producer { key: producer, slot },
        other => panic!("{other:?}"),
    };
    assert_eq!(ask(&mut owner, asks(2, WaitForExclusive)), ["waits 2"]);
    send(&mut owner, slot, 0, entry(1, 1));
    owner.call(|topic, turn| topic.detach_producer(turn, slot.key, Some(1_001)));
    assert_eq!(heard(&mut owner), [""; 0]);
    owner.settle();
    assert_eq!(receipts(&mut owner).len(), 1);
    assert_eq!(heard(&mut owner), ["done 1", "ready 2 under 1"]);
}

#[test]
fn an_owner_that_comes_back_keeps_its_epoch_until_another_has_had_one() {
    let mut owner = Owner::new(small_settings());
    assert_eq!(ask(&mut owner, asks(1, Exclusive)), ["ready 1 under 0"]);
    owner.unload_and_load();
    heard(&mut owner);
    let again = || AttachProducer { topic_epoch: Some(0), ..asks(1, Exclusive) };
    assert_eq!(ask(&mut owner, again()), ["ready 1 under 0"]);
    leaves(&mut owner, 1);
    assert_eq!(ask(&mut owner, asks(2, Exclusive)), ["ready 2 under 1"]);
    leaves(&mut owner, 2);
    assert_eq!(ask(&mut owner, again()), ["refused 1 ProducerFenced"]);
}

#[test]
fn an_owner_over_a_new_connection_takes_its_own_place() {
    let mut owner = Owner::new(small_settings());
    let nameless = AttachProducer { name: None, user_provided_name: false, ..asks(1, Exclusive) };
    owner.call(|topic, turn| topic.attach_producer(turn, nameless.clone()));
    owner.settle();
    let Some(Reply::ProducerReady { name, .. }) = owner.replies().pop() else { panic!("not let in") };
    let mut back = AttachProducer { name: Some(name.clone()), epoch: 1, topic_epoch: Some(0), ..nameless };
    back.key.connection.generation += 1;
    assert_eq!(ask(&mut owner, back.clone()), ["ready 1 under 0"], "the broker had not noticed that the old connection is dead");
    let named = AttachProducer { user_provided_name: true, epoch: 2, key: asks(9, Exclusive).key, ..back };
    owner.call(|topic, turn| topic.attach_producer(turn, named));
    let busy = owner.replies().pop();
    assert!(matches!(busy, Some(Reply::Error { error: ServerError::ProducerBusy, .. })), "it may try again: {busy:?}");
}

#[test]
fn whoever_was_thrown_out_publishes_nothing_more() {
    let mut owner = Owner::new(small_settings());
    let out = crate::client::producer(&mut owner, 1);
    publish(&mut owner, out, 2);
    assert_eq!(ask(&mut owner, asks(2, ExclusiveWithFencing)), ["closed 1", "ready 2 under 0"]);
    send(&mut owner, out, 2, entry(1, 1));
    owner.settle();
    assert_eq!(receipts(&mut owner), []);
    assert_eq!(owner.topic.stats().storage_entries, 2);
    assert_eq!(ask(&mut owner, asks(1, Shared)), ["refused 1 ProducerBusy"]);
}

/// The table of access modes as it is written down, without a thought for storage.
#[derive(Default)]
struct Model {
    attached: Vec<u64>,
    owned: bool,
    waiting: Vec<u64>,
    epoch: Option<u64>,
}

impl Model {
    fn ask(&mut self, id: u64, access: AccessMode, epoch: Option<u64>) -> Vec<String> {
        let (owner, shared) = (self.owned, !self.owned && !self.attached.is_empty());
        if access != Shared && epoch.is_some_and(|epoch| self.epoch.is_some_and(|now| epoch < now)) {
            return vec![format!("refused {id} ProducerFenced")];
        }
        match access {
            Shared if owner || !self.waiting.is_empty() => vec![format!("refused {id} ProducerBusy")],
            Shared => {
                self.attached.push(id);
                vec![format!("ready {id}")]
            }
            Exclusive if owner || shared || !self.waiting.is_empty() => vec![format!("refused {id} ProducerFenced")],
            WaitForExclusive if owner || shared || !self.waiting.is_empty() => {
                self.waiting.push(id);
                vec![format!("waits {id}")]
            }
            _ => {
                let mut said: Vec<String> = self.waiting.drain(..).map(|id| format!("refused {id} ProducerFenced")).collect();
                said.extend(self.attached.drain(..).map(|id| format!("closed {id}")));
                said.push(self.own(id, epoch));
                said
            }
        }
    }

    fn own(&mut self, id: u64, epoch: Option<u64>) -> String {
        self.epoch = Some(epoch.unwrap_or(self.epoch.map_or(0, |epoch| epoch + 1)));
        (self.attached, self.owned) = (vec![id], true);
        format!("ready {id} under {}", self.epoch.unwrap_or_default())
    }

    fn leaves(&mut self, id: u64) -> Vec<String> {
        let mut said = vec![format!("done {id}")];
        self.waiting.retain(|other| *other != id);
        self.attached.retain(|other| *other != id);
        if self.attached.is_empty() {
            self.owned = false;
            if !self.waiting.is_empty() {
                let next = self.waiting.remove(0);
                said.push(self.own(next, None));
            }
        }
        said
    }

    fn unloads(&mut self) -> Vec<String> {
        self.owned = false;
        let mut said: Vec<String> = self.waiting.drain(..).map(|id| format!("refused {id} ServiceNotReady")).collect();
        said.extend(self.attached.drain(..).map(|id| format!("closed {id}")));
        said
    }
}

proptest! {
    #[test]
    fn access_is_as_the_table_says(steps in proptest::collection::vec((0u8..10, 0usize..4, 0u64..12, proptest::option::weighted(0.3, 0u64..4)), 1..60)) {
        let mut owner = Owner::new(small_settings());
        let mut model = Model::default();
        for (next, (what, mode, whom, back)) in (1u64..).zip(steps) {
            let (expected, said) = match what {
                0..6 => {
                    let access = [Shared, Exclusive, WaitForExclusive, ExclusiveWithFencing][mode];
                    let epoch = back.and_then(|back| model.epoch.and_then(|epoch| epoch.checked_sub(back)));
                    (model.ask(next, access, epoch), ask(&mut owner, AttachProducer { topic_epoch: epoch, ..asks(next, access) }))
                }
                6..9 => {
                    let known: Vec<u64> = model.attached.iter().chain(&model.waiting).copied().collect();
                    let id = known.get(whom as usize % known.len().max(1)).copied().unwrap_or(1_000);
                    (model.leaves(id), leaves(&mut owner, id))
                }
                _ => {
                    owner.unload_and_load();
                    (model.unloads(), heard(&mut owner))
                }
            };
            let sorted = |mut said: Vec<String>| { said.sort(); said };
            prop_assert_eq!(sorted(expected), sorted(said));
            prop_assert_eq!(owner.topic.producers(), model.attached.len());
        }
    }
}
