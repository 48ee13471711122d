//! `kill -9` again and again under load. Receipts are promises; the books in the test's own process say whether they were kept.
//!
//! The page cache survives a `kill -9`, so this shows that a receipt is not given before the bytes have left the process and that recovery
//! finds them. That they are on the disk is shown by the crash-point test of the log.

use std::{
    collections::HashSet,
    io::{Write, stdout},
    time::{Duration, Instant},
};

use client::{
    Client, Consumer, ConsumerOptions, Inbox, Item, Message, Options, Producer, ProducerOptions, Receipt, Receipts, Start,
    SubscriptionType, TrySendError,
};
use geminga_tests::{
    audit::{Audit, checksum, payload},
    harness::{Broker, PATIENCE, soon},
};
use tokio::task::JoinSet;

/// How much is done.
struct Plan {
    rounds: u32,
    topics: usize,
    /// Topics whose messages are never acknowledged, so that each round reads them all again.
    kept: usize,
    load: std::ops::Range<u64>,
}

const SHORT: Plan = Plan { rounds: 8, topics: 100, kept: 2, load: 30..500 };
const LONG: Plan = Plan { rounds: 200, topics: 1000, kept: 4, load: 30..1500 };

/// Bytes on their way at most, so that a kill meets a broker at work and not a client's queue.
const BYTES_UNDER_WAY: usize = 8 << 20;
const MESSAGES_UNDER_WAY: usize = 2000;

#[tokio::test]
async fn nothing_acknowledged_is_lost_by_killing_the_broker() {
    let plan = if std::env::var_os("GEMINGA_LONG").is_some() { LONG } else { SHORT };
    let plan = Plan { rounds: from_environment("GEMINGA_ROUNDS").unwrap_or(plan.rounds), ..plan };
    let seed = from_environment("GEMINGA_SEED").unwrap_or_else(|| fastrand::u64(..));
    let mut run = Run { audit: Audit::new(plan.topics), random: fastrand::Rng::with_seed(seed), plan, unavailable: Duration::ZERO };
    let mut broker = Broker::start();
    let mut is_complete = true;
    for _ in 0..run.plan.rounds {
        is_complete = run.round(&mut broker).await;
        if !is_complete {
            break;
        }
    }
    is_complete = is_complete && Session::open(&broker, &run).await.read_everything(&mut run).await;
    let verdict = run.audit.verdict();
    // Past the test's capture of output: this line is what the run is for.
    writeln!(stdout(), "{verdict} unavailable_ms={}", run.unavailable.as_millis()).expect("printed");
    assert!(verdict.is_clean() && is_complete, "{verdict} (GEMINGA_SEED={seed})");
    assert!(verdict.acked > u64::from(run.plan.rounds) * 10, "hardly anything was acknowledged: {verdict}");
    let kept = read_again(&broker, &run).await;
    assert!(kept.verdict().is_clean(), "a second reading of what was kept: {} (GEMINGA_SEED={seed})", kept.verdict());
}

fn from_environment<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

/// Reads the topics that were never acknowledged once more, from the first message of the first round on.
async fn read_again(broker: &Broker, run: &Run) -> Audit {
    let mut audit = run.audit.unread(run.plan.kept);
    let client = Client::new(broker.url(), Options::without_reconnect()).expect("a URL");
    for topic in 0..run.plan.kept {
        let name = format!("topic-{topic}");
        let reader = client.consumer(&name, ConsumerOptions::reader(Start::Earliest));
        let reader = soon("a reader", reader).await.expect("a reader");
        let last = soon("an answer", reader.last_message()).await.expect("the last message").id;
        loop {
            let message = soon("the next message kept", reader.recv()).await.expect("a message");
            audit.seen(topic, &message.payload);
            if message.id >= last {
                break;
            }
        }
    }
    audit
}

struct Run {
    plan: Plan,
    audit: Audit,
    random: fastrand::Rng,
    /// The longest from a kill until the broker was ready again.
    unavailable: Duration,
}

impl Run {
    /// False, and no kill, when something acknowledged is missing.
    async fn round(&mut self, broker: &mut Broker) -> bool {
        let mut session = Session::open(broker, self).await;
        if !session.read_everything(self).await {
            return false;
        }
        session.load(self).await;
        broker.kill();
        let killed = Instant::now();
        session.bury(self).await;
        broker.restart();
        self.unavailable = self.unavailable.max(killed.elapsed());
        true
    }

    fn size(&mut self) -> usize {
        match self.random.u32(..100) {
            0..80 => 128,
            80..99 => 1 << 10,
            _ => 1 << 20,
        }
    }

    fn seen(&mut self, message: &client::Received) {
        let topic = usize::try_from(message.consumer()).expect("a topic's number");
        self.audit.seen(topic, &message.payload);
        // Some are left unacknowledged each time, so that cursors have holes to remember.
        if topic >= self.plan.kept && self.random.u32(..20) > 0 {
            message.ack();
        }
    }
}

/// Producers and consumers of every topic, from one start of the broker to its end.
struct Session {
    producers: Vec<Producer>,
    consumers: Vec<Consumer>,
    receipts: Receipts,
    inbox: Inbox,
    messages_under_way: usize,
    bytes_under_way: usize,
    unsettled: HashSet<(u64, u64)>,
}

impl Session {
    async fn open(broker: &Broker, run: &Run) -> Self {
        let (receipts, inbox) = (Receipts::new(), Inbox::new());
        let sending = Client::new(broker.url(), Options::without_reconnect()).expect("a URL");
        let receiving = Client::new(broker.url(), Options::without_reconnect()).expect("a URL");
        let (mut producers, mut consumers) = (JoinSet::new(), JoinSet::new());
        for topic in 0..run.plan.topics {
            let options = ProducerOptions {
                name: Some(format!("producer-{topic}")),
                first_sequence: Some(run.audit.next_sequence(topic)),
                receipts: receipts.clone(),
                tag: topic as u64,
                max_pending: 100,
                ..ProducerOptions::default()
            };
            let client = sending.clone();
            producers.spawn(async move { (topic, client.producer(&format!("topic-{topic}"), options).await.expect("a producer")) });
            let kind = if topic % 2 == 0 { SubscriptionType::Exclusive } else { SubscriptionType::Shared };
            let options = ConsumerOptions { kind, inbox: inbox.clone(), tag: topic as u64, ..ConsumerOptions::new("audit") };
            let client = receiving.clone();
            consumers.spawn(async move { (topic, client.consumer(&format!("topic-{topic}"), options).await.expect("a consumer")) });
        }
        let producers = soon("all producers", producers.join_all()).await;
        let consumers = soon("all consumers", consumers.join_all()).await;
        Self {
            producers: by_topic(producers),
            consumers: by_topic(consumers),
            receipts,
            inbox,
            messages_under_way: 0,
            bytes_under_way: 0,
            unsettled: HashSet::new(),
        }
    }

    /// Reads until nothing acknowledged is missing. False when something is and nothing more comes: then it is lost, which the verdict counts.
    async fn read_everything(&mut self, run: &mut Run) -> bool {
        let mut items = Vec::new();
        while run.audit.missing() > 0 {
            if tokio::time::timeout(PATIENCE, self.inbox.next_many(&mut items, 1000)).await.is_err() {
                return false;
            }
            self.note(run, &mut items);
        }
        true
    }

    /// Publishes and consumes for a random time.
    async fn load(&mut self, run: &mut Run) {
        let time = Duration::from_millis(run.random.u64(run.plan.load.clone()));
        let end = tokio::time::sleep(time);
        tokio::pin!(end);
        let (mut got, mut items) = (Vec::new(), Vec::new());
        loop {
            let has_room = self.bytes_under_way < BYTES_UNDER_WAY && self.messages_under_way < MESSAGES_UNDER_WAY;
            tokio::select! {
                () = &mut end => return,
                () = self.receipts.next(&mut got) => self.settle(run, &mut got),
                () = self.inbox.next_many(&mut items, 100) => self.note(run, &mut items),
                () = tokio::task::yield_now(), if has_room => (0..32).for_each(|_| self.send(run)),
            }
        }
    }

    fn send(&mut self, run: &mut Run) {
        let topic = run.random.usize(..run.plan.topics);
        let sequence = run.audit.next_sequence(topic);
        let payload = payload(u32::try_from(topic).expect("few topics"), sequence, run.size());
        let (size, sum) = (payload.len(), checksum(&payload));
        match self.producers[topic].try_send(Message::new(payload), size as u64) {
            Ok(sent) => {
                assert_eq!(sent, sequence);
                run.audit.sent(topic, sequence, sum);
                self.unsettled.insert((topic as u64, sequence));
                self.messages_under_way += 1;
                self.bytes_under_way += size;
            }
            Err(TrySendError::Full(_)) => {}
            Err(TrySendError::Failed(error)) => panic!("the broker ended a producer by itself: {error}"),
        }
    }

    fn settle(&mut self, run: &mut Run, got: &mut Vec<Receipt>) {
        for receipt in got.drain(..) {
            self.messages_under_way -= 1;
            self.bytes_under_way -= usize::try_from(receipt.token).expect("a size");
            assert!(self.unsettled.remove(&(receipt.producer, receipt.sequence)), "a second receipt for {receipt:?}");
            if receipt.outcome.is_ok() {
                run.audit.acked(usize::try_from(receipt.producer).expect("a topic's number"), receipt.sequence);
            }
        }
    }

    fn note(&self, run: &mut Run, items: &mut Vec<Item>) {
        for item in items.drain(..) {
            if let Item::Message(message) = item {
                run.seen(&message);
            }
        }
    }

    /// After a kill: what had reached this process before counts, receipts above all.
    async fn bury(mut self, run: &mut Run) {
        let mut got = Vec::new();
        while self.messages_under_way > 0 {
            soon("the fate of every message", self.receipts.next(&mut got)).await;
            self.settle(run, &mut got);
        }
        while let Some(item) = self.inbox.try_next() {
            self.note(run, &mut vec![item]);
        }
        drop(self.consumers);
    }
}

fn by_topic<T>(mut endpoints: Vec<(usize, T)>) -> Vec<T> {
    endpoints.sort_unstable_by_key(|(topic, _)| *topic);
    endpoints.into_iter().map(|(_, endpoint)| endpoint).collect()
}
