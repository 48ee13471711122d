//! `geminga doctor`: one file with all that a bug report needs. Secrets are masked by the broker; nothing of messages is in it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::Args;
use client::{Http, Method};
use serde_json::{Map, Value, json};

use crate::remote::{Reach, encoded};

/// `geminga doctor`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  geminga doctor                                   writes geminga-doctor.json
  geminga doctor -o report.json --log broker.log   with the end of a log file
  geminga doctor --admin-url https://broker:8443 --token-file admin.token

Configuration values that are secrets are masked. Names of tenants, namespaces and topics are in the file; messages are not.")]
pub struct Doctor {
    /// Where to write it
    #[arg(long, short = 'o', value_name = "FILE", default_value = "geminga-doctor.json")]
    pub out: PathBuf,
    /// A log file whose end is added
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Where the broker is.
    #[command(flatten)]
    pub reach: Reach,
}

/// Bytes of a log that are added.
const LOG_END: u64 = 512 * 1024;

/// Topics whose numbers are added.
const TOPICS: usize = 50;

/// What is asked, under which name.
const PARTS: &[(&str, &str)] = &[
    ("capabilities", "/geminga/v1"),
    ("overview", "/geminga/v1/overview"),
    ("alarms", "/geminga/v1/alarms"),
    ("version", "/admin/v2/brokers/version"),
    ("ready", "/admin/v2/brokers/ready"),
    ("health", "/admin/v2/brokers/health"),
    ("configuration", "/admin/v2/brokers/configuration/runtime"),
    ("changedWhileRunning", "/admin/v2/brokers/configuration/values"),
    ("clusters", "/admin/v2/clusters"),
    ("tenants", "/admin/v2/tenants"),
    ("metrics", "/metrics"),
];

/// Asks, writes the file, and tells what stood out.
pub fn run(doctor: &Doctor) -> anyhow::Result<String> {
    let http = doctor.reach.http()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut report = runtime.block_on(examine(&http));
    report.insert("log".to_owned(), doctor.log.as_deref().map_or(Ok(Value::Null), end_of)?);
    let text = serde_json::to_string_pretty(&report)?;
    std::fs::write(&doctor.out, text).with_context(|| format!("cannot write {}", doctor.out.display()))?;
    Ok(format!("{}written to {}\n", told(&report), doctor.out.display()))
}

async fn examine(http: &Http) -> Map<String, Value> {
    let mut report = Map::new();
    report.insert("command".to_owned(), json!({"version": env!("CARGO_PKG_VERSION"), "adminUrl": http.url(), "machine": machine()}));
    for (name, path) in PARTS {
        report.insert((*name).to_owned(), ask(http, path).await);
    }
    let mut topics = Map::new();
    for topic in names(http, &report["tenants"]).await {
        let path = format!("/admin/v2/{}/stats", topic.replacen("://", "/", 1).split('/').map(encoded).collect::<Vec<_>>().join("/"));
        topics.insert(topic, ask(http, &path).await);
    }
    report.insert("topics".to_owned(), Value::Object(topics));
    report
}

/// Names of topics, the first that come.
async fn names(http: &Http, tenants: &Value) -> Vec<String> {
    let mut topics = Vec::new();
    let strings =
        |value: &Value| -> Vec<String> { value.as_array().into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned)).collect() };
    for tenant in strings(tenants) {
        for namespace in strings(&ask(http, &format!("/admin/v2/namespaces/{}", encoded(&tenant))).await) {
            if topics.len() >= TOPICS {
                return topics;
            }
            let path = namespace.split('/').map(encoded).collect::<Vec<_>>().join("/");
            topics.extend(strings(&ask(http, &format!("/admin/v2/persistent/{path}")).await));
            topics.truncate(TOPICS);
        }
    }
    topics
}

/// The answer, or why there is none.
async fn ask(http: &Http, path: &str) -> Value {
    match http.ask(Method::GET, path, None).await {
        Ok(answer) if answer.is_success() => {
            serde_json::from_slice(&answer.body).unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&answer.body)))
        }
        Ok(answer) => json!({"status": answer.status, "body": String::from_utf8_lossy(&answer.body)}),
        Err(error) => json!({"error": error.to_string()}),
    }
}

fn machine() -> Value {
    let name = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let memory = std::fs::read_to_string("/proc/meminfo").ok();
    let memory = memory.as_deref().and_then(|text| text.lines().next()).map(str::to_owned);
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    json!({"system": text(name.sysname()), "release": text(name.release()), "cpu": text(name.machine()), "cores": cores, "memory": memory})
}

fn end_of(log: &Path) -> anyhow::Result<Value> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_END)))?;
        let mut end = Vec::new();
        file.take(LOG_END).read_to_end(&mut end)?;
        Ok(end)
    };
    let end = read().with_context(|| format!("cannot read {}", log.display()))?;
    ensure!(!end.is_empty(), "{} is empty", log.display());
    Ok(Value::from(String::from_utf8_lossy(&end)))
}

/// What stood out, a line each.
fn told(report: &Map<String, Value>) -> String {
    let mut text = String::new();
    match &report["health"] {
        Value::String(ok) if ok.trim() == "ok" => text.push_str("the broker is well: a message could be written and read back\n"),
        other => text.push_str(&format!("the broker is not well: {other}\n")),
    }
    for alarm in report["alarms"]["items"].as_array().into_iter().flatten() {
        text.push_str(&format!("alarm: {}\n", alarm["detail"].as_str().unwrap_or("it does not say which")));
    }
    text
}
