//! The measured window and the time until everything has arrived: sends, looks, lets applications join, pods restart, and the
//! broker go and come back.

use std::{collections::VecDeque, time::Duration};

use tokio::task::JoinSet;

use super::{LINGER, Patience, Restart, Stage, Watched};
use crate::{
    course::Course,
    gateways::{Return, Round},
    result::{self, CacheUse, HostUse, ProcessUse, ReconnectStorm},
};

/// What the window left.
pub(super) struct Window {
    pub(super) measured: result::Window,
    pub(super) course: Course,
    pub(super) brokers: Vec<ProcessUse>,
    pub(super) generator: Option<ProcessUse>,
    pub(super) host: Option<HostUse>,
    pub(super) cache: Option<CacheUse>,
    pub(super) storm: Option<Storm>,
    pub(super) remarks: Vec<String>,
}

/// The broker was gone and came back, on the run's clock.
pub(super) struct Storm {
    stopped: f64,
    ready: f64,
    from: u64,
    returns: Vec<Return>,
}

impl Storm {
    pub(super) fn told(self, acknowledged_lost: u64) -> ReconnectStorm {
        let gateways = self.returns.len();
        let since_ready = |at: u64| (at.saturating_sub(self.from) as f64 / 1e6 - self.ready).max(0.0);
        let sorted = |at: fn(&Return) -> Option<u64>| {
            let mut seconds: Vec<f64> = self.returns.iter().filter_map(at).map(since_ready).collect();
            seconds.sort_by(f64::total_cmp);
            seconds
        };
        let all = |seconds: &[f64]| seconds.last().copied().filter(|_| seconds.len() == gateways);
        let (attached, publish_again) = (sorted(|it| it.attached), sorted(|it| it.published));
        ReconnectStorm {
            gateways: gateways as u64,
            stopped: self.stopped,
            ready: self.ready,
            all_attached: all(&attached),
            all_publish: all(&publish_again),
            publish_again,
            acknowledged_lost,
        }
    }
}

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A line of progress is printed after so many seconds when nobody sits in front of it.
const QUIET_SECONDS: u64 = 10;

/// What happens while messages flow.
struct Events<'a, 's, 'r> {
    stage: &'s mut Stage<'a>,
    from: u64,
    course: Course,
    watched: Watched,
    /// Applications that have yet to join, by their time.
    joins: VecDeque<(f64, usize)>,
    next_restart: Option<f64>,
    broker_restart: Option<(f64, &'r mut dyn Restart)>,
    storm: Option<Storm>,
    tasks: JoinSet<anyhow::Result<()>>,
}

impl Window {
    pub(super) async fn play(stage: &mut Stage<'_>, restart: Option<&mut dyn Restart>) -> anyhow::Result<Self> {
        let scenario = stage.plan.scenario.clone();
        let mut joins: Vec<_> = (0..scenario.applications.count).map(|number| (scenario.join_at(number), number)).collect();
        joins.retain(|(at, _)| *at > 0.0);
        joins.sort_by(|a, b| a.0.total_cmp(&b.0));
        let cache_before = stage.cache().await;
        let watched = Watched::begin(&stage.run.broker_pids)?;
        let from = stage.plan.clock.now();
        stage.applications.measure(from);
        let round = Round {
            start: from,
            rate: scenario.load.rate,
            messages: scenario.measure.messages,
            until: scenario.measure.seconds.map(|seconds| from + (seconds * 1e6) as u64),
            is_measured: true,
        };
        let first = stage.look(from);
        let mut sending = stage.gateways.send(round);
        let mut events = Events {
            from,
            course: Course::new(first.clone()),
            watched,
            joins: joins.into(),
            next_restart: scenario.applications.restarts.as_ref().map(|restarts| restarts.every_seconds),
            broker_restart: scenario.broker.restart_at_seconds.zip(restart).map(|(at, broker)| (at, broker as &mut dyn Restart)),
            storm: None,
            tasks: JoinSet::new(),
            stage,
        };
        let stopped = events.until_stopped(&mut sending).await?;
        let end = events.stage.look(from);
        let watched_end = events.watched.end_window();
        events.next_restart = None;
        events.until_arrived(&mut sending).await?;
        let storm = events.storm_ended().await;
        // With the time until everything has arrived, since late applications read their backlogs then.
        let cache = events.stage.cache().await.zip(cache_before).map(|(after, before)| after.since(&before));
        let Events { course, watched, .. } = events;
        let (brokers, generator, host) = watched.stop(watched_end);
        let published = end.published - first.published;
        let measured = result::Window {
            seconds: (stopped - from) as f64 / 1e6,
            published,
            published_bytes: published * scenario.message.bytes as u64,
            delivered: end.received_in_all() - first.received_in_all(),
            offered_per_second: scenario.load.rate,
            applications: scenario.applications.count as u64,
        };
        let remarks = remarks(&scenario, &measured);
        Ok(Self { measured, course, brokers, generator, host, cache, storm, remarks })
    }
}

fn remarks(scenario: &crate::scenario::Scenario, measured: &result::Window) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(offered) = measured.offered_per_second
        && measured.published_per_second() < offered * 0.98
    {
        let rate = measured.published_per_second();
        remarks.push(format!(
            "the offered rate of {offered}/s was not held: {rate:.0}/s were published; latencies count from when each message was due"
        ));
    }
    if scenario.applications.join_at_seconds.iter().any(|at| *at > 0.0) {
        remarks.push(format!(
            "seconds of joining and catching up count from the window's start; caught up means a backlog of what is published in {} s",
            crate::course::CAUGHT_UP_SECONDS
        ));
    }
    if scenario.load.rate.is_some() {
        remarks.push(format!("due messages were looked for every {} us", scenario.load.tick_micros));
    }
    remarks
}

impl Events<'_, '_, '_> {
    async fn until_stopped(&mut self, sending: &mut crate::gateways::Sending) -> anyhow::Result<u64> {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        let mut patience = Patience::new(&self.stage.plan);
        loop {
            tokio::select! {
                stopped = sending.stopped() => return stopped,
                _ = looks.tick() => {
                    self.look();
                    if let Some(problem) = patience.is_silent(&self.stage.plan, &self.stage.gateways, &self.stage.applications) {
                        self.stage.problems.push(problem);
                        self.stage.gateways.give_up();
                    }
                }
            }
        }
    }

    /// Waits until every application has joined and has everything; notes what did not come.
    async fn until_arrived(&mut self, sending: &mut crate::gateways::Sending) -> anyhow::Result<()> {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        let mut patience = Patience::new(&self.stage.plan);
        let mut has_receipts = false;
        while !(has_receipts && self.has_everything()) {
            tokio::select! {
                drained = sending.drained(), if !has_receipts => {
                    drained?;
                    has_receipts = true;
                }
                _ = looks.tick() => {
                    self.look();
                    if !self.joins.is_empty() {
                        patience = Patience::new(&self.stage.plan);
                    }
                    if let Some(problem) = patience.is_over(&self.stage.plan, &self.stage.gateways, &self.stage.applications) {
                        self.stage.problems.push(problem);
                        self.stage.gateways.give_up();
                        break;
                    }
                }
            }
        }
        tokio::time::sleep(LINGER).await;
        self.look();
        Ok(())
    }

    fn has_everything(&self) -> bool {
        let published = self.stage.gateways.published();
        self.joins.is_empty() && self.stage.applications.received().iter().all(|received| *received >= published)
    }

    fn look(&mut self) {
        let look = self.stage.look(self.from);
        let second = look.second;
        while let Some((_, application)) = self.joins.pop_front_if(|(at, _)| *at <= second) {
            self.course.joined(application, &look);
            self.tasks.spawn(self.stage.applications.join(application));
            self.stage.run.say(&format!("{:>5.0} s  {} joins", second, crate::pods::name(application)));
        }
        if let (Some(at), Some(restarts)) = (self.next_restart, &self.stage.plan.scenario.applications.restarts)
            && second >= at
        {
            let pods = self.stage.plan.scenario.applications.pods;
            let count = ((pods as f64 * restarts.pods_percent / 100.0).round() as usize).clamp(1, pods);
            self.next_restart = Some(at + restarts.every_seconds);
            self.tasks.spawn(self.stage.applications.restart(count));
            self.stage.run.say(&format!("{second:>5.0} s  {count} pods of each application restart"));
        }
        while let Some(ended) = self.tasks.try_join_next() {
            if let Err(error) = ended.map_err(anyhow::Error::from).flatten() {
                self.stage.problems.push(format!("pods: {error:#}"));
            }
        }
        let backlog = look.largest_backlog();
        if let Some((published, delivered)) = self.course.look(look) {
            self.stage.run.say_now(second, &format!("published {published:.0}/s  delivered {delivered:.0}/s  backlog {backlog}"));
        }
        if let Some((_, broker)) = self.broker_restart.take_if(|(at, _)| second >= *at)
            && let Err(error) = self.restart_broker(broker)
        {
            self.stage.problems.push(format!("the broker did not come back: {error:#}"));
        }
    }

    /// Kills the broker and starts it again. Nothing else is looked at meanwhile.
    fn restart_broker(&mut self, broker: &mut dyn Restart) -> anyhow::Result<()> {
        broker.kill()?;
        let stopped = self.stage.look(self.from).second;
        self.stage.run.say(&format!("{stopped:>5.1} s  the broker was killed"));
        self.stage.gateways.watch_returns();
        let pid = broker.start_again()?;
        let ready = self.stage.look(self.from).second;
        self.stage.run.say(&format!("{ready:>5.1} s  the broker is back"));
        if let [watch] = self.watched.brokers.as_slice() {
            watch.follow(pid);
        }
        self.storm = Some(Storm { stopped, ready, from: self.from, returns: Vec::new() });
        Ok(())
    }

    async fn storm_ended(&mut self) -> Option<Storm> {
        let storm = self.storm.take()?;
        Some(Storm { returns: self.stage.gateways.returns().await, ..storm })
    }
}

impl super::Run {
    /// A line of progress, each second for a person, now and then for a log.
    fn say_now(&self, second: f64, line: &str) {
        use std::io::IsTerminal;
        if std::io::stderr().is_terminal() || (second.round() as u64).is_multiple_of(QUIET_SECONDS) {
            self.say(&format!("{second:>5.0} s  {line}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn came_back(attached: Option<u64>, published: Option<u64>) -> Return {
        Return { attached, published }
    }

    fn told(returns: Vec<Return>) -> ReconnectStorm {
        Storm { stopped: 1.0, ready: 2.0, from: 10_000_000, returns }.told(0)
    }

    #[test]
    fn all_are_back_when_the_last_is() {
        let storm = told(vec![came_back(Some(12_500_000), Some(12_750_000)), came_back(Some(13_000_000), Some(12_250_000))]);
        assert_eq!((storm.all_attached, storm.all_publish), (Some(1.0), Some(0.75)));
        assert_eq!(storm.publish_again, [0.25, 0.75]);
    }

    #[test]
    fn as_long_as_one_is_away_not_all_are_back() {
        let storm = told(vec![came_back(Some(12_500_000), Some(12_750_000)), came_back(None, None)]);
        assert_eq!((storm.all_attached, storm.all_publish), (None, None));
        assert_eq!((storm.gateways, storm.publish_again.len()), (2, 1));
    }
}
