//! What is measured: a scenario, read from YAML, complete and checked before anything connects.
//!
//! A file may extend another (`layers`); the environment and the command line come on top; what nobody said has the default that
//! stands here. Everything that is wrong is told at once, by path and value.

pub mod catalog;
mod fields;
mod layers;

use serde::Serialize;
use serde_json::Value;

use self::fields::Fields;
pub use self::layers::{Override, resolve};

/// A whole scenario. Serialized, it is a scenario file again in which nothing is left to a default.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scenario {
    /// What it is good for, in a sentence.
    pub description: String,
    /// Topics, over which devices are spread; a device keeps its topic.
    pub topics: usize,
    /// Who has something to say.
    pub devices: Devices,
    /// What they say.
    pub message: MessageShape,
    /// Through whom they say it.
    pub gateways: Gateways,
    /// How much, how fast.
    pub load: Load,
    /// Who listens.
    pub applications: Applications,
    /// What happens before anything is measured.
    pub warm_up: WarmUp,
    /// What is measured.
    pub measure: Measure,
    /// How long the end may take.
    pub drain: Drain,
    /// What the broker is asked for.
    pub broker: BrokerAsked,
    /// What the load generator is made of.
    pub client: ClientShape,
}

/// The senders of the readings.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Devices {
    /// How many there are. Each has at most one send in flight.
    pub count: usize,
    /// Readings that a device hands over at once; with more than one they are a batch, and one send.
    pub burst: usize,
}

/// The messages.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageShape {
    /// Payload bytes.
    pub bytes: usize,
    /// Whether a send is a batch; it holds readings of one device, so one key.
    pub batched: bool,
}

/// The gateways, each a client with connections of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Gateways {
    /// How many there are.
    pub count: usize,
    /// Topics that each of them has a producer on; none: all. Gateways are dealt topics in turn.
    pub topics_each: Option<usize>,
    /// How they get their producers.
    pub producer: GatewayProducer,
}

/// How gateways get their producers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayProducer {
    /// All producers are created before anything is sent; otherwise each on its first use, one at a time.
    pub precreate: bool,
    /// Producers that are created at a time, in a random order that is the same for every run; 1: in the gateways' order.
    pub precreate_concurrency: usize,
}

/// The offered load.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Load {
    /// Messages a second; none: as many as receipts come back for.
    pub rate: Option<f64>,
    /// Messages that may wait for their receipts, over all gateways.
    pub max_in_flight: usize,
    /// Microseconds between two looks at what is due, when the rate is limited.
    pub tick_micros: u64,
}

/// The applications: each is one Key_Shared subscription.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Applications {
    /// How many there are.
    pub count: usize,
    /// Consuming clients of each; a client is on every topic.
    pub pods: usize,
    /// Messages that the broker may send ahead to each consumer.
    pub receiver_queue: u32,
    /// When each joins, in seconds of the measured window; an application that is not named is there from the start.
    /// Every one has its subscription from the start.
    pub join_at_seconds: Vec<f64>,
    /// How acknowledgements are gathered.
    pub acks: AckGroups,
    /// Pods that restart.
    pub restarts: Option<Restarts>,
}

/// How acknowledgements are gathered before they leave.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AckGroups {
    /// After so many milliseconds at the latest; 0: with whatever is written next.
    pub millis: u64,
    /// As soon as a consumer has so many.
    pub count: usize,
}

/// Pods that go and come back while the window is measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Restarts {
    /// Seconds from one time to the next.
    pub every_seconds: f64,
    /// Share of each application's pods, in per cent; at least one pod.
    pub pods_percent: f64,
}

/// What is sent before the window. It is checked like everything else and not measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WarmUp {
    /// For so long, over all rounds.
    pub seconds: Option<f64>,
    /// So many messages, over all rounds.
    pub messages: Option<u64>,
    /// Parts, after each of which everything must have arrived.
    pub rounds: u32,
    /// Quiet seconds between the last round and the window.
    pub pause_seconds: f64,
}

/// The measured window.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Measure {
    /// It ends after so long ...
    pub seconds: Option<f64>,
    /// ... or after so many messages, whatever comes first.
    pub messages: Option<u64>,
}

/// The time after the window, until everything has arrived.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Drain {
    /// Seconds without anything arriving after which the rest is given up as lost.
    pub silence_seconds: f64,
    /// Seconds after which the rest is given up in any case.
    pub timeout_seconds: f64,
}

/// What the broker is asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BrokerAsked {
    /// Messages that are sent twice are stored once; set on the run's namespace through the admin URL.
    pub deduplication: bool,
    /// The connections are encrypted.
    pub tls: bool,
    /// The broker is killed and started again so many seconds into the window, and all gateways come back at once.
    pub restart_at_seconds: Option<f64>,
}

/// What the load generator is made of.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientShape {
    /// Threads that drive gateways; devices and gateways are divided among them.
    pub gateway_threads: usize,
    /// Threads that drive pods; an application stays on one.
    pub application_threads: usize,
}

/// Everything that is wrong with a scenario.
#[derive(Debug, thiserror::Error)]
#[error("the scenario cannot be used:\n  {}", .0.join("\n  "))]
pub struct ScenarioErrors(pub Vec<String>);

/// Bytes that each payload begins with: device, number, time and checksum.
pub const SMALLEST_MESSAGE: usize = 24;
const LARGEST_MESSAGE: usize = 5 * 1024 * 1024 - 10 * 1024;
/// A receipt's token holds a device's number in 24 bits.
const MOST_DEVICES: usize = 1 << 24;
const A_DAY: f64 = 86_400.0;

impl Scenario {
    /// Reads a scenario that has no `extends` left.
    ///
    /// # Errors
    /// All that is wrong, each with its path, its value and what is allowed.
    pub fn read(value: &Value) -> Result<Self, ScenarioErrors> {
        let mut fields = Fields::new(value);
        let scenario = Self {
            description: fields.text("description", ""),
            topics: fields.number("topics", 1, 1..=1_000_000),
            devices: Devices {
                count: fields.number("devices.count", 300_000, 1..=MOST_DEVICES),
                burst: fields.number("devices.burst", 1, 1..=10_000),
            },
            message: MessageShape {
                bytes: fields.number("message.bytes", 64, SMALLEST_MESSAGE..=LARGEST_MESSAGE),
                batched: fields.flag("message.batched", false),
            },
            gateways: read_gateways(&mut fields),
            load: Load {
                rate: fields.maybe_decimal("load.rate", 0.1..=1e8),
                max_in_flight: fields.number("load.maxInFlight", 20_000, 1..=MOST_DEVICES),
                tick_micros: fields.number("load.tickMicros", 200, 10..=1_000_000),
            },
            applications: read_applications(&mut fields),
            warm_up: WarmUp {
                seconds: fields.maybe_decimal("warmUp.seconds", 0.0..=A_DAY),
                messages: fields.maybe_number("warmUp.messages", 0..=u64::MAX >> 1),
                rounds: fields.number("warmUp.rounds", 2, 1..=1000),
                pause_seconds: fields.decimal("warmUp.pauseSeconds", 1.0, 0.0..=A_DAY),
            },
            measure: Measure {
                seconds: fields.maybe_decimal("measure.seconds", 0.1..=A_DAY),
                messages: fields.maybe_number("measure.messages", 1..=u64::MAX >> 1),
            },
            drain: Drain {
                silence_seconds: fields.decimal("drain.silenceSeconds", 20.0, 0.1..=A_DAY),
                timeout_seconds: fields.decimal("drain.timeoutSeconds", 300.0, 0.1..=A_DAY),
            },
            broker: BrokerAsked {
                deduplication: fields.flag("broker.deduplication", true),
                tls: fields.flag("broker.tls", false),
                restart_at_seconds: fields.maybe_decimal("broker.restartAtSeconds", 0.0..=A_DAY),
            },
            client: ClientShape {
                gateway_threads: fields.number("client.gatewayThreads", 1, 1..=256),
                application_threads: fields.number("client.applicationThreads", 1, 1..=256),
            },
        };
        scenario.check_together(&mut fields);
        fields.finish().map_err(ScenarioErrors)?;
        Ok(scenario)
    }

    /// What no field can say of itself.
    fn check_together(&self, fields: &mut Fields) {
        if self.measure.seconds.is_none() && self.measure.messages.is_none() {
            fields.refuse("measure", "", "set measure.seconds or measure.messages, so that the window has an end");
        }
        if self.devices.burst > 1 && !self.message.batched {
            fields.refuse("devices.burst", &self.devices.burst.to_string(), "more than 1 needs message.batched=true");
        }
        let sends = self.load.max_in_flight.div_ceil(self.devices.burst);
        if sends > self.devices.count / 2 {
            let allowed = format!(
                "at most half of devices.count ({}) in sends, since each device has one in flight and an idle one must be found",
                self.devices.count
            );
            fields.refuse("load.maxInFlight", &self.load.max_in_flight.to_string(), &allowed);
        }
        if self.load.rate.is_none() && self.load.max_in_flight < self.gateways.count {
            let allowed = format!("at least one for each of {} gateways, as long as load.rate is not set", self.gateways.count);
            fields.refuse("load.maxInFlight", &self.load.max_in_flight.to_string(), &allowed);
        }
        if let Some(each) = self.gateways.topics_each
            && (each > self.topics || self.gateways.count.saturating_mul(each) < self.topics)
        {
            let allowed = format!(
                "at most {} topics, and enough that {} gateways reach all of them, since an unreached topic gets no messages",
                self.topics, self.gateways.count
            );
            fields.refuse("gateways.topicsEach", &each.to_string(), &allowed);
        }
        if self.applications.join_at_seconds.len() > self.applications.count {
            let allowed = format!("at most one time for each of {} applications", self.applications.count);
            fields.refuse("applications.joinAtSeconds", &format!("{:?}", self.applications.join_at_seconds), &allowed);
        }
        for (name, threads, most) in [
            ("client.gatewayThreads", self.client.gateway_threads, self.gateways.count),
            ("client.applicationThreads", self.client.application_threads, self.applications.count),
        ] {
            if threads > most {
                fields.refuse(name, &threads.to_string(), &format!("at most {most}, one for each that they drive"));
            }
        }
        let fewest = 2 * self.topics * self.client.gateway_threads;
        if self.devices.count < fewest {
            let allowed = format!("at least {fewest}: two for each topic and each of client.gatewayThreads");
            fields.refuse("devices.count", &self.devices.count.to_string(), &allowed);
        }
    }

    /// The scenario as a file that leaves nothing to a default.
    #[must_use]
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).expect("a scenario is plain values")
    }

    /// Topics that a gateway has a producer on.
    #[must_use]
    pub fn topics_each(&self) -> usize {
        self.gateways.topics_each.unwrap_or(self.topics)
    }

    /// When an application joins, in seconds of the window.
    #[must_use]
    pub fn join_at(&self, application: usize) -> f64 {
        self.applications.join_at_seconds.get(application).copied().unwrap_or(0.0)
    }
}

fn read_gateways(fields: &mut Fields) -> Gateways {
    Gateways {
        count: fields.number("gateways.count", 10, 1..=100_000),
        topics_each: fields.maybe_number("gateways.topicsEach", 1..=1_000_000),
        producer: GatewayProducer {
            precreate: fields.flag("gateways.producer.precreate", true),
            precreate_concurrency: fields.number("gateways.producer.precreateConcurrency", 32, 1..=100_000),
        },
    }
}

fn read_applications(fields: &mut Fields) -> Applications {
    let restarts = fields.has("applications.restarts").then(|| Restarts {
        every_seconds: fields.decimal("applications.restarts.everySeconds", 30.0, 0.1..=A_DAY),
        pods_percent: fields.decimal("applications.restarts.podsPercent", 10.0, 0.001..=100.0),
    });
    Applications {
        count: fields.number("applications.count", 1, 1..=10_000),
        pods: fields.number("applications.pods", 1, 1..=100_000),
        receiver_queue: fields.number("applications.receiverQueue", 1000, 1..=1_000_000),
        join_at_seconds: fields.decimals("applications.joinAtSeconds", 0.0..=A_DAY),
        acks: AckGroups {
            millis: fields.number("applications.acks.millis", 100, 0..=60_000),
            count: fields.number("applications.acks.count", 1000, 1..=100_000),
        },
        restarts,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn complaints(value: &Value) -> Vec<String> {
        Scenario::read(value).expect_err("a wrong scenario").0
    }

    #[test]
    fn what_nobody_said_has_its_default() {
        let scenario = Scenario::read(&json!({"measure": {"seconds": 1}})).unwrap();
        assert_eq!(scenario.gateways.producer.precreate_concurrency, 32);
        assert!(scenario.gateways.producer.precreate);
        assert_eq!((scenario.applications.receiver_queue, scenario.applications.acks.count), (1000, 1000));
    }

    #[test]
    fn a_saved_scenario_is_read_as_the_same() {
        let scenario = Scenario::read(&json!({"measure": {"messages": 5}, "applications": {"restarts": {"podsPercent": 20}}})).unwrap();
        assert_eq!(Scenario::read(&scenario.to_json()).unwrap(), scenario);
        let mut older = scenario.to_json();
        older["gateways"]["producer"].as_object_mut().unwrap().remove("precreateConcurrency");
        assert_eq!(Scenario::read(&older).unwrap().gateways.producer.precreate_concurrency, 32);
    }

    #[test]
    fn a_concurrency_below_one_is_refused_by_name() {
        for value in [0, -3] {
            let wrong = complaints(&json!({"measure": {"seconds": 1}, "gateways": {"producer": {"precreateConcurrency": value}}}));
            assert_eq!(wrong.len(), 1, "{wrong:?}");
            assert!(wrong[0].contains("gateways.producer.precreateConcurrency") && wrong[0].contains("at least 1"), "{wrong:?}");
        }
    }

    #[test]
    fn everything_wrong_is_told_at_once() {
        let wrong = complaints(&json!({
            "topics": 0, "message": {"bytes": "many"}, "load": {"rate": -1, "maxinflight": 3}, "gatewyas": {}, "devices": 7,
        }));
        let named = ["topics", "message.bytes", "load.rate", "load.maxinflight", "gatewyas", "devices", "measure"];
        for path in named {
            assert!(wrong.iter().any(|line| line.starts_with(path)), "{path} is not told: {wrong:?}");
        }
        assert!(wrong.iter().any(|line| line.contains("did you mean gateways")), "{wrong:?}");
        assert!(wrong.iter().any(|line| line.contains("did you mean load.maxInFlight")), "{wrong:?}");
    }

    #[test]
    fn fields_that_do_not_fit_together_are_refused() {
        let wrong = complaints(&json!({
            "measure": {"seconds": 1}, "devices": {"count": 100, "burst": 2}, "load": {"maxInFlight": 1000},
            "applications": {"joinAtSeconds": [0, 1]}, "client": {"applicationThreads": 2},
        }));
        for path in ["devices.burst", "load.maxInFlight", "applications.joinAtSeconds", "client.applicationThreads"] {
            assert!(wrong.iter().any(|line| line.starts_with(path)), "{path} is not told: {wrong:?}");
        }
    }
}
