//! How soon a broker is of use, and what it takes while it is of none.

use std::{
    net::TcpListener,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use clap::Args;
use client::{Client, ConsumerOptions, Error, Message, Options, ProducerOptions};
use geminga_tests::harness::{binary, command};
use serde_json::{Value, json};

use crate::cpu::{Usage, memory};

/// What to do.
#[derive(Debug, Args)]
pub(crate) struct First {
    /// Starts of which the median is taken
    #[arg(long, default_value_t = 10)]
    starts: usize,
    /// Topics that are loaded while the CPU of doing nothing is measured
    #[arg(long, default_value_t = 1000)]
    topics: usize,
    /// Seconds of doing nothing
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
}

impl First {
    pub(crate) async fn run(&self, settings: &[(String, String)]) -> anyhow::Result<(Value, bool)> {
        let mut times = Vec::new();
        for _ in 0..self.starts {
            times.push(first_message(settings).await?.as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        let (idle_memory, busy_memory, share) = self.idle(settings).await?;
        let report = json!({
            "start to first message ms, median": tenth(times[times.len() / 2]),
            "start to first message ms, fastest": tenth(times[0]),
            "start to first message ms, slowest": tenth(times[times.len() - 1]),
            "starts": self.starts,
            "idle RSS MB": tenth(idle_memory as f64 / 1e6),
            "RSS MB with topics loaded": tenth(busy_memory as f64 / 1e6),
            "topics loaded": self.topics,
            "idle CPU % of a core": (share * 1e5).round() / 1e3,
        });
        Ok((report, true))
    }

    /// Memory of a broker without and with topics, and the share of a core it uses for nothing at all.
    async fn idle(&self, settings: &[(String, String)]) -> anyhow::Result<(u64, u64, f64)> {
        let broker = Started::new(settings)?;
        let client = broker.connect().await?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let (idle_memory, _) = memory(broker.child.id())?;
        let mut producers = Vec::new();
        for topic in 0..self.topics {
            let producer = client.producer(&format!("idle-{topic}"), ProducerOptions::default()).await?;
            producer.send(Message::new("x")).await?;
            producers.push(producer);
        }
        // Whatever follows a topic's creation has had its time.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let before = (Usage::of(broker.child.id())?, Instant::now());
        tokio::time::sleep(Duration::from_secs_f64(self.seconds)).await;
        let used = Usage::of(broker.child.id())?.since(&before.0);
        let share = used.of_threads().as_secs_f64() / before.1.elapsed().as_secs_f64();
        Ok((idle_memory, memory(broker.child.id())?.0, share))
    }
}

fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// From the start of the process on an empty directory to a message that a client has received.
async fn first_message(settings: &[(String, String)]) -> anyhow::Result<Duration> {
    let broker = Started::new(settings)?;
    let client = broker.connect().await?;
    let consumer = client.consumer("first", ConsumerOptions::new("s")).await?;
    let producer = client.producer("first", ProducerOptions::default()).await?;
    producer.enqueue(Message::new("x")).await?;
    let message = consumer.recv().await?;
    anyhow::ensure!(message.payload == "x", "another message came");
    Ok(broker.since.elapsed())
}

/// A broker that was just started on a port known before, so that nobody waits for a file.
struct Started {
    child: Child,
    since: Instant,
    url: String,
    _data: tempfile::TempDir,
}

impl Started {
    fn new(settings: &[(String, String)]) -> anyhow::Result<Self> {
        let (pulsar, http) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
        let ports = (pulsar.local_addr()?.port().to_string(), http.local_addr()?.port().to_string());
        drop((pulsar, http));
        let data = tempfile::tempdir()?;
        let mut command = command(&data.path().join("data"), (&ports.0, &ports.1));
        for (key, value) in settings {
            command.args(["--set", &format!("{key}={value}")]);
        }
        command.stdout(Stdio::null()).stderr(Stdio::null());
        // Built before, so that building is not part of starting.
        binary();
        let since = Instant::now();
        Ok(Self { child: command.spawn()?, since, url: format!("pulsar://127.0.0.1:{}", ports.0), _data: data })
    }

    async fn connect(&self) -> anyhow::Result<Client> {
        loop {
            match Client::connect(&self.url, Options::without_reconnect()).await {
                Err(Error::Connect { .. }) if self.since.elapsed() < Duration::from_secs(30) => {
                    tokio::time::sleep(Duration::from_micros(500)).await;
                }
                client => return Ok(client?),
            }
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
