//! The gateways: each is a client of its own, with a connection for lookups and one for what it sends. A few threads drive
//! them all; a thread owns its gateways and its share of the devices, and is told what to do by orders.

pub mod precreate;
mod returns;
mod worker;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
};

use anyhow::Context;
use tokio::sync::{mpsc, oneshot};

use self::worker::Worker;
use crate::{devices::Dealt, reading::Clock, recorder::Recorded, scenario::Scenario, tracker::Numbers};

/// What all threads are given.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The scenario.
    pub scenario: Arc<Scenario>,
    /// Where the broker is.
    pub service_url: Arc<str>,
    /// How each client behaves, whom it believes and who it says it is.
    pub client: client::Options,
    /// Begins the topics' names: `persistent://tenant/namespace/`.
    pub prefix: Arc<str>,
    /// From which everything random is derived.
    pub seed: u64,
    /// The run's clock.
    pub clock: Clock,
}

impl Plan {
    /// The name of a topic.
    #[must_use]
    pub fn topic(&self, topic: usize) -> String {
        format!("{}telemetry-{topic}", self.prefix)
    }

    pub(crate) fn dealt(&self) -> Dealt {
        Dealt { devices: self.scenario.devices.count, topics: self.scenario.topics, threads: self.scenario.client.gateway_threads }
    }
}

/// What a thread counts where everybody can see it.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) sent: AtomicU64,
    pub(crate) published: AtomicU64,
    pub(crate) failed: AtomicU64,
}

/// A stretch of sending.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// When it begins, on the run's clock.
    pub start: u64,
    /// Messages a second, if that is limited.
    pub rate: Option<f64>,
    /// Messages after which it ends.
    pub messages: Option<u64>,
    /// When it ends, on the run's clock.
    pub until: Option<u64>,
    /// Whether it is the measured window.
    pub is_measured: bool,
}

impl Round {
    /// The part of one of so many threads.
    fn share(self, thread: usize, threads: usize) -> Self {
        let (thread, threads) = (thread as u64, threads as u64);
        let messages = self.messages.map(|all| all / threads + u64::from(thread < all % threads));
        Self { messages, rate: self.rate.map(|rate| rate / threads as f64), ..self }
    }
}

/// When a gateway came back to a broker that was gone, on the run's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Return {
    /// The broker had taken all its producers.
    pub attached: Option<u64>,
    /// It got its first receipt.
    pub published: Option<u64>,
}

enum Order {
    /// Create the producer in this place; the answer comes when it is there.
    Create(usize, oneshot::Sender<Result<(), client::Error>>),
    /// Send. The first answer comes when nothing more is sent, the second when all receipts are there.
    Send(Round, oneshot::Sender<u64>, oneshot::Sender<()>),
    /// Give up what has no receipt yet, and send nothing more.
    GiveUp,
    /// The broker is gone: note from now on when each gateway comes back.
    WatchReturns,
    /// Answer when each came back, in the order of the thread's gateways.
    TellReturns(oneshot::Sender<Vec<Return>>),
    /// Close everything and end.
    Close(oneshot::Sender<Ended>),
}

/// What a thread leaves behind.
struct Ended {
    recorded: Recorded,
    /// Next numbers of its own devices.
    numbers: Vec<u32>,
    problem: Option<String>,
}

/// What all gateways leave behind.
#[derive(Debug)]
pub struct Sent {
    /// How many readings each device sent.
    pub numbers: Numbers,
    /// Publish latencies, by thread.
    pub recorded: Vec<Recorded>,
    /// Why sends failed; one line a thread.
    pub problems: Vec<String>,
}

/// All gateways. Dropping this ends them.
pub struct Gateways {
    plan: Plan,
    threads: Vec<Thread>,
}

struct Thread {
    orders: mpsc::UnboundedSender<Order>,
    counters: Arc<Counters>,
    handle: Option<thread::JoinHandle<()>>,
}

/// A round that is being sent.
pub struct Sending {
    stopped: Vec<oneshot::Receiver<u64>>,
    drained: Vec<oneshot::Receiver<()>>,
}

impl Gateways {
    /// Starts the threads. Nothing connects yet.
    ///
    /// # Errors
    /// The system has no more threads.
    pub fn start(plan: &Plan) -> anyhow::Result<Self> {
        let start = |number| {
            let (orders, received) = mpsc::unbounded_channel();
            let counters = Arc::new(Counters::default());
            let worker = (plan.clone(), counters.clone());
            let handle = thread::Builder::new()
                .name(format!("gateways-{number}"))
                .spawn(move || Worker::run(worker.0, number, received, worker.1))
                .context("a thread for gateways cannot be started")?;
            Ok(Thread { orders, counters, handle: Some(handle) })
        };
        let threads = (0..plan.scenario.client.gateway_threads).map(start).collect::<anyhow::Result<_>>()?;
        Ok(Self { plan: plan.clone(), threads })
    }

    /// Creates all producers, as many at a time as the scenario says. A gateway whose turn comes first connects first.
    ///
    /// # Errors
    /// The first failure, when all that were started have completed.
    pub async fn precreate(&self) -> Result<(), client::Error> {
        let scenario = &self.plan.scenario;
        let each = scenario.topics_each();
        let concurrency = scenario.gateways.producer.precreate_concurrency;
        let order = precreate::order(scenario.gateways.count * each, concurrency);
        let threads = self.threads.len();
        precreate::create(&order, concurrency, |producer| {
            let (gateway, topic) = (producer / each, producer % each);
            let (done, is_done) = oneshot::channel();
            self.order(gateway % threads, Order::Create(gateway / threads * each + topic, done));
            async move { is_done.await.unwrap_or(Err(GONE)) }
        })
        .await
    }

    /// Sends a round.
    #[must_use]
    pub fn send(&self, round: Round) -> Sending {
        let mut sending = Sending { stopped: Vec::new(), drained: Vec::new() };
        for number in 0..self.threads.len() {
            let ((stopped, has_stopped), (drained, is_drained)) = (oneshot::channel(), oneshot::channel());
            self.order(number, Order::Send(round.share(number, self.threads.len()), stopped, drained));
            sending.stopped.push(has_stopped);
            sending.drained.push(is_drained);
        }
        sending
    }

    /// Sends nothing more and waits for no receipts.
    pub fn give_up(&self) {
        (0..self.threads.len()).for_each(|number| self.order(number, Order::GiveUp));
    }

    /// The broker is gone and not there again: notes from now on when each gateway comes back.
    pub fn watch_returns(&self) {
        (0..self.threads.len()).for_each(|number| self.order(number, Order::WatchReturns));
    }

    /// When each gateway came back since it was watched for.
    pub async fn returns(&self) -> Vec<Return> {
        let mut all = Vec::new();
        for number in 0..self.threads.len() {
            let (tell, told) = oneshot::channel();
            self.order(number, Order::TellReturns(tell));
            all.extend(told.await.unwrap_or_default());
        }
        all
    }

    /// Messages sent, with or without a receipt.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.threads.iter().map(|thread| thread.counters.sent.load(Relaxed)).sum()
    }

    /// Messages with a receipt.
    #[must_use]
    pub fn published(&self) -> u64 {
        self.threads.iter().map(|thread| thread.counters.published.load(Relaxed)).sum()
    }

    /// Messages whose sending failed.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.threads.iter().map(|thread| thread.counters.failed.load(Relaxed)).sum()
    }

    /// Closes all producers and ends the threads.
    pub async fn close(mut self) -> Sent {
        let mut sent = Sent { numbers: Numbers(vec![0; self.plan.scenario.devices.count]), recorded: Vec::new(), problems: Vec::new() };
        let dealt = self.plan.dealt();
        for number in 0..self.threads.len() {
            let (ended, has_ended) = oneshot::channel();
            self.order(number, Order::Close(ended));
            match has_ended.await {
                Ok(ended) => {
                    dealt.gather(number, &ended.numbers, &mut sent.numbers.0);
                    sent.recorded.push(ended.recorded);
                    sent.problems.extend(ended.problem);
                }
                Err(_) => sent.problems.push(format!("the thread gateways-{number} ended by itself")),
            }
        }
        for handle in self.threads.iter_mut().filter_map(|thread| thread.handle.take()) {
            let _ = handle.join();
        }
        sent
    }

    fn order(&self, number: usize, order: Order) {
        // A thread that has ended is noticed by the answer that does not come.
        let _ = self.threads[number].orders.send(order);
    }
}

const GONE: client::Error = client::Error::Closed { what: "the gateways' thread", reason: "it ended" };

impl Sending {
    /// Waits until nothing more is sent; says when the last thread stopped.
    ///
    /// # Errors
    /// A thread ended by itself.
    pub async fn stopped(&mut self) -> anyhow::Result<u64> {
        let mut last = 0;
        while let Some(stopped) = self.stopped.last_mut() {
            last = last.max(stopped.await.context("a thread of gateways ended by itself")?);
            self.stopped.pop();
        }
        Ok(last)
    }

    /// Waits until every message has its receipt, or never will.
    ///
    /// # Errors
    /// A thread ended by itself.
    pub async fn drained(&mut self) -> anyhow::Result<()> {
        while let Some(drained) = self.drained.last_mut() {
            drained.await.context("a thread of gateways ended by itself")?;
            self.drained.pop();
        }
        Ok(())
    }
}
