//! A crowd that acks single messages of batches, gives some back, forgets some, closes and comes back, on few event loops: nothing
//! stops, no ack is forgotten, and permits and unacked counts are exact in the end.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet, VecDeque},
    rc::Rc,
    time::{Duration, Instant},
};

use client::{Client, Consumer, ConsumerOptions, Received};
use geminga_tests::harness::{Broker, PATIENCE, Setup, eventually, soon};

use crate::talk::{by_hand, consume, plain, produce, publish_batch, settle, text};

const BATCHES: usize = 300;
const BATCH: usize = 20;
const MEMBERS: u64 = 8;

/// What all members know.
#[derive(Default)]
struct Crowd {
    /// Acked by somebody.
    acked: RefCell<BTreeSet<usize>>,
    /// Acked by the consumer that held it, which knows that it is: the redelivery count it had then.
    confirmed: RefCell<BTreeMap<usize, u32>>,
    redelivered: Cell<u64>,
    came_back: Cell<u64>,
}

impl Crowd {
    fn is_calm(&self) -> bool {
        self.acked.borrow().len() >= BATCHES * BATCH * 9 / 10
    }

    fn is_done(&self) -> bool {
        self.acked.borrow().len() == BATCHES * BATCH
    }
}

/// One consumer, over all its lives.
struct Member {
    crowd: Rc<Crowd>,
    client: Rc<Client>,
    random: fastrand::Rng,
    consumer: Consumer,
    granted: i64,
    got: i64,
    /// Taken from the consumer's inbox, not yet looked at.
    inbox: VecDeque<Received>,
    /// What this life gave back: entries, and the highest redelivery count that this may have concerned.
    returned: BTreeMap<(u64, u64), u32>,
}

fn entry_of(message: &Received) -> (u64, u64) {
    (message.id.ledger, message.id.entry)
}

async fn attach(client: &Client) -> Consumer {
    let options = by_hand(ConsumerOptions { batch_index_acks: true, ..ConsumerOptions::shared("s") });
    consume(client, "t", options).await
}

impl Member {
    async fn new(crowd: &Rc<Crowd>, client: &Rc<Client>, seed: u64) -> Self {
        let (random, consumer) = (fastrand::Rng::with_seed(seed), attach(client).await);
        Self {
            crowd: crowd.clone(),
            client: client.clone(),
            random,
            consumer,
            granted: 0,
            got: 0,
            inbox: VecDeque::new(),
            returned: BTreeMap::new(),
        }
    }

    /// Lives until everything is acked.
    async fn live(mut self, deadline: Instant) -> Self {
        let mut was_calm = false;
        let mut until_closing = 200;
        while !self.crowd.is_done() {
            assert!(Instant::now() < deadline, "it stopped with {} messages acked", self.crowd.acked.borrow().len());
            if self.granted - self.got < 30 {
                self.grant();
            }
            let calm = self.crowd.is_calm();
            // What it has forgotten goes to whoever is there.
            if until_closing == 0 || (calm && !was_calm) {
                self.come_back().await;
                until_closing = self.random.u32(50..400);
            }
            was_calm = calm;
            if self.inbox.is_empty()
                && let Ok(message) = tokio::time::timeout(Duration::from_millis(5), self.consumer.recv()).await
            {
                self.took(message.expect("a message"));
            }
            if let Some(message) = self.inbox.pop_front() {
                self.treat(&message, calm).await;
                until_closing -= u32::from(!calm);
            }
        }
        self
    }

    fn grant(&mut self) {
        let permits = self.random.u32(1..100);
        self.consumer.flow(permits);
        self.granted += i64::from(permits);
    }

    fn took(&mut self, message: Received) {
        self.got += 1;
        self.inbox.push_back(message);
    }

    /// Gives an entry back. What was sent to this consumer until then has come when the broker has answered.
    async fn give_back(&mut self, message: &Received) {
        self.consumer.nack(&[message.id]);
        settle(&self.consumer).await;
        while let Some(message) = self.consumer.try_recv() {
            self.took(message);
        }
        let entry = entry_of(message);
        let here = self.inbox.iter().filter(|other| entry_of(other) == entry).map(|other| other.redelivery_count);
        self.returned.insert(entry, here.max().unwrap_or(0).max(message.redelivery_count));
    }

    async fn come_back(&mut self) {
        let old = std::mem::replace(&mut self.consumer, attach(&self.client).await);
        soon("closing", old.close()).await.expect("closed");
        (self.granted, self.got) = (0, 0);
        self.inbox.clear();
        self.returned.clear();
        self.crowd.came_back.set(self.crowd.came_back.get() + 1);
    }

    async fn treat(&mut self, message: &Received, calm: bool) {
        let number: usize = text(message).parse().expect("a number");
        let again = message.redelivery_count;
        self.crowd.redelivered.set(self.crowd.redelivered.get() + u64::from(again > 0));
        if let Some(then) = self.crowd.confirmed.borrow().get(&number) {
            assert!(again <= *then, "{number} was acked by its holder, confirmed, and came again");
        }
        match self.random.u32(0..10) {
            0..=1 if !calm => self.give_back(message).await,
            2 if !calm => {}
            3..=5 => {
                let is_held = self.returned.get(&entry_of(message)).is_none_or(|given_back| again > *given_back);
                self.consumer.ack(message);
                // The answer comes after the ack was dealt with.
                soon("an answer", self.consumer.last_message()).await.expect("answered");
                self.crowd.acked.borrow_mut().insert(number);
                if is_held {
                    self.crowd.confirmed.borrow_mut().insert(number, again);
                }
            }
            _ => {
                self.consumer.ack(message);
                self.crowd.acked.borrow_mut().insert(number);
            }
        }
    }

    /// What the broker thinks of this consumer when everything has been said.
    async fn check(&mut self) {
        // Whole batches may have been sent for the last permits; with more of them the number told is never negative.
        self.consumer.flow(1_000);
        self.granted += 1_000;
        settle(&self.consumer).await;
        let stats = soon("stats", self.consumer.stats()).await.expect("stats");
        let got = self.got + i64::try_from(self.consumer.waiting()).expect("few");
        assert_eq!(stats.available_permits().cast_signed(), self.granted - got, "permits left, of {} granted and {got} used", self.granted);
        assert_eq!(stats.unacked_messages(), 0);
    }
}

#[tokio::test]
async fn acks_of_single_messages_race_with_redelivery_and_leave_nothing_behind() {
    for loops in [1, 2] {
        let broker = Setup::default().set("numIOThreads", loops).set("acknowledgmentAtBatchIndexLevelEnabled", true).start();
        tokio::task::LocalSet::new().run_until(churn(&broker, loops)).await;
    }
}

async fn churn(broker: &Broker, loops: u32) {
    let (crowd, began) = (Rc::new(Crowd::default()), Instant::now());
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(Rc::new(plain(broker).await));
    }
    let mut living = Vec::new();
    for (seed, client) in (0..MEMBERS).zip(clients.iter().cycle()) {
        let member = Member::new(&crowd, client, seed).await;
        living.push(tokio::task::spawn_local(member.live(began + PATIENCE)));
    }
    let producer = produce(&clients[0], "t").await;
    for batch in 0..BATCHES {
        publish_batch(&producer, batch * BATCH, BATCH).await;
    }
    let mut members = Vec::new();
    for life in living {
        members.push(life.await.expect("a life without violations"));
    }
    eventually("no backlog", || async { soon("stats", members[0].consumer.stats()).await.expect("stats").msg_backlog() == 0 }).await;
    for member in &mut members {
        member.check().await;
    }
    let (redelivered, came_back) = (crowd.redelivered.get(), crowd.came_back.get());
    let (count, confirmed, took) = (BATCHES * BATCH, crowd.confirmed.borrow().len(), began.elapsed().as_secs_f64());
    assert!(redelivered > 1_000 && came_back > MEMBERS, "too quiet: {redelivered} redelivered, {came_back} came back");
    eprintln!(
        "{loops} loops: {count} messages in {took:.2} s, {redelivered} redelivered, {came_back} times closed and back; \
         {confirmed} acks confirmed to who held the message, none forgotten"
    );
}
