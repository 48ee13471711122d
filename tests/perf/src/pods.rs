//! The applications and their pods: each pod is a client of its own with a consumer on every topic. An application stays on one
//! thread, so that its tracker sees messages in the order in which they came.

mod acks;
mod worker;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
};

use anyhow::Context;
use client::{Client, ConsumerOptions, SubscriptionType};
use tokio::sync::{mpsc, oneshot};

use self::worker::Worker;
use crate::{gateways::Plan, recorder::Recorded, result::ApplicationCheck, tracker::Tracker};

/// What is counted of an application where everybody can see it.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Distinct messages.
    pub(crate) received: AtomicU64,
    /// All messages.
    pub(crate) delivered: AtomicU64,
}

enum Order {
    /// All pods of an application join.
    Join(usize, oneshot::Sender<anyhow::Result<()>>),
    /// So many pods of each application that is there restart.
    Restart(usize, oneshot::Sender<anyhow::Result<()>>),
    /// What is due from this time on is measured.
    Measure(u64),
    /// Send the acknowledgements that are held, and end.
    Close(oneshot::Sender<Ended>),
}

struct Ended {
    applications: Vec<(usize, Tracker)>,
    recorded: Recorded,
    problem: Option<String>,
}

/// What the applications leave behind.
#[derive(Debug, Default)]
pub struct Heard {
    /// Their trackers, in order.
    pub trackers: Vec<Tracker>,
    /// End-to-end latencies, by thread; their lanes are the thread's applications.
    pub recorded: Vec<Recorded>,
    /// Why consumers ended; one line a thread.
    pub problems: Vec<String>,
}

/// The name of an application, which is that of its subscription.
#[must_use]
pub fn name(application: usize) -> String {
    format!("application-{application}")
}

/// All applications. Dropping this ends them.
pub struct Applications {
    plan: Plan,
    threads: Vec<Thread>,
    counters: Arc<[Counters]>,
}

struct Thread {
    orders: mpsc::UnboundedSender<Order>,
    handle: Option<thread::JoinHandle<()>>,
}

impl Applications {
    /// Starts the threads. Nothing connects yet.
    ///
    /// # Errors
    /// The system has no more threads.
    pub fn start(plan: &Plan) -> anyhow::Result<Self> {
        let counters: Arc<[Counters]> = (0..plan.scenario.applications.count).map(|_| Counters::default()).collect();
        let start = |number| {
            let (orders, received) = mpsc::unbounded_channel();
            let (plan, counters) = (plan.clone(), counters.clone());
            let handle = thread::Builder::new()
                .name(format!("applications-{number}"))
                .spawn(move || Worker::run(plan, number, received, counters))
                .context("a thread for applications cannot be started")?;
            Ok(Thread { orders, handle: Some(handle) })
        };
        let threads = (0..plan.scenario.client.application_threads).map(start).collect::<anyhow::Result<_>>()?;
        Ok(Self { plan: plan.clone(), threads, counters })
    }

    /// Creates the subscriptions of an application on all topics, so that nothing is missed until it joins.
    ///
    /// # Errors
    /// The broker refused, or could not be reached.
    pub async fn subscribe(&self, application: usize) -> anyhow::Result<()> {
        let client = Client::new(&self.plan.service_url, self.plan.client.clone())?;
        for topic in 0..self.plan.scenario.topics {
            let options = ConsumerOptions { manual_permits: true, ..consumer_options(application) };
            client.consumer(&self.plan.topic(topic), options).await?.close().await?;
        }
        Ok(())
    }

    /// All pods of an application join; returns when they have.
    ///
    /// # Errors
    /// The broker refused a consumer, or could not be reached.
    pub fn join(&self, application: usize) -> impl Future<Output = anyhow::Result<()>> + use<> {
        let (done, is_done) = oneshot::channel();
        self.order(application % self.threads.len(), Order::Join(application, done));
        async move { is_done.await.context("a thread of applications ended by itself")? }
    }

    /// The next so many pods of each application restart; returns when they are back.
    ///
    /// # Errors
    /// The broker refused a consumer, or could not be reached.
    pub fn restart(&self, pods: usize) -> impl Future<Output = anyhow::Result<()>> + use<> {
        let mut answers = Vec::new();
        for number in 0..self.threads.len() {
            let (done, is_done) = oneshot::channel();
            self.order(number, Order::Restart(pods, done));
            answers.push(is_done);
        }
        async move {
            for answer in answers {
                answer.await.context("a thread of applications ended by itself")??;
            }
            Ok(())
        }
    }

    /// What is due from this time on is measured.
    pub fn measure(&self, from: u64) {
        (0..self.threads.len()).for_each(|number| self.order(number, Order::Measure(from)));
    }

    /// Distinct messages that each application has.
    #[must_use]
    pub fn received(&self) -> Vec<u64> {
        self.counters.iter().map(|counters| counters.received.load(Relaxed)).collect()
    }

    /// Messages that came in all, first or not.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.counters.iter().map(|counters| counters.delivered.load(Relaxed)).sum()
    }

    /// Ends the threads.
    pub async fn close(mut self) -> Heard {
        let mut heard = Heard::default();
        let mut trackers = Vec::new();
        for number in 0..self.threads.len() {
            let (ended, has_ended) = oneshot::channel();
            self.order(number, Order::Close(ended));
            match has_ended.await {
                Ok(ended) => {
                    trackers.extend(ended.applications);
                    heard.recorded.push(ended.recorded);
                    heard.problems.extend(ended.problem);
                }
                Err(_) => heard.problems.push(format!("the thread applications-{number} ended by itself")),
            }
        }
        for handle in self.threads.iter_mut().filter_map(|thread| thread.handle.take()) {
            let _ = handle.join();
        }
        trackers.sort_by_key(|(application, _)| *application);
        heard.trackers = trackers.into_iter().map(|(_, tracker)| tracker).collect();
        heard
    }

    fn order(&self, number: usize, order: Order) {
        // A thread that has ended is noticed by the answer that does not come.
        let _ = self.threads[number].orders.send(order);
    }
}

impl Heard {
    /// Holds what the applications have against what was sent.
    #[must_use]
    pub fn check(&self, sent: &crate::tracker::Numbers) -> Vec<ApplicationCheck> {
        self.trackers.iter().enumerate().map(|(application, tracker)| tracker.check(&name(application), sent)).collect()
    }
}

fn consumer_options(application: usize) -> ConsumerOptions {
    ConsumerOptions { kind: SubscriptionType::KeyShared, ..ConsumerOptions::new(name(application)) }
}
