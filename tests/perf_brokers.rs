//! Brokers that the performance framework starts: fresh, with the conditions that were chosen, and said so in the record.

use std::{
    fs,
    io::Read,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use client::{Client, Message, Options, ProducerOptions};
use geminga_tests::harness::{self, eventually};
use perf::{
    broker::{BrokerChoice, Kept, Product, Started},
    interrupt::Interrupt,
    result::{Durability, RunResult},
    sample::Watch,
};
use rustix::process::{Pid, Signal, kill_process};

const TOPIC: &str = "persistent://public/default/perf-brokers";

fn started(choice: BrokerChoice) -> Started {
    let executable = Some(harness::binary().to_owned());
    let choice = BrokerChoice { start: Some(Product::Geminga), executable, ..choice };
    choice.start(&Interrupt::never()).expect("geminga can be started").expect("it was asked for")
}

async fn send(broker: &Started) -> Duration {
    let client = Client::connect(broker.service_url(), Options::without_reconnect()).await.expect("the broker takes connections");
    let producer = client.producer(TOPIC, ProducerOptions::default()).await.expect("a producer");
    let sent = Instant::now();
    producer.send(Message::new("x")).await.expect("a receipt");
    sent.elapsed()
}

#[tokio::test]
async fn a_broker_under_test_has_a_fresh_directory_and_tells_its_conditions() {
    let mut broker = started(BrokerChoice { settings: vec![("numIOThreads".to_owned(), "3".to_owned())], ..BrokerChoice::default() });
    send(&broker).await;
    let about = broker.about().clone();
    assert_eq!((about.product.as_str(), about.chosen["numIOThreads"].as_str()), ("Geminga", "3"));
    assert_eq!(about.service_url, broker.service_url());
    assert!(!about.version.is_empty() && about.version != "unknown", "{about:?}");
    let watch = Watch::start("broker", broker.pid()).unwrap();
    watch.begin_window();
    send(&broker).await;
    watch.end_window();
    let used = watch.stop();
    assert_eq!(used.threads.expect("threads were seen").loops, 3);
    let home = broker.home().to_owned();
    broker.stop().expect("it stops in order");
    drop(broker);
    assert!(!home.exists(), "{} is left", home.display());
}

#[tokio::test]
async fn a_broker_under_test_comes_back_on_the_same_addresses_with_its_data() {
    let mut broker = started(BrokerChoice::default());
    send(&broker).await;
    let (url, pid) = (broker.service_url().to_owned(), broker.pid());
    broker.kill();
    broker.restart().expect("it starts again");
    assert_eq!(broker.service_url(), url);
    assert_ne!(broker.pid(), pid);
    send(&broker).await;
    assert!(broker.home().join("data").exists());
}

#[tokio::test]
async fn a_broker_that_does_not_sync_is_not_durable_in_record_and_log() {
    let broker = started(BrokerChoice { sync_off: true, ..BrokerChoice::default() });
    send(&broker).await;
    let about = broker.about();
    assert!(matches!(&about.durability, Durability::NotDurable(reasons) if reasons.iter().any(|why| why.contains("sync"))), "{about:?}");
    assert!(about.disk.sync_off);
    let log = fs::read_to_string(broker.log()).unwrap();
    assert!(log.contains("NOT DURABLE"), "{log}");
}

#[tokio::test]
async fn a_broker_on_tmpfs_is_not_durable() {
    let broker = started(BrokerChoice { tmpfs: true, ..BrokerChoice::default() });
    assert_eq!(broker.about().disk.file_system, "tmpfs");
    assert!(matches!(broker.about().durability, Durability::NotDurable(_)));
}

#[tokio::test]
async fn a_receipt_waits_for_a_slow_disk() {
    const DELAY: u32 = 40;
    let broker = started(BrokerChoice { added_sync_ms: Some(DELAY), ..BrokerChoice::default() });
    assert_eq!(broker.about().disk.added_sync_ms, Some(f64::from(DELAY)));
    let took = send(&broker).await;
    assert!(took >= Duration::from_millis(DELAY.into()), "{took:?}");
}

#[test]
fn a_broker_that_does_not_start_tells_what_it_printed() {
    let settings = vec![("numIOThreads".to_owned(), "many".to_owned())];
    let executable = Some(harness::binary().to_owned());
    let error = BrokerChoice { start: Some(Product::Geminga), settings, executable, ..BrokerChoice::default() }
        .start(&Interrupt::never())
        .unwrap_err();
    let told = format!("{error:#}");
    assert!(told.contains("numIOThreads") && told.contains("many"), "{told}");
}

/// Where the only broker below a directory is, once it serves: its process.
fn only_broker(below: &Path) -> Option<u32> {
    let home = fs::read_dir(below).ok()?.next()?.ok()?.path();
    let endpoints: serde_json::Value = serde_json::from_slice(&fs::read(home.join("data/endpoints.json")).ok()?).ok()?;
    u32::try_from(endpoints["pid"].as_u64()?).ok()
}

#[tokio::test]
async fn an_interrupted_run_leaves_neither_its_broker_nor_its_directory() {
    for signal in [Signal::INT, Signal::TERM] {
        let folder = tempfile::tempdir().unwrap();
        let mut run = Command::new(harness::binary());
        run.args(["perf", "run", "tiny", "--quiet", "--start", "geminga", "--set", "measure.seconds=600", "--data-below"])
            .arg(folder.path());
        let mut run = run.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program starts");
        eventually("the broker of the run serves", async || only_broker(folder.path()).is_some()).await;
        let broker = only_broker(folder.path()).unwrap();
        kill_process(Pid::from_child(&run), signal).unwrap();
        let mut told = String::new();
        run.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        assert_eq!(run.wait().unwrap().code(), Some(130), "{told}");
        assert!(told.contains("ended by SIG"), "{told}");
        assert!(!Path::new("/proc").join(broker.to_string()).exists(), "process {broker} is left");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "a directory is left");
    }
}

#[tokio::test]
async fn a_broker_that_is_kept_serves_several_runs_and_goes_with_its_keeper() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kept.json");
    let mut keeper = Command::new(harness::binary());
    keeper.args(["perf", "broker", "--start", "geminga", "--set-broker", "numIOThreads=2", "--out"]).arg(&file);
    let mut keeper = keeper.stdout(Stdio::null()).spawn().expect("the program starts");
    eventually("the broker is kept", async || Kept::read(&file).is_ok()).await;
    for run in ["first", "second"] {
        let out = folder.path().join(run);
        let mut command = Command::new(harness::binary());
        command.args(["perf", "run", "tiny", "--quiet", "--set", "measure.seconds=0.3", "--broker"]).arg(&file).arg("--out").arg(&out);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let record = RunResult::read(&out).unwrap();
        assert_eq!(record.settings.broker.chosen["numIOThreads"], "2");
        assert!(!record.settings.broker.receipts.is_empty() && record.brokers[0].age_seconds.is_some());
    }
    kill_process(Pid::from_child(&keeper), Signal::INT).unwrap();
    assert!(keeper.wait().unwrap().success());
    assert!(!file.exists(), "the file says where a broker is that is gone");
}

/// What a directory has to hold to pass for the home of a JDK.
fn home_of_java(version: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("bin")).unwrap();
    fs::write(home.path().join("bin/java"), "").unwrap();
    fs::write(home.path().join("release"), format!("JAVA_VERSION=\"{version}\"\n")).unwrap();
    home
}

fn what_is_missing(java: &Path) -> String {
    let empty = tempfile::tempdir().unwrap();
    let mut run = Command::new(harness::binary());
    run.args(["perf", "run", "tiny", "--quiet", "--start", "pulsar", "--executable"]).arg(java);
    let output = run.env("PATH", empty.path()).env("XDG_CACHE_HOME", empty.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_peer_that_cannot_be_started_tells_what_to_install() {
    let told = what_is_missing(home_of_java("17.0.15").path());
    assert!(told.contains("is Java 17") && told.contains("needs 21 or newer"), "{told}");
    let told = what_is_missing(home_of_java("25.0.1").path());
    assert!(told.contains("install Maven") && told.contains("--service-url"), "{told}");
}

#[tokio::test]
#[ignore = "needs Maven, a JDK of 21 or newer and some hundred megabytes of jars"]
async fn apache_pulsar_can_be_started_and_takes_messages() {
    let mut broker = BrokerChoice { start: Some(Product::Pulsar), ..BrokerChoice::default() }.start(&Interrupt::never()).unwrap().unwrap();
    send(&broker).await;
    let about = broker.about();
    assert_eq!((about.product.as_str(), about.chosen["journalSyncData"].as_str()), ("Apache Pulsar", "true"));
    assert_eq!(about.durability, Durability::Durable);
    let watch = Watch::start("broker", broker.pid()).unwrap();
    watch.begin_window();
    send(&broker).await;
    watch.end_window();
    assert!(watch.stop().threads.is_some_and(|threads| threads.loops > 0));
    broker.stop().expect("it stops in order");
}
