//! One thread of applications: takes messages as they come, tells the trackers, acknowledges in groups.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use client::{Client, Consumer, ConsumerOptions, Inbox, Item, Received};
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    task::JoinSet,
};

use super::{Counters, Ended, Order, acks::Acks, consumer_options};
use crate::{devices, gateways::Plan, reading::Reading, recorder::Recorder, tracker::Tracker};

pub(super) struct Worker {
    plan: Plan,
    counters: Arc<[Counters]>,
    orders: mpsc::UnboundedReceiver<Order>,
    created: mpsc::UnboundedReceiver<(usize, Consumer)>,
    creates: mpsc::UnboundedSender<(usize, Consumer)>,
    /// Consumers that are created at a time.
    creating: Arc<Semaphore>,
    applications: Vec<Application>,
    places: Vec<Place>,
    acks: Acks,
    inbox: Inbox,
    recorder: Recorder,
    problem: Option<String>,
}

struct Application {
    number: usize,
    tracker: Tracker,
    has_joined: bool,
    /// The pod that restarts next.
    next_restart: usize,
    /// Since the counters were told.
    received: u64,
    delivered: u64,
}

/// Where a consumer is, or will be again.
struct Place {
    application: usize,
    topic: usize,
    /// Raised with each restart, so that what an earlier consumer got is not acknowledged by a later one.
    generation: u32,
    consumer: Option<Consumer>,
}

/// Messages that are taken before anything else is looked at.
const AT_ONCE: usize = 4096;
/// Acknowledgements that are nearly due leave with those that are, which saves waking up for each.
const NEARLY: u64 = 1000;
const AT_A_TIME: usize = 64;

impl Worker {
    pub(super) fn run(plan: Plan, number: usize, orders: mpsc::UnboundedReceiver<Order>, counters: Arc<[Counters]>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime for applications");
        runtime.block_on(async move { Self::new(plan, number, orders, counters).serve().await });
    }

    fn new(plan: Plan, number: usize, orders: mpsc::UnboundedReceiver<Order>, counters: Arc<[Counters]>) -> Self {
        let shape = &plan.scenario.applications;
        let numbers = (number..shape.count).step_by(plan.scenario.client.application_threads);
        let new = |number| Application {
            number,
            tracker: Tracker::new(plan.scenario.devices.count),
            has_joined: false,
            next_restart: 0,
            received: 0,
            delivered: 0,
        };
        let applications: Vec<_> = numbers.map(new).collect();
        let mut places = Vec::new();
        for application in 0..applications.len() {
            for _ in 0..shape.pods {
                places.extend((0..plan.scenario.topics).map(|topic| Place { application, topic, generation: 0, consumer: None }));
            }
        }
        let (creates, created) = mpsc::unbounded_channel();
        Self {
            counters,
            orders,
            created,
            creates,
            creating: Arc::new(Semaphore::new(AT_A_TIME)),
            acks: Acks::new(places.len(), shape.acks.millis, shape.acks.count),
            places,
            inbox: Inbox::new(),
            recorder: Recorder::new(applications.len()),
            applications,
            problem: None,
            plan,
        }
    }

    async fn serve(mut self) {
        let mut items = Vec::with_capacity(AT_ONCE);
        let inbox = self.inbox.clone();
        loop {
            let acks = self.acks_due();
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    None => return,
                    Some(Order::Close(ended)) => return self.close(ended).await,
                    Some(order) => self.obey(order),
                },
                Some((place, consumer)) = self.created.recv() => self.places[place].consumer = Some(consumer),
                () = acks => {}
                () = inbox.next_many(&mut items, AT_ONCE) => self.take(&mut items),
            }
            self.send_acks();
        }
    }

    /// Waits until acknowledgements have to leave.
    fn acks_due(&self) -> impl Future<Output = ()> + use<> {
        let (due, now) = (self.acks.next_due(), self.plan.clock.now());
        async move {
            match due {
                None => std::future::pending().await,
                Some(due) if due <= now => {}
                Some(due) => tokio::time::sleep(Duration::from_micros(due - now)).await,
            }
        }
    }

    fn send_acks(&mut self) {
        let now = self.plan.clock.now() + NEARLY;
        while let Some(place) = self.acks.take_due(now) {
            self.acks.send(place, self.places[place].consumer.as_ref());
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Join(application, done) => {
                let local = application / self.plan.scenario.client.application_threads;
                self.applications[local].has_joined = true;
                let pods = (0..self.plan.scenario.applications.pods).map(|pod| (local, pod)).collect();
                self.open(pods, JoinSet::new(), done);
            }
            Order::Restart(count, done) => self.restart(count, done),
            Order::Measure(from) => self.recorder.begin(from),
            Order::Close(_) => {}
        }
    }

    /// The places of a pod, one for each topic.
    fn places_of(&self, (application, pod): (usize, usize)) -> std::ops::Range<usize> {
        let topics = self.plan.scenario.topics;
        let first = (application * self.plan.scenario.applications.pods + pod) * topics;
        first..first + topics
    }

    /// Opens all consumers of some pods, each pod with a client of its own, when others have been closed.
    fn open(&self, pods: Vec<(usize, usize)>, mut closing: JoinSet<()>, done: oneshot::Sender<anyhow::Result<()>>) {
        let mut wanted = Vec::new();
        for pod in pods {
            match Client::new(&self.plan.service_url, self.plan.client.clone()) {
                Ok(client) => wanted.push((client, self.places_of(pod).map(|place| (place, self.options(pod.1, place))).collect())),
                Err(error) => return drop(done.send(Err(error.into()))),
            }
        }
        let (creates, creating, plan) = (self.creates.clone(), self.creating.clone(), self.plan.clone());
        tokio::spawn(async move {
            while closing.join_next().await.is_some() {}
            let _ = done.send(open_all(wanted, &plan, &creates, &creating).await);
        });
    }

    fn options(&self, pod: usize, place: usize) -> (usize, ConsumerOptions) {
        let Place { application, topic, generation, .. } = self.places[place];
        let number = self.applications[application].number;
        let options = ConsumerOptions {
            receiver_queue: self.plan.scenario.applications.receiver_queue,
            name: Some(format!("pod-{pod}-{generation}")),
            inbox: self.inbox.clone(),
            tag: place as u64 | u64::from(generation) << 32,
            ..consumer_options(number)
        };
        (topic, options)
    }

    fn restart(&mut self, count: usize, done: oneshot::Sender<anyhow::Result<()>>) {
        let all = self.plan.scenario.applications.pods;
        let mut pods = Vec::new();
        for (local, application) in self.applications.iter_mut().enumerate().filter(|(_, application)| application.has_joined) {
            pods.extend((0..count.min(all)).map(|nth| (local, (application.next_restart + nth) % all)));
            application.next_restart = (application.next_restart + count) % all;
        }
        let mut closing = JoinSet::new();
        let places: Vec<_> = pods.iter().flat_map(|pod| self.places_of(*pod)).collect();
        for place in places {
            self.acks.send(place, self.places[place].consumer.as_ref());
            self.places[place].generation += 1;
            if let Some(consumer) = self.places[place].consumer.take() {
                // What the broker says to the leaving changes nothing.
                closing.spawn(async move { drop(consumer.close().await) });
            }
        }
        self.open(pods, closing, done);
    }

    fn take(&mut self, items: &mut Vec<Item>) {
        let now = self.plan.clock.now();
        self.recorder.at(now);
        for item in items.drain(..) {
            match item {
                Item::Message(message) => self.hear(&message, now),
                Item::Ended { error, .. } => drop(self.problem.get_or_insert_with(|| error.to_string())),
            }
        }
        for application in &mut self.applications {
            let counters = &self.counters[application.number];
            counters.received.fetch_add(std::mem::take(&mut application.received), Relaxed);
            counters.delivered.fetch_add(std::mem::take(&mut application.delivered), Relaxed);
        }
    }

    fn hear(&mut self, message: &Received, now: u64) {
        let (at, generation) = (message.consumer() as u32 as usize, (message.consumer() >> 32) as u32);
        let Some(place) = self.places.get(at) else { return };
        let application = &mut self.applications[place.application];
        application.delivered += 1;
        match Reading::read(&message.payload) {
            Some(reading) if is_in_place(reading, message, place.topic, self.plan.scenario.topics) => {
                if application.tracker.see(reading.device, reading.number) {
                    application.received += 1;
                    self.recorder.record(place.application, reading.time, now);
                }
            }
            _ => application.tracker.see_invalid(),
        }
        let ends_its_entry = message.id.batch_index + 1 >= message.id.batch_size;
        if ends_its_entry && generation == place.generation {
            self.acks.add(at, place.consumer.as_ref(), message.id.whole_entry(), now);
        }
    }

    async fn close(mut self, ended: oneshot::Sender<Ended>) {
        self.acks.send_all(|place| self.places[place].consumer.as_ref());
        let applications = self.applications.into_iter().map(|application| (application.number, application.tracker)).collect();
        self.places.clear();
        // Connections write what they have.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let _ = ended.send(Ended { applications, recorded: self.recorder.finish(), problem: self.problem });
    }
}

/// Whether a message came on its device's topic, with its device's key.
fn is_in_place(reading: Reading, message: &Received, topic: usize, topics: usize) -> bool {
    let mut key = [0; devices::ID_BYTES.div_ceil(3) * 4];
    let is_encoded = STANDARD.encode_slice(devices::id(reading.device), &mut key).is_ok();
    is_encoded && reading.device as usize % topics == topic && message.wire_key() == Some(key.as_slice())
}

/// A pod's client, and what it consumes: the place of each consumer, its topic and its options.
type Wanted = (Client, Vec<(usize, (usize, ConsumerOptions))>);

/// Pods connect one after another, so that a broker sees their connections for lookups and for data in turn, in every run;
/// consumers on a connection that is there are created a few at a time.
async fn open_all(
    wanted: Vec<Wanted>,
    plan: &Plan,
    creates: &mpsc::UnboundedSender<(usize, Consumer)>,
    creating: &Arc<Semaphore>,
) -> anyhow::Result<()> {
    let mut opening = JoinSet::new();
    for (client, consumers) in wanted {
        for (nth, (place, (topic, options))) in consumers.into_iter().enumerate() {
            let permit = creating.clone().acquire_owned().await.expect("it is never closed");
            let (client, creates, topic) = (client.clone(), creates.clone(), plan.topic(topic));
            let open = async move {
                let consumer = client.consumer(&topic, options).await?;
                drop((creates.send((place, consumer)), permit));
                anyhow::Ok(())
            };
            if nth == 0 {
                open.await?;
            } else {
                opening.spawn(open);
            }
        }
    }
    let mut outcome = Ok(());
    while let Some(opened) = opening.join_next().await {
        outcome = outcome.and(opened.map_err(anyhow::Error::from).flatten());
    }
    outcome
}
