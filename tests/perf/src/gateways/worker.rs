//! One thread of gateways: creates producers when told, sends what is due, and lets the next message go when a receipt came.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use client::{Client, Producer, ProducerOptions, Receipt, Receipts, TrySendError};
use fastrand::Rng;
use tokio::sync::{mpsc, oneshot};

use super::{
    Counters, Ended, Order, Plan, Round,
    returns::{self, Returns},
};
use crate::{
    devices::Devices,
    pace::{Alarm, Schedule},
    reading::{Reading, Speller},
    recorder::Recorder,
};

pub(super) struct Worker {
    plan: Plan,
    counters: Arc<Counters>,
    orders: mpsc::UnboundedReceiver<Order>,
    created: mpsc::UnboundedReceiver<(usize, Producer)>,
    creates: mpsc::UnboundedSender<(usize, Producer)>,
    /// Numbers of this thread's gateways; a gateway's place here is its number among all, divided by the number of threads.
    gateways: Vec<usize>,
    clients: Vec<Client>,
    /// By gateway, then by the topics that it serves.
    producers: Vec<Option<Producer>>,
    each: usize,
    receipts: Receipts,
    devices: Devices,
    speller: Speller,
    recorder: Recorder,
    rng: Rng,
    alarm: Alarm,
    /// Sends without a receipt, and how many there may be.
    in_flight: usize,
    window: usize,
    /// Messages of one send.
    burst: u32,
    round: Option<Running>,
    returns: Option<Returns>,
    problem: Option<String>,
}

/// A round that is under way.
struct Running {
    schedule: Option<Schedule>,
    /// Messages that may still be sent.
    left: u64,
    until: u64,
    stopped: Option<oneshot::Sender<u64>>,
    drained: Option<oneshot::Sender<()>>,
}

/// A receipt's token is the device above the time at which its message was due.
const TIME_BITS: u32 = 40;

impl Worker {
    pub(super) fn run(plan: Plan, number: usize, orders: mpsc::UnboundedReceiver<Order>, counters: Arc<Counters>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime for gateways");
        runtime.block_on(async move { Self::new(plan, number, orders, counters).serve().await });
    }

    fn new(plan: Plan, number: usize, orders: mpsc::UnboundedReceiver<Order>, counters: Arc<Counters>) -> Self {
        let scenario = plan.scenario.clone();
        let threads = scenario.client.gateway_threads;
        let gateways: Vec<usize> = (number..scenario.gateways.count).step_by(threads).collect();
        let clients = gateways.iter().map(|_| Client::new(&plan.service_url, plan.client.clone()).expect("URL and files were checked"));
        let clients = clients.collect();
        let (creates, created) = mpsc::unbounded_channel();
        let each = scenario.topics_each();
        let burst = u32::try_from(scenario.devices.burst).expect("bursts are checked");
        Self {
            counters,
            orders,
            created,
            creates,
            clients,
            producers: std::iter::repeat_with(|| None).take(gateways.len() * each).collect(),
            each,
            receipts: Receipts::new(),
            devices: Devices::new(plan.dealt(), number, plan.seed),
            speller: Speller::new(scenario.message.bytes),
            recorder: Recorder::new(1),
            rng: Rng::with_seed(plan.seed ^ 0x6761_7465 ^ (number as u64) << 32),
            alarm: Alarm::new().expect("a timer for gateways"),
            in_flight: 0,
            window: (scenario.load.max_in_flight / scenario.devices.burst * gateways.len() / scenario.gateways.count).max(1),
            burst,
            round: None,
            returns: None,
            problem: None,
            gateways,
            plan,
        }
    }

    async fn serve(mut self) {
        let mut receipts = Vec::with_capacity(4096);
        let receives = self.receipts.clone();
        loop {
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    None => return,
                    Some(Order::Close(ended)) => return self.close(ended).await,
                    Some(order) => self.obey(order).await,
                },
                () = returns::next_look(self.returns.as_ref()) => self.look_for_returns(),
                Some((place, producer)) = self.created.recv() => self.producers[place] = Some(producer),
                () = receives.next(&mut receipts) => self.settle(&mut receipts).await,
                rang = self.alarm.rings() => {
                    rang.expect("the timer was made by this thread");
                    self.send_due().await;
                }
            }
        }
    }

    async fn obey(&mut self, order: Order) {
        match order {
            Order::Create(place, done) => {
                let creation = self.creation(place);
                let creates = self.creates.clone();
                tokio::spawn(async move {
                    let outcome = creation.await.map(|producer| drop(creates.send((place, producer))));
                    let _ = done.send(outcome);
                });
            }
            Order::Send(round, stopped, drained) => self.begin(round, stopped, drained).await,
            Order::GiveUp => self.stop(true),
            Order::WatchReturns => self.returns = Some(Returns::new(self.each, &self.producers)),
            Order::TellReturns(tell) => drop(tell.send(self.returns.take().map(Returns::told).unwrap_or_default())),
            Order::Close(_) => {}
        }
    }

    /// The topic that a gateway has in one of its places.
    fn topic_of(&self, gateway: usize, nth: usize) -> usize {
        (self.gateways[gateway] * self.each + nth) % self.plan.scenario.topics
    }

    fn creation(&self, place: usize) -> impl Future<Output = Result<Producer, client::Error>> + use<> {
        let (gateway, nth) = (place / self.each, place % self.each);
        let topic = self.topic_of(gateway, nth);
        let options = ProducerOptions {
            name: Some(format!("gateway-{}-telemetry-{topic}", self.gateways[gateway])),
            max_pending: self.window,
            receipts: self.receipts.clone(),
            tag: place as u64,
            ..ProducerOptions::default()
        };
        let (client, topic) = (self.clients[gateway].clone(), self.plan.topic(topic));
        async move { client.producer(&topic, options).await }
    }

    async fn begin(&mut self, round: Round, stopped: oneshot::Sender<u64>, drained: oneshot::Sender<()>) {
        while let Ok((place, producer)) = self.created.try_recv() {
            self.producers[place] = Some(producer);
        }
        if round.is_measured {
            self.recorder.begin(round.start);
        }
        let for_its_time = round.until.zip(round.rate).map(|(until, rate)| ((until - round.start) as f64 / 1e6 * rate) as u64);
        let left = round.messages.unwrap_or(u64::MAX).min(for_its_time.unwrap_or(u64::MAX));
        let burst = u64::from(self.burst);
        let schedule = round.rate.map(|rate| Schedule::new(round.start, rate / burst as f64, left / burst));
        self.round = Some(Running {
            left: left / burst * burst,
            // What was due in time is sent, however late.
            until: if schedule.is_some() { u64::MAX } else { round.until.unwrap_or(u64::MAX) },
            schedule,
            stopped: Some(stopped),
            drained: Some(drained),
        });
        if self.round.as_ref().is_some_and(|round| round.schedule.is_some()) {
            self.send_due().await;
        } else {
            self.fill().await;
        }
    }

    /// Fills every gateway's window.
    async fn fill(&mut self) {
        let gateways = self.gateways.len();
        for gateway in 0..gateways {
            let now = self.plan.clock.now();
            for _ in 0..self.window / gateways + usize::from(gateway < self.window % gateways) {
                self.send(gateway, now).await;
            }
            // The connection writes what it has, and receipts are not left lying.
            tokio::task::yield_now().await;
            self.settle_waiting().await;
        }
        self.end_if_done();
    }

    /// Sends what is due as far as there is room, and sets the alarm for the rest.
    async fn send_due(&mut self) {
        let now = self.plan.clock.now();
        while self.in_flight < self.window {
            let Some(due) = self.round.as_mut().and_then(|round| round.schedule.as_mut()?.take(now)) else { break };
            let gateway = self.rng.usize(..self.gateways.len());
            self.send(gateway, due).await;
        }
        let next = self.round.as_ref().and_then(|round| round.schedule.as_ref()?.next_due());
        if let Some(next) = next.filter(|_| self.in_flight < self.window) {
            let wait = next.saturating_sub(now).max(self.plan.scenario.load.tick_micros);
            self.alarm.set(wait).expect("the timer takes any time");
        }
        self.end_if_done();
    }

    /// One send through a gateway, for a message that was due at a time.
    async fn send(&mut self, gateway: usize, due: u64) {
        let Some(round) = self.round.as_mut().filter(|round| round.left > 0) else { return };
        if due >= round.until {
            round.left = 0;
            return;
        }
        let nth = if self.each == 1 { 0 } else { self.rng.usize(..self.each) };
        let (place, topic) = (gateway * self.each + nth, self.topic_of(gateway, nth));
        if self.producers[place].is_none() {
            match self.creation(place).await {
                Ok(producer) => self.producers[place] = Some(producer),
                Err(error) => return self.fail(u64::from(self.burst), &error),
            }
        }
        let Some((device, number)) = self.devices.begin(topic, self.burst) else {
            return self.fail_with(u64::from(self.burst), format!("every device of topic {topic} has something on its way"));
        };
        let token = u64::from(device) << TIME_BITS | due & ((1 << TIME_BITS) - 1);
        let Some(producer) = &self.producers[place] else { return };
        let reading = |nth| Reading { device, number: number + nth, time: due };
        let sent = if self.plan.scenario.message.batched {
            let batch = (0..self.burst).map(|nth| self.speller.message(reading(nth))).collect();
            producer.try_send_batch(batch, token).map(|_| ())
        } else {
            match producer.try_send(self.speller.message(reading(0)), token) {
                Ok(_) => Ok(()),
                Err(TrySendError::Failed(error)) => Err(error),
                Err(TrySendError::Full(_)) => Err(client::Error::Closed { what: "the producer", reason: "its window is full" }),
            }
        };
        let count = u64::from(self.burst);
        if let Some(round) = &mut self.round {
            round.left -= count;
        }
        self.counters.sent.fetch_add(count, Relaxed);
        match sent {
            Ok(()) => self.in_flight += 1,
            Err(error) => self.fail(count, &error),
        }
    }

    fn look_for_returns(&mut self) {
        if let Some(returns) = &mut self.returns {
            returns.look(&self.producers, self.plan.clock.now());
        }
    }

    /// Settles the receipts that are there.
    async fn settle_waiting(&mut self) {
        let mut receipts = Vec::new();
        if self.receipts.take(&mut receipts) {
            self.settle(&mut receipts).await;
        }
    }

    async fn settle(&mut self, receipts: &mut Vec<Receipt>) {
        let now = self.plan.clock.now();
        self.recorder.at(now);
        let goes_on_at_once = self.round.as_ref().is_some_and(|round| round.schedule.is_none());
        let mut published = 0;
        for receipt in receipts.drain(..) {
            self.in_flight = self.in_flight.saturating_sub(1);
            if let Err(error) = receipt.outcome {
                self.fail(u64::from(self.burst), &error);
                continue;
            }
            let (device, due) = ((receipt.token >> TIME_BITS) as u32, receipt.token & ((1 << TIME_BITS) - 1));
            self.devices.end(device);
            self.recorder.record(0, due, now);
            published += u64::from(self.burst);
            let gateway = receipt.producer as usize / self.each;
            if let Some(returns) = &mut self.returns {
                returns.published(gateway, now);
            }
            if goes_on_at_once {
                self.send(gateway, now).await;
            }
        }
        self.counters.published.fetch_add(published, Relaxed);
        if goes_on_at_once {
            self.end_if_done();
        } else {
            self.send_due().await;
        }
    }

    fn end_if_done(&mut self) {
        let is_drained = self.in_flight == 0;
        let Some(round) = self.round.as_mut().filter(|round| round.left == 0) else { return };
        if let Some(stopped) = round.stopped.take() {
            let _ = stopped.send(self.plan.clock.now());
        }
        if is_drained {
            self.stop(false);
        }
    }

    /// Ends the round; its caller waits for nothing more.
    fn stop(&mut self, gives_up: bool) {
        if let Some(mut round) = self.round.take() {
            let _ = round.stopped.take().map(|stopped| stopped.send(self.plan.clock.now()));
            let _ = round.drained.take().map(|drained| drained.send(()));
        }
        if gives_up {
            self.in_flight = 0;
        }
    }

    fn fail(&mut self, messages: u64, error: &client::Error) {
        self.fail_with(messages, error.to_string());
    }

    /// A failed send makes the run invalid; there is no use in sending more.
    fn fail_with(&mut self, messages: u64, problem: String) {
        self.counters.failed.fetch_add(messages, Relaxed);
        self.problem.get_or_insert(problem);
        if let Some(round) = &mut self.round {
            (round.left, round.schedule) = (0, None);
        }
    }

    async fn close(mut self, ended: oneshot::Sender<Ended>) {
        let mut closing = tokio::task::JoinSet::new();
        while let Ok((_, producer)) = self.created.try_recv() {
            closing.spawn(producer.close());
        }
        if self.in_flight == 0 && self.problem.is_none() {
            self.producers.drain(..).flatten().for_each(|producer| drop(closing.spawn(producer.close())));
        }
        while closing.join_next().await.is_some() {}
        let numbers = self.devices.numbers();
        let _ = ended.send(Ended { recorded: self.recorder.finish(), numbers, problem: self.problem });
    }
}
