//! The course of a run, from looks at its counters: rates, backlogs, and when late applications had caught up.

use crate::{
    pods,
    result::{Backlog, BacklogPoint, CatchUp, ThroughputPoint},
    scenario::Scenario,
};

/// What has been counted at one time.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// Seconds since the window began.
    pub second: f64,
    /// Receipts.
    pub published: u64,
    /// Distinct messages of each application.
    pub received: Vec<u64>,
}

impl Look {
    /// Distinct messages over all applications.
    #[must_use]
    pub fn received_in_all(&self) -> u64 {
        self.received.iter().sum()
    }

    /// Messages that an application has not yet.
    #[must_use]
    pub fn backlog(&self, application: usize) -> u64 {
        self.received.get(application).map_or(0, |received| self.published.saturating_sub(*received))
    }

    /// The largest backlog.
    #[must_use]
    pub fn largest_backlog(&self) -> u64 {
        (0..self.received.len()).map(|application| self.backlog(application)).max().unwrap_or(0)
    }
}

/// An application has caught up when its backlog is no more than what is published in so many seconds.
pub const CAUGHT_UP_SECONDS: f64 = 0.2;

/// The course so far.
#[derive(Debug)]
pub struct Course {
    previous: Look,
    /// The look with which the point of the current second began.
    second: Look,
    throughput: Vec<ThroughputPoint>,
    backlog: Vec<BacklogPoint>,
    catch_up: Vec<(usize, CatchUp)>,
}

impl Course {
    /// Begins with the look at the beginning of the window.
    #[must_use]
    pub fn new(first: Look) -> Self {
        Self { previous: first.clone(), second: first, throughput: Vec::new(), backlog: Vec::new(), catch_up: Vec::new() }
    }

    /// An application that was away joins.
    pub fn joined(&mut self, application: usize, look: &Look) {
        let joined = CatchUp {
            application: pods::name(application),
            joined: look.second,
            backlog_at_join: look.backlog(application),
            since_run_start: None,
            since_join: None,
        };
        self.catch_up.push((application, joined));
    }

    /// Takes a look; returns the rates (published, delivered) when a second is full.
    pub fn look(&mut self, look: Look) -> Option<(f64, f64)> {
        let elapsed = look.second - self.previous.second;
        if elapsed > 0.0 {
            let rate = (look.published - self.previous.published) as f64 / elapsed;
            for (application, late) in self.catch_up.iter_mut().filter(|(_, late)| late.since_join.is_none()) {
                if look.backlog(*application) as f64 <= rate * CAUGHT_UP_SECONDS {
                    late.since_run_start = Some(look.second);
                    late.since_join = Some(look.second - late.joined);
                }
            }
        }
        self.previous = look.clone();
        let span = look.second - self.second.second;
        if span < 0.995 {
            return None;
        }
        let published = (look.published - self.second.published) as f64 / span;
        let delivered = (look.received_in_all() - self.second.received_in_all()) as f64 / span;
        self.throughput.push(ThroughputPoint { second: look.second, published, delivered });
        let messages = (0..look.received.len()).map(|application| look.backlog(application)).collect();
        self.backlog.push(BacklogPoint { second: look.second, messages });
        self.second = look;
        Some((published, delivered))
    }

    /// All of it.
    #[must_use]
    pub fn finish(self, scenario: &Scenario) -> (Vec<ThroughputPoint>, Backlog, Vec<CatchUp>) {
        let applications = (0..scenario.applications.count).map(pods::name).collect();
        let catch_up = self.catch_up.into_iter().map(|(_, late)| late).collect();
        (self.throughput, Backlog { applications, timeline: self.backlog }, catch_up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(second: f64, published: u64, received: [u64; 2]) -> Look {
        Look { second, published, received: received.to_vec() }
    }

    #[test]
    fn a_late_application_has_caught_up_when_little_is_left_for_its_rate() {
        let mut course = Course::new(look(0.0, 0, [0, 0]));
        course.look(look(1.0, 1000, [1000, 0]));
        course.joined(1, &look(1.0, 1000, [1000, 0]));
        course.look(look(2.0, 2000, [2000, 1500]));
        assert_eq!(course.catch_up[0].1.since_join, None);
        course.look(look(2.5, 2500, [2500, 2310]));
        let late = &course.catch_up[0].1;
        assert_eq!((late.backlog_at_join, late.since_run_start, late.since_join), (1000, Some(2.5), Some(1.5)));
    }

    #[test]
    fn rates_are_told_once_a_second() {
        let mut course = Course::new(look(0.0, 100, [100, 100]));
        assert_eq!(course.look(look(0.5, 600, [600, 100])), None);
        assert_eq!(course.look(look(1.0, 1100, [1100, 200])), Some((1000.0, 1100.0)));
        assert_eq!(course.backlog[0].messages, [0, 900]);
    }
}
