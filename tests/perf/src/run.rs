//! A run from beginning to end: connect, warm up, pause, measure, drain, judge.

mod told;
mod window;

use std::{sync::Arc, time::Duration};

use anyhow::Context;

pub use self::told::{summary, verdict_line};
use self::window::Window;
use crate::{
    access::Access,
    admin::Admin,
    cache::CacheClock,
    course::Look,
    gateways::{Gateways, Plan, Round, Sent},
    interrupt::Interrupt,
    pods::{Applications, Heard},
    reading::Clock,
    recorder,
    result::{
        BrokerUnderTest, Correctness, FORMAT, HostUse, Latencies, LatencySummary, Machine, ProcessUse, RunResult, Settings, Throughput,
    },
    sample::Watch,
    scenario::Scenario,
};

/// What is run, against whom.
#[derive(Clone, Debug)]
pub struct Run {
    /// The scenario's name.
    pub name: String,
    /// The scenario.
    pub scenario: Scenario,
    /// What the command line and the environment changed, as `path=value`.
    pub overrides: Vec<String>,
    /// From which everything random is derived.
    pub seed: u64,
    /// The other end.
    pub broker: BrokerUnderTest,
    /// Whom to believe there, and who to be.
    pub access: Access,
    /// The broker's processes, when they are on this machine and known.
    pub broker_pids: Vec<u32>,
    /// The namespace (`tenant/name`) to run in, which stays; none: one of its own, which goes away.
    pub namespace: Option<String>,
    /// Says how it is going, on the standard error.
    pub shows_progress: bool,
}

/// A broker that can be killed and started again under a run.
pub trait Restart: Send {
    /// Ends its process at once.
    ///
    /// # Errors
    /// There is no process to end.
    fn kill(&mut self) -> anyhow::Result<()>;

    /// Starts it again; returns its process id when it takes connections.
    ///
    /// # Errors
    /// It does not start.
    fn start_again(&mut self) -> anyhow::Result<u32>;
}

/// What a run leaves: its record, and the states of producers and applications.
#[derive(Debug)]
pub struct Outcome {
    /// The record.
    pub result: RunResult,
    /// How many readings each device sent.
    pub sent: Sent,
    /// What the applications have.
    pub heard: Heard,
}

/// What is under way in a run.
struct Stage<'a> {
    run: &'a Run,
    admin: &'a Admin,
    plan: Plan,
    gateways: Gateways,
    applications: Applications,
    problems: Vec<String>,
}

const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long what comes twice is waited for when everything has come once.
const LINGER: Duration = Duration::from_millis(300);

impl Run {
    /// Runs. What goes wrong with messages is told in the record; an error means that there was no run.
    ///
    /// # Errors
    /// The broker could not be reached or refused what a run needs, or the run was interrupted.
    pub async fn run(&self, restart: Option<&mut dyn Restart>, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
        // What is wrong with the URL or a file of TLS is wrong for all clients.
        client::Client::new(&self.broker.service_url, self.access.client_options())?;
        let is_encrypted = client::ServiceUrl::parse(&self.broker.service_url)?.is_over_tls();
        anyhow::ensure!(
            !self.scenario.broker.tls || is_encrypted,
            "the scenario asks for encrypted connections (broker.tls), and {} is not encrypted: give a pulsar+ssl:// address",
            self.broker.service_url
        );
        let started_at_ms = now_ms();
        let own = || format!("public/perf-{started_at_ms:x}-{:x}", std::process::id());
        let namespace = self.namespace.clone().unwrap_or_else(own);
        let admin = Admin::new(&self.broker.admin_url, &self.access)?;
        admin.create_namespace(&namespace, self.scenario.broker.deduplication).await?;
        let outcome = tokio::select! {
            outcome = self.played(&admin, &namespace, started_at_ms, restart) => outcome,
            asked = interrupt.asked() => Err(asked.into()),
        };
        if self.namespace.is_none()
            && let Err(error) = admin.delete_namespace(&namespace).await
        {
            self.say(&format!("the namespace {namespace} stays: {error:#}"));
        }
        outcome
    }

    async fn played(
        &self,
        admin: &Admin,
        namespace: &str,
        started_at_ms: u64,
        restart: Option<&mut dyn Restart>,
    ) -> anyhow::Result<Outcome> {
        let plan = Plan {
            scenario: Arc::new(self.scenario.clone()),
            service_url: self.broker.service_url.as_str().into(),
            client: self.access.client_options(),
            prefix: format!("persistent://{namespace}/").into(),
            seed: self.seed,
            clock: Clock::start(),
        };
        let (gateways, applications) = (Gateways::start(&plan)?, Applications::start(&plan)?);
        let mut stage = Stage { run: self, admin, plan, gateways, applications, problems: Vec::new() };
        let window = stage.play(restart).await;
        let published = stage.gateways.published();
        let failed = stage.gateways.failed();
        // All connections end here, whether or not the run went as it should.
        let (sent, heard) = (stage.gateways.close().await, stage.applications.close().await);
        let window = window?;
        let mut reasons = stage.problems;
        reasons.extend(sent.problems.iter().map(|problem| format!("gateways: {problem}")));
        reasons.extend(heard.problems.iter().map(|problem| format!("applications: {problem}")));
        let correctness = Correctness { published, failed, applications: heard.check(&sent.numbers), other_reasons: reasons };
        let result = self.told(started_at_ms, window, correctness, &sent, &heard);
        Ok(Outcome { result, sent, heard })
    }

    fn told(&self, started_at_ms: u64, window: Window, correctness: Correctness, sent: &Sent, heard: &Heard) -> RunResult {
        let (timeline, backlog, catch_up) = window.course.finish(&self.scenario);
        let lanes = heard.recorded.iter().map(|thread| thread.lanes.len()).sum::<usize>();
        let threads = heard.recorded.len();
        let applications = (0..lanes).filter(|_| lanes > 1).filter_map(|application| {
            let (histogram, points) = heard.recorded.get(application % threads)?.lanes.get(application / threads)?;
            Some((crate::pods::name(application), LatencySummary::of(histogram, points.clone())))
        });
        let reconnect = window.storm.map(|storm| {
            let lost = correctness.applications.iter().map(|application| application.missing).sum();
            storm.told(lost)
        });
        let mut result = RunResult {
            format: FORMAT,
            scenario: self.name.clone(),
            started_at_ms,
            settings: self.settings(),
            throughput: Throughput { window: window.measured, timeline },
            latency: Latencies {
                publish: recorder::together(&sent.recorded),
                end_to_end: recorder::together(&heard.recorded),
                applications: applications.collect(),
            },
            backlog,
            catch_up,
            brokers: window.brokers,
            generator: window.generator,
            cache: window.cache,
            host: window.host,
            reconnect,
            remarks: window.remarks,
            correctness,
        };
        result.remarks.extend(result.was_measured_cold());
        result
    }

    fn settings(&self) -> Settings {
        Settings {
            scenario: self.scenario.to_json(),
            overrides: self.overrides.clone(),
            seed: self.seed,
            program: concat!("geminga ", env!("CARGO_PKG_VERSION")).to_owned(),
            broker: self.broker.clone(),
            machine: Machine::here(),
        }
    }

    fn say(&self, line: &str) {
        if self.shows_progress {
            eprintln!("{line}");
        }
    }
}

impl Stage<'_> {
    async fn play(&mut self, restart: Option<&mut dyn Restart>) -> anyhow::Result<Window> {
        self.connect().await?;
        self.warm_up().await?;
        Window::play(self, restart).await
    }

    async fn connect(&self) -> anyhow::Result<()> {
        let scenario = &self.plan.scenario;
        let began = self.plan.clock.now();
        for application in (0..scenario.applications.count).filter(|application| scenario.join_at(*application) > 0.0) {
            self.applications.subscribe(application).await.context("a subscription could not be created")?;
        }
        for application in (0..scenario.applications.count).filter(|application| scenario.join_at(*application) <= 0.0) {
            self.applications.join(application).await.context("an application could not join")?;
        }
        let pods = self.plan.clock.now();
        if scenario.gateways.producer.precreate {
            self.gateways.precreate().await.context("a gateway could not connect")?;
        }
        let seconds = |micros: u64| micros as f64 / 1e6;
        self.run.say(&format!(
            "connected: pods in {:.1} s, gateways in {:.1} s",
            seconds(pods - began),
            seconds(self.plan.clock.now() - pods)
        ));
        Ok(())
    }

    async fn warm_up(&mut self) -> anyhow::Result<()> {
        let scenario = self.plan.scenario.clone();
        let warm_up = &scenario.warm_up;
        if warm_up.seconds.is_none_or(|seconds| seconds <= 0.0) && warm_up.messages.is_none_or(|messages| messages == 0) {
            return Ok(());
        }
        let rounds = warm_up.rounds;
        for number in 1..=rounds {
            let start = self.plan.clock.now();
            let round = Round {
                start,
                rate: scenario.load.rate,
                messages: warm_up.messages.map(|messages| messages.div_ceil(u64::from(rounds))),
                until: warm_up.seconds.map(|seconds| start + (seconds * 1e6 / f64::from(rounds)) as u64),
                is_measured: false,
            };
            let mut sending = self.gateways.send(round);
            sending.stopped().await?;
            if !self.drained(&mut sending).await? {
                anyhow::bail!("{}", self.problems.join("; "));
            }
            self.run.say(&format!("warm-up {number} of {rounds}: {} messages published and received", self.gateways.published()));
        }
        tokio::time::sleep(Duration::from_secs_f64(warm_up.pause_seconds)).await;
        Ok(())
    }

    /// Waits for receipts and deliveries of everything that was sent; notes what did not come.
    async fn drained(&mut self, sending: &mut crate::gateways::Sending) -> anyhow::Result<bool> {
        let mut patience = Patience::new(&self.plan);
        loop {
            tokio::select! {
                drained = sending.drained() => {
                    drained?;
                    break;
                }
                () = tokio::time::sleep(LOOK_EVERY) => {
                    if let Some(problem) = patience.is_over(&self.plan, &self.gateways, &self.applications) {
                        self.problems.push(problem);
                        self.gateways.give_up();
                        return Ok(false);
                    }
                }
            }
        }
        while !self.has_arrived() {
            tokio::time::sleep(LOOK_EVERY).await;
            if let Some(problem) = patience.is_over(&self.plan, &self.gateways, &self.applications) {
                self.problems.push(problem);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether every application that was there from the start has everything.
    fn has_arrived(&self) -> bool {
        let published = self.gateways.published();
        let received = self.applications.received();
        received.iter().enumerate().all(|(application, received)| self.plan.scenario.join_at(application) > 0.0 || *received >= published)
    }

    /// What the broker says of its cache, if it does.
    async fn cache(&self) -> Option<CacheClock> {
        CacheClock::parse(&String::from_utf8_lossy(&self.admin.get("/metrics").await.ok()?))
    }

    fn look(&self, from: u64) -> Look {
        // Deliveries first, so that a backlog is never below zero.
        let received = self.applications.received();
        let now = self.plan.clock.now();
        Look { second: (now.saturating_sub(from)) as f64 / 1e6, published: self.gateways.published(), received }
    }
}

/// How long an end is waited for.
struct Patience {
    give_up: u64,
    silence: u64,
    last: (u64, u64),
    since: u64,
}

impl Patience {
    fn new(plan: &Plan) -> Self {
        let micros = |seconds: f64| (seconds * 1e6) as u64;
        let (drain, now) = (&plan.scenario.drain, plan.clock.now());
        Self { give_up: now + micros(drain.timeout_seconds), silence: micros(drain.silence_seconds), last: (0, 0), since: now }
    }

    /// Why there is no use in going on: nothing has moved for too long.
    fn is_silent(&mut self, plan: &Plan, gateways: &Gateways, applications: &Applications) -> Option<String> {
        self.give_up = u64::MAX;
        self.is_over(plan, gateways, applications)
    }

    /// Why there is no use in waiting longer.
    fn is_over(&mut self, plan: &Plan, gateways: &Gateways, applications: &Applications) -> Option<String> {
        let (now, counts) = (plan.clock.now(), (gateways.published(), applications.delivered()));
        if counts != self.last {
            (self.last, self.since) = (counts, now);
        }
        let missing = gateways.sent() - gateways.published();
        let waiting = format!("{missing} messages without a receipt, {} deliveries", counts.1);
        if gateways.failed() > 0 && now > self.since + 1_000_000 {
            return Some(format!("sends failed, and nothing arrived for a second: {waiting}"));
        }
        if now > self.since + self.silence {
            return Some(format!("nothing arrived for {} s: {waiting}", plan.scenario.drain.silence_seconds));
        }
        (now > self.give_up).then(|| format!("not everything arrived within {} s: {waiting}", plan.scenario.drain.timeout_seconds))
    }
}

fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// What is watched while the window is measured.
struct Watched {
    brokers: Vec<Watch>,
    generator: Option<Watch>,
    host: Option<(crate::machine::HostClock, f64, std::time::Instant)>,
}

impl Watched {
    fn begin(pids: &[u32]) -> anyhow::Result<Self> {
        let brokers = pids.iter().map(|pid| Watch::start("broker", *pid)).collect::<anyhow::Result<Vec<_>>>()?;
        let generator = Watch::start("generator", std::process::id()).ok();
        brokers.iter().chain(&generator).for_each(Watch::begin_window);
        let host = crate::machine::HostClock::read().ok().map(|clock| (clock, crate::machine::load_average(), std::time::Instant::now()));
        Ok(Self { brokers, generator, host })
    }

    fn end_window(&self) -> Option<(crate::machine::HostClock, f64)> {
        self.brokers.iter().chain(&self.generator).for_each(Watch::end_window);
        let now = crate::machine::HostClock::read().ok()?;
        self.host.as_ref().map(|(_, _, began)| (now, began.elapsed().as_secs_f64()))
    }

    fn stop(self, end: Option<(crate::machine::HostClock, f64)>) -> (Vec<ProcessUse>, Option<ProcessUse>, Option<HostUse>) {
        let brokers: Vec<_> = self.brokers.into_iter().map(Watch::stop).collect();
        let generator = self.generator.map(Watch::stop);
        let ours = brokers.iter().chain(&generator).map(|process| process.cpu_seconds).sum();
        let host = self.host.zip(end).map(|((before, load, _), (after, seconds))| after.since(&before, seconds, ours, load));
        (brokers, generator, host)
    }
}
