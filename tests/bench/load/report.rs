//! What a run has shown.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::{Load, receiving::Received};
use crate::cpu::Usage;

/// Counted while publishing, but for `sent`, `lost` and parts of `received`, which count everything.
pub(super) struct Measured {
    pub(super) seconds: f64,
    pub(super) published: u64,
    pub(super) delivered: u64,
    pub(super) publish: Histogram<u64>,
    pub(super) used: Usage,
    pub(super) memory: (u64, u64),
    pub(super) syscalls: Option<u64>,
    pub(super) sent: u64,
    pub(super) lost: u64,
    pub(super) received: Received,
}

impl Measured {
    pub(super) fn report(&self, plan: &Load) -> Value {
        let (seconds, used) = (self.seconds, &self.used);
        let per = |count: u64, time: Duration| rounded(time.as_secs_f64() / (count.max(1) as f64 / 1e6), 3);
        let micros = |histogram: &Histogram<u64>, quantile| histogram.value_at_quantile(quantile);
        let per_message = |count: u64| rounded(count as f64 / self.published.max(1) as f64, 4);
        let mut threads: Vec<_> = used.threads.iter().filter(|thread| thread.time > Duration::from_millis(1)).collect();
        threads.sort_by_key(|thread| std::cmp::Reverse(thread.time));
        json!({
            "set-up": format!(
                "{} producers x {} in flight, {} topics, {} subscriptions x {} {:?} consumers, {} keys, {} B, batches of {}, {}",
                plan.producers, plan.in_flight, plan.topics, plan.subscriptions, plan.consumers, plan.kind, plan.keys, plan.size, plan.batch,
                if plan.rate == 0 { "no limit".to_owned() } else { format!("{}/s", plan.rate) },
            ),
            "measured seconds": rounded(seconds, 2),
            "published/s": (self.published as f64 / seconds).round(),
            "delivered/s": (self.delivered as f64 / seconds).round(),
            "delivered % of what was published": rounded(self.delivered as f64 * 100.0 / (self.published.max(1) * plan.subscriptions.max(1) as u64) as f64, 2),
            "broker CPU s per million published": per(self.published, used.of_threads()),
            "broker CPU s per million delivered": per(self.delivered, used.of_threads()),
            "broker cores busy": rounded(used.of_threads().as_secs_f64() / seconds, 2),
            "voluntary context switches per message": per_message(used.switches()),
            "system calls per message": self.syscalls.map(per_message),
            "publish latency us p50": micros(&self.publish, 0.5),
            "publish latency us p99": micros(&self.publish, 0.99),
            "publish latency us max": self.publish.max(),
            "end-to-end latency us p50": micros(&self.received.end_to_end, 0.5),
            "end-to-end latency us p99": micros(&self.received.end_to_end, 0.99),
            "RSS MB": rounded(self.memory.0 as f64 / 1e6, 1),
            "RSS MB at most": rounded(self.memory.1 as f64 / 1e6, 1),
            "messages in all": self.sent,
            "lost": self.lost,
            "duplicated": self.received.repeated,
            "out of order": self.received.out_of_order,
            "threads (name, share of a core, CPU s per million, voluntary switches/s)": threads.iter().map(|thread| json!({
                "name": thread.name,
                "share": rounded(thread.time.as_secs_f64() / seconds, 3),
                "per million": per(self.published, thread.time),
                "switches": (thread.switches as f64 / seconds).round(),
            })).collect::<Vec<_>>(),
        })
    }
}

fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}
