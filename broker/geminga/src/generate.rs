//! `geminga generate`: a dashboard and a scrape configuration that fit what this broker tells.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

/// What can be generated.
#[derive(Debug, Subcommand)]
pub enum Generate {
    /// Print a dashboard for Grafana, to import as JSON
    #[command(after_help = "Example:\n  geminga generate grafana > geminga.json       then Dashboards, New, Import")]
    Grafana,
    /// Print a scrape configuration for Prometheus
    Prometheus(Prometheus),
}

/// `geminga generate prometheus`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  geminga generate prometheus > prometheus.yml
  geminga generate prometheus --target broker-1:8080 --target broker-2:8080 --interval 15")]
pub struct Prometheus {
    /// HOST:PORT of a broker's HTTP side; may be given several times
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:8080")]
    pub target: Vec<String>,
    /// Seconds between two scrapes; rates are made anew every statsUpdateFrequencyInSecs
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub interval: u32,
}

/// The text.
pub fn run(generate: &Generate) -> String {
    match generate {
        Generate::Grafana => format!("{:#}\n", dashboard()),
        Generate::Prometheus(prometheus) => scrape(prometheus),
    }
}

fn scrape(prometheus: &Prometheus) -> String {
    let targets: Vec<String> = prometheus.target.iter().map(|target| format!("          - {}\n", Value::from(target.as_str()))).collect();
    format!(
        "# Boards for Pulsar select by the job's name.
scrape_configs:
  - job_name: broker
    metrics_path: /metrics
    scrape_interval: {}s
    static_configs:
      - targets:
{}",
        prometheus.interval,
        targets.concat()
    )
}

/// A graph: its title, the unit as Grafana names it, and its lines, each with what it is called.
struct Panel {
    title: &'static str,
    unit: &'static str,
    lines: &'static [(&'static str, &'static str)],
}

const fn panel(title: &'static str, unit: &'static str, lines: &'static [(&'static str, &'static str)]) -> Panel {
    Panel { title, unit, lines }
}

const ROWS: &[(&str, &[Panel])] = &[
    (
        "Messages",
        &[
            panel("Published", "mps", &[("sum by (namespace) (rate(pulsar_in_messages_total[$__rate_interval]))", "{{namespace}}")]),
            panel("Delivered", "mps", &[("sum by (namespace) (rate(pulsar_out_messages_total[$__rate_interval]))", "{{namespace}}")]),
            panel("Not acknowledged", "short", &[("sum by (namespace) (pulsar_msg_backlog)", "{{namespace}}")]),
            panel(
                "Bytes",
                "Bps",
                &[
                    ("sum(rate(pulsar_in_bytes_total[$__rate_interval]))", "in"),
                    ("sum(rate(pulsar_out_bytes_total[$__rate_interval]))", "out"),
                ],
            ),
            panel(
                "Time until durable",
                "s",
                &[
                    ("histogram_quantile(0.5, sum by (le) (rate(geminga_storage_append_seconds_bucket[$__rate_interval])))", "p50"),
                    ("histogram_quantile(0.99, sum by (le) (rate(geminga_storage_append_seconds_bucket[$__rate_interval])))", "p99"),
                ],
            ),
            panel(
                "Producers and consumers",
                "short",
                &[
                    ("sum(pulsar_producers_count)", "producers"),
                    ("sum(pulsar_consumers_count)", "consumers"),
                    ("sum(pulsar_subscriptions_count)", "subscriptions"),
                    ("sum(pulsar_topics_count)", "topics"),
                ],
            ),
        ],
    ),
    (
        "Event loops and log",
        &[
            panel("CPU by loop", "percentunit", &[("rate(geminga_loop_cpu_seconds_total[$__rate_interval])", "loop {{loop}}")]),
            panel(
                "Turns and wake-ups",
                "ops",
                &[
                    ("sum(rate(geminga_loop_turns_total[$__rate_interval]))", "turns"),
                    ("sum(rate(geminga_loop_wakeups_total[$__rate_interval]))", "wake-ups"),
                ],
            ),
            panel(
                "Letters a batch",
                "short",
                &[(
                    "sum(rate(geminga_loop_letters_sent_total[$__rate_interval])) / sum(rate(geminga_loop_batches_sent_total[$__rate_interval]))",
                    "letters",
                )],
            ),
            panel("Syncs", "ops", &[("sum(rate(geminga_log_syncs_total[$__rate_interval]))", "syncs")]),
            panel(
                "Entries a sync",
                "short",
                &[(
                    "sum(rate(geminga_log_entries_total[$__rate_interval])) / sum(rate(geminga_log_syncs_total[$__rate_interval]))",
                    "entries",
                )],
            ),
            panel("Log", "bytes", &[("sum(geminga_log_segment_bytes)", "files"), ("sum(geminga_log_live_bytes)", "needed")]),
        ],
    ),
    (
        "Memory and process",
        &[
            panel(
                "Cache",
                "ops",
                &[
                    ("sum(rate(geminga_cache_hits_total[$__rate_interval]))", "hits"),
                    ("sum(rate(geminga_cache_misses_total[$__rate_interval]))", "misses"),
                ],
            ),
            panel("Memory", "bytes", &[("process_resident_memory_bytes", "resident"), ("sum(pulsar_ml_cache_used_size)", "cache")]),
            panel("CPU", "short", &[("rate(process_cpu_seconds_total[$__rate_interval])", "cores")]),
            panel("Connections", "short", &[("sum(pulsar_active_connections)", "open")]),
        ],
    ),
];

const WIDTH: usize = 8;
const HEIGHT: usize = 8;

fn dashboard() -> Value {
    let mut panels = Vec::new();
    let mut y = 0;
    for (title, row) in ROWS {
        panels.push(json!({"type": "row", "title": title, "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}, "panels": []}));
        y += 1;
        for (place, panel) in row.iter().enumerate() {
            let at = json!({"x": place % 3 * WIDTH, "y": y + place / 3 * HEIGHT, "w": WIDTH, "h": HEIGHT});
            panels.push(graph(panel, &at));
        }
        y += row.len().div_ceil(3) * HEIGHT;
    }
    panels.iter_mut().enumerate().for_each(|(id, panel)| panel["id"] = Value::from(id + 1));
    json!({
        "title": "Geminga",
        "uid": "geminga",
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}]},
        "panels": panels,
    })
}

fn graph(panel: &Panel, at: &Value) -> Value {
    let source = json!({"type": "prometheus", "uid": "${datasource}"});
    let target = |(place, (expr, name)): (usize, &(&str, &str))| {
        let letter = char::from(b'A' + u8::try_from(place).unwrap_or(0));
        json!({"refId": letter.to_string(), "expr": expr, "legendFormat": name, "datasource": source})
    };
    json!({
        "type": "timeseries",
        "title": panel.title,
        "gridPos": at,
        "datasource": source,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": panel.lines.iter().enumerate().map(target).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_panels_of_the_dashboard_lie_on_each_other() {
        let dashboard = dashboard();
        let mut taken = std::collections::HashSet::new();
        for panel in dashboard["panels"].as_array().unwrap() {
            let side = |name: &str| panel["gridPos"][name].as_u64().unwrap();
            for x in side("x")..side("x") + side("w") {
                for y in side("y")..side("y") + side("h") {
                    assert!(x < 24 && taken.insert((x, y)), "{}", panel["title"]);
                }
            }
        }
    }

    #[test]
    fn the_scrape_configuration_names_every_target() {
        let targets = vec!["a:1".to_owned(), "b:2".to_owned()];
        let text = scrape(&Prometheus { target: targets, interval: 15 });
        let read: Value = serde_saphyr::from_str(&text).unwrap();
        let job = &read["scrape_configs"][0];
        assert_eq!(job["static_configs"][0]["targets"], json!(["a:1", "b:2"]));
        assert_eq!(job["scrape_interval"], "15s");
    }
}
