//! A few numbers of the broker over time, in memory: by the second while somebody watches, by ten seconds and by the minute once
//! anybody has looked at all.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use server::ServerStats;

use super::clock::now_ms;
use crate::errors::Refusal;
use crate::reply::Reply;
use crate::request::Call;

/// What is kept, in the order of a sample's values.
pub(crate) const METRICS: [&str; 10] = [
    "msgRateIn",
    "msgRateOut",
    "msgThroughputIn",
    "msgThroughputOut",
    "connections",
    "topicsLoaded",
    "cacheBytes",
    "pendingPublishBytes",
    "outBufferBytes",
    "loopTurnRate",
];

type Values = [f64; METRICS.len()];

/// Steps, and how many of each are kept.
const RINGS: [(Duration, usize); 3] = [(Duration::from_secs(1), 300), (Duration::from_secs(10), 360), (Duration::from_secs(60), 1_440)];

/// How much earlier than a step after the last one a sample may be to be kept.
const EARLY_MS: u64 = 300;

/// After a question the second's ring goes on for so long, so that who asks again finds it.
const WATCHED_FOR: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Default)]
pub(crate) struct Series(Mutex<Rings>);

#[derive(Default)]
struct Rings {
    rings: [VecDeque<(u64, Values)>; RINGS.len()],
    /// What the last sample counted, for rates.
    last: Option<(Instant, Counters)>,
    asked: Option<Instant>,
}

/// What only goes up.
#[derive(Clone, Copy, Default)]
struct Counters {
    messages_in: u64,
    messages_out: u64,
    bytes_in: u64,
    bytes_out: u64,
    turns: u64,
}

/// Rates of late.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rates {
    pub(crate) msg_rate_in: f64,
    pub(crate) msg_rate_out: f64,
    pub(crate) msg_throughput_in: f64,
    pub(crate) msg_throughput_out: f64,
}

impl Series {
    /// Takes a sample; rates are over the time since the last one.
    pub(crate) fn record(&self, stats: &ServerStats) {
        let (now, at) = (Instant::now(), now_ms());
        let mut rings = self.lock();
        let counters = count(stats);
        let Some((since, before)) = rings.last.replace((now, counters)) else { return };
        let seconds = now.duration_since(since).as_secs_f64().max(1e-3);
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let sum = |of: fn(&server::WorkerStats) -> u64| stats.workers.iter().map(of).sum::<u64>() as f64;
        let values = [
            rate(counters.messages_in, before.messages_in),
            rate(counters.messages_out, before.messages_out),
            rate(counters.bytes_in, before.bytes_in),
            rate(counters.bytes_out, before.bytes_out),
            sum(|w| w.connections),
            sum(|w| w.topics),
            sum(|w| w.cache_bytes),
            sum(|w| w.pending_publish_bytes),
            sum(|w| w.out_buffer_bytes),
            rate(counters.turns, before.turns),
        ];
        rings.add(at, values);
    }

    /// Whether the second's ring is asked for.
    pub(crate) fn is_watched(&self) -> bool {
        self.lock().asked.is_some_and(|at| at.elapsed() < WATCHED_FOR)
    }

    /// The rates of the last sample, and whether there is one.
    pub(crate) fn rates(&self) -> Option<Rates> {
        let rings = self.lock();
        let newest = rings.rings.iter().filter_map(|ring| ring.back()).max_by_key(|(at, _)| *at)?;
        let [msg_rate_in, msg_rate_out, msg_throughput_in, msg_throughput_out, ..] = newest.1;
        Some(Rates { msg_rate_in, msg_rate_out, msg_throughput_in, msg_throughput_out })
    }

    fn lock(&self) -> MutexGuard<'_, Rings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rings {
    fn add(&mut self, at: u64, values: Values) {
        for (ring, (step, most)) in self.rings.iter_mut().zip(RINGS) {
            let step = u64::try_from(step.as_millis()).unwrap_or(u64::MAX);
            // A sample that is a little early still stands for its step.
            if ring.back().is_some_and(|(last, _)| at + EARLY_MS < last + step) {
                continue;
            }
            ring.push_back((at, values));
            if ring.len() > most {
                ring.pop_front();
            }
        }
    }
}

fn count(stats: &ServerStats) -> Counters {
    let mut counters = Counters::default();
    for worker in &stats.workers {
        counters.messages_in += worker.messages_in;
        counters.messages_out += worker.messages_out;
        counters.bytes_in += worker.bytes_in;
        counters.bytes_out += worker.bytes_out;
        counters.turns += worker.turns;
    }
    counters
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    metric: &'static str,
    scope: &'static str,
    step_ms: u64,
    /// Milliseconds since the epoch, and the value.
    points: Vec<(u64, f64)>,
}

/// GET: how some numbers went: `metric` (several with commas), `scope=broker`, `range` and `step` as in `15m` and `5s`.
pub(crate) async fn series(call: Call) -> Result<Reply, Refusal> {
    let scope = call.query.get("scope").unwrap_or("broker");
    if scope != "broker" {
        return Err(Refusal::bad_request(format!("scope: only broker is kept over time, not {scope:?}; topics have rates in their lists")));
    }
    let wanted = call.query.get("metric").unwrap_or("msgRateIn,msgRateOut");
    let metrics: Vec<usize> = wanted.split(',').map(index).collect::<Result<_, _>>()?;
    let range = span("range", call.query.get("range").unwrap_or("15m"))?;
    let step = call.query.get("step").map(|text| span("step", text)).transpose()?.unwrap_or(Duration::ZERO);
    let mut rings = call.site.own.series.lock();
    rings.asked = Some(Instant::now());
    call.site.own.pulse.notify_one();
    // The finest ring that reaches as far back as is asked for, unless a coarser step is enough.
    let reaches = |(ring_step, most): (Duration, usize)| {
        ring_step * u32::try_from(most).unwrap_or(u32::MAX) >= range && ring_step >= step.min(Duration::from_secs(60))
    };
    let chosen = RINGS.iter().position(|ring| reaches(*ring)).unwrap_or(RINGS.len() - 1);
    let (Some(ring), Some((ring_step, _))) = (rings.rings.get(chosen), RINGS.get(chosen)) else {
        return Err(Refusal::internal("a ring is missing"));
    };
    let begin = now_ms().saturating_sub(u64::try_from(range.as_millis()).unwrap_or(u64::MAX));
    let every = usize::try_from(step.as_secs() / ring_step.as_secs().max(1)).unwrap_or(1).max(1);
    let fitting: Vec<&(u64, Values)> = ring.iter().filter(|(at, _)| *at >= begin).step_by(every).collect();
    let line = |metric: usize| Line {
        metric: METRICS.get(metric).copied().unwrap_or_default(),
        scope: "broker",
        step_ms: u64::try_from(ring_step.as_millis()).unwrap_or(0) * every as u64,
        points: fitting.iter().map(|(at, values)| (*at, values.get(metric).copied().unwrap_or(0.0))).collect(),
    };
    Reply::json(&serde_json::json!({ "series": metrics.into_iter().map(line).collect::<Vec<_>>() }))
}

fn index(name: &str) -> Result<usize, Refusal> {
    let unknown = || Refusal::bad_request(format!("metric: {name:?} is not kept, only {}", METRICS.join(", ")));
    METRICS.iter().position(|metric| *metric == name).ok_or_else(unknown)
}

/// `90s`, `15m`, `6h`; bare numbers are seconds.
fn span(parameter: &str, text: &str) -> Result<Duration, Refusal> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let seconds = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => 0,
    };
    let span = number.parse::<u64>().ok().and_then(|number| number.checked_mul(seconds)).filter(|seconds| (1..=86_400).contains(seconds));
    span.map(Duration::from_secs).ok_or_else(|| Refusal::bad_request(format!("{parameter} is a time like 30s, 15m or 24h, not {text:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_units_and_bounds() {
        assert_eq!(span("range", "90").unwrap().as_secs(), 90);
        assert_eq!(span("range", "15m").unwrap().as_secs(), 900);
        assert_eq!(span("range", "24h").unwrap().as_secs(), 86_400);
        for wrong in ["", "0s", "25h", "5d", "m", "99999999999999999999s"] {
            assert!(span("range", wrong).unwrap_err().reason.contains("range"), "{wrong}");
        }
    }

    #[test]
    fn each_ring_keeps_its_own_step_and_its_own_length() {
        let mut rings = Rings::default();
        for second in 0..4_000 {
            rings.add(second * 1_000, [second as f64; METRICS.len()]);
        }
        let lengths: Vec<_> = rings.rings.iter().map(VecDeque::len).collect();
        assert_eq!(lengths, [300, 360, 67]);
        assert_eq!(rings.rings[1][1].0 - rings.rings[1][0].0, 10_000);
    }
}
