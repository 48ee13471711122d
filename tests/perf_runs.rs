//! `geminga perf` against a real broker: a small run is valid, and whatever a broker may do wrong makes it invalid.

use client::{Client, ConsumerOptions, Inbox, Message, Options, ProducerOptions, SubscriptionType};
use perf::{
    access::Access,
    broker::{BrokerChoice, Product},
    interrupt::Interrupt,
    result::BrokerUnderTest,
    run::{Outcome, Run, summary},
    scenario::{Override, resolve},
};

use geminga_tests::harness::{Broker, binary};

use crate::tokens::Keys;

fn tiny(broker: &Broker, changes: &[&str]) -> Run {
    let mut all = vec!["measure.messages=600", "warmUp.messages=100", "load.rate=null", "load.maxInFlight=50", "drain.silenceSeconds=2"];
    all.extend(changes);
    let overrides: Vec<_> = all.into_iter().map(|text| Override::parse(text).unwrap()).collect();
    let endpoints = broker.endpoints();
    Run {
        name: "tiny".to_owned(),
        scenario: resolve("tiny", &overrides).unwrap(),
        overrides: Vec::new(),
        seed: 7,
        broker: BrokerUnderTest { service_url: endpoints.pulsar.clone(), admin_url: endpoints.http.clone(), ..BrokerUnderTest::default() },
        access: Access::default(),
        broker_pids: vec![broker.pid()],
        namespace: Some("public/perf-tests".to_owned()),
        shows_progress: false,
    }
}

/// So that a test is there before the run is.
async fn make_namespace(broker: &Broker) {
    perf::admin::Admin::new(&broker.endpoints().http, &Access::default())
        .unwrap()
        .create_namespace("public/perf-tests", true)
        .await
        .unwrap();
}

async fn played(run: &Run) -> Outcome {
    run.run(None, &Interrupt::never()).await.unwrap_or_else(|error| panic!("{error:#}"))
}

fn is_valid(outcome: &Outcome) -> bool {
    outcome.result.correctness.verdict().is_valid()
}

#[tokio::test]
async fn a_run_is_valid_and_counts_what_was_sent() {
    let broker = Broker::start();
    let outcome = played(&tiny(&broker, &["applications.joinAtSeconds=[0, 0.1]"])).await;
    assert!(is_valid(&outcome), "{}", summary(&outcome.result));
    let result = &outcome.result;
    assert_eq!(result.correctness.published, 700);
    assert_eq!(result.correctness.applications.iter().map(|it| it.received).collect::<Vec<_>>(), [700, 700]);
    assert_eq!(result.latency.end_to_end.count, 1200, "each measured message is measured once for each application");
    assert_eq!(result.latency.publish.count, 600);
    assert_eq!(result.catch_up.len(), 1);
    assert!(result.broker_cpu_per_million().is_some() && result.generator.is_some());
}

#[tokio::test]
async fn bursts_travel_as_batches_and_pods_may_restart() {
    let broker = Broker::start();
    let changes = [
        "devices.burst=5",
        "message.batched=true",
        "load.rate=3000",
        "measure.messages=3000",
        "applications.restarts={everySeconds: 0.3, podsPercent: 34}",
    ];
    let outcome = played(&tiny(&broker, &changes)).await;
    assert!(is_valid(&outcome), "{}", summary(&outcome.result));
    assert_eq!(outcome.result.correctness.published, 3100);
}

#[tokio::test]
async fn producers_may_be_created_one_at_a_time_or_on_first_use_by_several_threads() {
    let broker = Broker::start();
    for changes in [
        ["gateways.producer.precreateConcurrency=1", "client.gatewayThreads=2"],
        ["gateways.producer.precreate=false", "client.applicationThreads=2"],
    ] {
        let run = Run { namespace: None, ..tiny(&broker, &changes) };
        let outcome = played(&run).await;
        assert!(is_valid(&outcome), "{}", summary(&outcome.result));
    }
}

#[tokio::test]
async fn messages_that_somebody_steals_make_a_run_invalid() {
    let broker = Broker::start();
    let run = tiny(&broker, &["warmUp.messages=0"]);
    make_namespace(&broker).await;
    let client = Client::connect(broker.url(), Options::default()).await.unwrap();
    let inbox = Inbox::new();
    let options = ConsumerOptions { kind: SubscriptionType::KeyShared, inbox: inbox.clone(), ..ConsumerOptions::new(perf::pods::name(0)) };
    let _thief = client.consumer("public/perf-tests/telemetry-1", options).await.unwrap();
    let theft = tokio::spawn(async move {
        loop {
            if let client::Item::Message(message) = inbox.next().await {
                message.ack();
            }
        }
    });
    let outcome = played(&run).await;
    theft.abort();
    assert!(!is_valid(&outcome), "{}", summary(&outcome.result));
    assert!(summary(&outcome.result).starts_with("INVALID"), "{}", summary(&outcome.result));
    let [robbed, other] = outcome.result.correctness.applications.as_slice() else { panic!("two applications") };
    assert!(robbed.missing + robbed.ordering_violations > 0 && other.missing == 0, "{}", summary(&outcome.result));
}

#[tokio::test]
async fn a_message_that_no_device_sent_makes_a_run_invalid() {
    let broker = Broker::start();
    let client = Client::connect(broker.url(), Options::default()).await.unwrap();
    make_namespace(&broker).await;
    let forger = client.producer("public/perf-tests/telemetry-2", ProducerOptions::default()).await.unwrap();
    for application in 0..2 {
        let options = ConsumerOptions {
            kind: SubscriptionType::KeyShared,
            manual_permits: true,
            ..ConsumerOptions::new(perf::pods::name(application))
        };
        client.consumer("public/perf-tests/telemetry-2", options).await.unwrap().close().await.unwrap();
    }
    forger.send(Message::new("not a reading").key("k")).await.unwrap();
    let outcome = played(&tiny(&broker, &["warmUp.messages=0"])).await;
    assert!(outcome.result.correctness.applications.iter().all(|application| application.invalid == 1), "{}", summary(&outcome.result));
    assert!(!is_valid(&outcome));
}

#[test]
fn the_command_says_what_is_wrong_with_a_scenario_and_ends_with_3() {
    let output = std::process::Command::new(binary())
        .args(["perf", "run", "tiny", "--set", "gateways.producer.precreateConcurrency=0", "--set", "topics=-1"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("gateways.producer.precreateConcurrency: 0 is not allowed") && told.contains("topics: -1"), "{told}");
}

#[test]
fn the_command_runs_keeps_a_report_and_says_valid_first() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let output = std::process::Command::new(binary())
        .args(["perf", "run", "tiny", "--quiet", "--states", "--set", "measure.seconds=0.5"])
        .args(["--service-url", &broker.endpoints().pulsar, "--admin-url", &broker.endpoints().http])
        .arg("--out")
        .arg(&out)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.starts_with("VALID\n"), "{told}");
    let sent = perf::tracker::Numbers::load(&out.join("producers.numbers")).unwrap();
    let seen = perf::tracker::Numbers::load(&out.join("application-1.numbers")).unwrap();
    assert_eq!(sent, seen);
    assert!(out.join("index.html").is_file() && out.join("result.json").is_file());
}

/// Status and everything printed of `geminga perf run tiny`, shortened, with these arguments.
fn command(arguments: &[&str]) -> (Option<i32>, String) {
    let output = std::process::Command::new(binary())
        .args(["perf", "run", "tiny", "--quiet", "--set", "measure.seconds=0.3", "--set", "warmUp.messages=50"])
        .args(arguments)
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[test]
fn a_run_over_tls_has_certificates_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let (code, told) = command(&["--start", "geminga", "--set", "broker.tls=true", "--out", out.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.starts_with("VALID\n"), "{told}");
    let result: serde_json::Value = serde_json::from_slice(&std::fs::read(out.join("result.json")).unwrap()).unwrap();
    assert_eq!(result["settings"]["scenario"]["broker"]["tls"], true);
    let url = result["settings"]["broker"]["service_url"].as_str().unwrap();
    assert!(url.starts_with("pulsar+ssl://"), "{url}");
}

#[test]
fn a_scenario_that_wants_tls_is_not_run_in_the_clear() {
    let (code, told) = command(&["--set", "broker.tls=true", "--service-url", "pulsar://localhost:1"]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("broker.tls") && told.contains("pulsar+ssl://"), "{told}");
}

#[test]
fn options_that_do_not_go_together_or_cannot_be_read_are_refused_by_name() {
    let url = "pulsar+ssl://localhost:1";
    for (arguments, expected, named) in [
        (["--tls"].as_slice(), 2, "--start"),
        (&["--service-url", url, "--tls-cert", "c.pem"], 2, "--tls-key"),
        (&["--token", "a", "--token-file", "b"], 2, "--token-file"),
        (&["--service-url", url, "--tls-trust", "/nowhere/ca.pem"], 1, "/nowhere/ca.pem"),
        (&["--token-file", "/nowhere/token"], 1, "/nowhere/token"),
        (&["--start", "pulsar", "--tls"], 1, "--service-url"),
        (&["--admin-url", "localhost:8080"], 1, "https://host:port"),
    ] {
        let (code, told) = command(arguments);
        assert_eq!(code, Some(expected), "{arguments:?}: {told}");
        assert!(told.contains(named), "{arguments:?}: {told}");
    }
}

#[test]
fn a_token_opens_the_broker_and_its_administration() {
    let keys = Keys::new();
    let broker = keys.setup().start();
    let endpoints = broker.endpoints();
    let addresses = ["--service-url", &endpoints.pulsar, "--admin-url", &endpoints.http];
    let out = keys.at("run");
    let token = keys.token("me");
    let (code, told) = command(&[&addresses[..], &["--out", out.to_str().unwrap(), "--token", &token]].concat());
    assert_eq!(code, Some(0), "{told}");
    let (code, told) = command(&addresses);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("401"), "{told}");
}

#[tokio::test]
async fn after_a_broker_was_killed_every_gateway_comes_back_and_is_timed() {
    let choice = BrokerChoice { start: Some(Product::Geminga), executable: Some(binary().to_owned()), ..BrokerChoice::default() };
    let mut broker = choice.start(&Interrupt::never()).unwrap().unwrap();
    let changes =
        ["broker.restartAtSeconds=0.3", "measure.messages=3000", "load.rate=1000", "client.gatewayThreads=2", "drain.silenceSeconds=20"];
    let overrides: Vec<_> = ["warmUp.messages=100"].iter().chain(&changes).map(|text| Override::parse(text).unwrap()).collect();
    let run = Run {
        name: "tiny".to_owned(),
        scenario: resolve("tiny", &overrides).unwrap(),
        overrides: Vec::new(),
        seed: 7,
        broker: broker.about().clone(),
        access: Access::default(),
        broker_pids: vec![broker.pid()],
        namespace: None,
        shows_progress: false,
    };
    let outcome = run.run(Some(&mut broker), &Interrupt::never()).await.unwrap_or_else(|error| panic!("{error:#}"));
    assert!(is_valid(&outcome), "{}", summary(&outcome.result));
    let storm = outcome.result.reconnect.expect("the broker was killed");
    assert_eq!((storm.gateways, storm.publish_again.len(), storm.acknowledged_lost), (5, 5, 0));
    assert!(storm.all_attached.is_some_and(|seconds| seconds > 0.0) && storm.all_publish.is_some(), "{storm:?}");
}
