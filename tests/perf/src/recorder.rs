//! Latencies of one thread: whole histograms, and their course second by second. Threads are put together at the end.

use std::collections::BTreeMap;

use hdrhistogram::{
    Histogram,
    serialization::{Deserializer, Serializer, V2Serializer},
};

use crate::result::{LatencyPoint, LatencySummary, new_histogram};

/// What one thread records while it runs. Each lane is a thing of its own, such as an application.
#[derive(Debug)]
pub struct Recorder {
    /// When the measured window began; what was due before is not recorded.
    from: u64,
    /// The second of the window that is being recorded.
    second: u64,
    lanes: Vec<Lane>,
    /// All lanes together, by second; encoded, since a histogram is large and nearly empty.
    course: Vec<(u64, Vec<u8>)>,
    together: Histogram<u64>,
}

#[derive(Debug)]
struct Lane {
    whole: Histogram<u64>,
    current: Histogram<u64>,
    points: Vec<LatencyPoint>,
}

const SECOND: u64 = 1_000_000;

impl Recorder {
    /// For so many lanes; records nothing before [`Recorder::begin`].
    #[must_use]
    pub fn new(lanes: usize) -> Self {
        let lane = || Lane { whole: new_histogram(), current: new_histogram(), points: Vec::new() };
        let lanes = (0..lanes).map(|_| lane()).collect();
        Self { from: u64::MAX, second: 0, lanes, course: Vec::new(), together: new_histogram() }
    }

    /// The window begins at this time of the run's clock.
    pub fn begin(&mut self, from: u64) {
        self.from = from;
    }

    /// To be called before what happens now is recorded.
    pub fn at(&mut self, now: u64) {
        let second = now.saturating_sub(self.from) / SECOND;
        if second != self.second {
            self.turn(second);
        }
    }

    /// Something that was due at `due` happened `now`.
    pub fn record(&mut self, lane: usize, due: u64, now: u64) {
        if due >= self.from {
            self.lanes[lane].current.saturating_record(now.saturating_sub(due).max(1));
        }
    }

    /// All that was recorded.
    #[must_use]
    pub fn finish(mut self) -> Recorded {
        self.turn(self.second);
        let lanes = self.lanes.into_iter().map(|lane| (lane.whole, lane.points)).collect();
        Recorded { lanes, course: self.course }
    }

    fn turn(&mut self, next: u64) {
        self.together.reset();
        let end = (self.second + 1) as f64;
        for lane in self.lanes.iter_mut().filter(|lane| !lane.current.is_empty()) {
            lane.points.push(LatencyPoint::of(end, &lane.current));
            lane.whole.add(&lane.current).expect("histograms of the same bounds");
            self.together.add(&lane.current).expect("histograms of the same bounds");
            lane.current.reset();
        }
        if !self.together.is_empty() {
            let mut bytes = Vec::new();
            V2Serializer::new().serialize(&self.together, &mut bytes).expect("a histogram fits into memory");
            self.course.push((self.second, bytes));
        }
        self.second = next;
    }
}

/// What one thread recorded.
#[derive(Debug)]
pub struct Recorded {
    /// For each lane everything, and its course.
    pub lanes: Vec<(Histogram<u64>, Vec<LatencyPoint>)>,
    course: Vec<(u64, Vec<u8>)>,
}

/// Everything that several threads recorded, in one summary.
#[must_use]
pub fn together(threads: &[Recorded]) -> LatencySummary {
    let mut whole = new_histogram();
    let mut seconds: BTreeMap<u64, Histogram<u64>> = BTreeMap::new();
    for thread in threads {
        for (lane, _) in &thread.lanes {
            whole.add(lane).expect("histograms of the same bounds");
        }
        for (second, bytes) in &thread.course {
            let part: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).expect("a histogram that was just encoded");
            seconds.entry(*second).or_insert_with(new_histogram).add(&part).expect("histograms of the same bounds");
        }
    }
    let points = seconds.iter().map(|(second, histogram)| LatencyPoint::of((second + 1) as f64, histogram));
    LatencySummary::of(&whole, points.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_due_before_the_window_is_not_recorded_and_threads_are_added() {
        let thread = |micros: u64| {
            let mut recorder = Recorder::new(2);
            recorder.record(0, 5, 6);
            recorder.begin(1000);
            recorder.at(1500);
            recorder.record(0, 999, 1500);
            recorder.record(0, 1500 - micros, 1500);
            recorder.record(1, 1500 - micros, 1500);
            recorder.at(2_001_000);
            recorder.record(1, 2_001_000 - micros, 2_001_000);
            recorder.finish()
        };
        let summary = together(&[thread(100), thread(400)]);
        assert_eq!((summary.count, summary.min), (6, 100));
        let course: Vec<_> = summary.timeline.iter().map(|point| (point.second, point.count)).collect();
        assert_eq!(course, [(1.0, 4), (3.0, 2)]);
        let lane = &thread(100).lanes[1];
        assert_eq!((lane.0.len(), lane.1.len()), (2, 2));
    }
}
