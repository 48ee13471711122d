//! Apache Pulsar standalone as the broker under test: broker and bookie in one Java process, metadata in a RocksDB beside them.
//!
//! A Java process is slow until its code is compiled: the scenario's warm-up is what warms it, so it should not be shortened.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::Context;

use super::{
    BrokerChoice, disk,
    maven::{self, VERSION},
    started::{Addresses, Recipe, Started},
};
use crate::{
    interrupt::Interrupt,
    result::{BrokerUnderTest, Disk},
};

/// The oldest Java that the pinned release runs on.
const OLDEST_JAVA: u32 = 21;
const PATIENCE: Duration = Duration::from_secs(180);
const HTTP_PATIENCE: Duration = Duration::from_secs(2);

/// Memory as Pulsar's own start script asks for it. G1 in place of the script's choice for large machines: on few processors it costs less.
const JVM: &[&str] = &["-Xms2g", "-Xmx2g", "-XX:MaxDirectMemorySize=4g", "-XX:+UseG1GC", "-XX:+PerfDisableSharedMem"];

/// What Netty, BookKeeper and RocksDB need of the JVM.
const NEEDED: &[&str] = &[
    "--enable-native-access=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.util.zip=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-opens=java.base/sun.net=ALL-UNNAMED",
    "--add-opens=java.management/sun.management=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.recycler.maxCapacityPerThread=4096",
    "-Djava.net.preferIPv4Stack=true",
    "-Dlog4j.shutdownHookEnabled=false",
    "-Dbookkeeper.metadata.bookie.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataBookieDriver",
    "-Dbookkeeper.metadata.client.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataClientDriver",
];

/// Warnings only: what a broker prints is no part of the measurement.
const LOGGING: &str = r#"<Configuration status="ERROR">
  <Appenders><Console name="out"><PatternLayout pattern="%d{ISO8601} %-5p %c{1} - %m%n"/></Console></Appenders>
  <Loggers><Root level="warn"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"#;

/// Starts it on free ports and a fresh directory.
pub(super) fn start(choice: &BrokerChoice, interrupt: &Interrupt) -> anyhow::Result<Started> {
    anyhow::ensure!(
        choice.write_limit_mb.is_none() && choice.added_sync_ms.is_none(),
        "Apache Pulsar has no setting that makes a disk slower: leave out --write-limit-mb and --added-sync-ms, or use a slower disk for both"
    );
    anyhow::ensure!(
        !choice.tls,
        "Apache Pulsar is started without TLS here: start it with certificates yourself, and give its pulsar+ssl:// address by --service-url"
    );
    let java = java(choice.executable.as_deref())?;
    let jars = maven::jars()?;
    interrupt.check()?;
    let home = disk::fresh(choice)?;
    let ports = Ports::free()?;
    let settings = settings(choice, ports);
    write_files(home.path(), &settings)?;
    let file_system = disk::file_system(home.path());
    let sync_off = value(&settings, "journalSyncData") != "true";
    let root = home.path().to_owned();
    let about = BrokerUnderTest {
        product: "Apache Pulsar".to_owned(),
        version: VERSION.to_owned(),
        command: words(&command(&java, &jars, &root, ports)),
        // Everything that its own standalone.conf sets otherwise than this is worth being told, the journal above all.
        chosen: settings.iter().filter(|(key, _)| !ADDRESSES.contains(&key.as_str())).cloned().collect(),
        durability: BrokerChoice::durability(file_system == "tmpfs", sync_off),
        receipts: receipts(&settings, sync_off),
        disk: Disk { file_system, sync_off, ..Disk::default() },
        ..BrokerUnderTest::default()
    };
    let recipe = Recipe {
        command: Box::new(move |_| command(&java, &jars, &root, ports)),
        ready: Box::new(move |_| ready(ports)),
        patience: PATIENCE,
        cpus: choice.cpus.clone(),
        interrupt: interrupt.clone(),
        trust: None,
    };
    Started::new(recipe, home, about)
}

/// Three ports of this machine that nobody uses.
#[derive(Clone, Copy, Debug)]
struct Ports {
    broker: u16,
    http: u16,
    bookie: u16,
}

impl Ports {
    fn free() -> anyhow::Result<Self> {
        // All three are held until all are known, so that they differ.
        let listen = || TcpListener::bind(("127.0.0.1", 0)).context("no port of this machine is free");
        let (broker, http, bookie) = (listen()?, listen()?, listen()?);
        Ok(Self { broker: broker.local_addr()?.port(), http: http.local_addr()?.port(), bookie: bookie.local_addr()?.port() })
    }
}

const ADDRESSES: [&str; 4] = ["brokerServicePort", "webServicePort", "bindAddress", "advertisedAddress"];

/// `standalone.conf`, as far as it differs from the defaults in the code. The command line has the last word.
fn settings(choice: &BrokerChoice, ports: Ports) -> Vec<(String, String)> {
    let sync = (!choice.sync_off).to_string();
    let (broker, http) = (ports.broker.to_string(), ports.http.to_string());
    let ours = [
        ("brokerServicePort", broker.as_str()),
        ("webServicePort", &http),
        ("bindAddress", "127.0.0.1"),
        ("advertisedAddress", "127.0.0.1"),
        ("clusterName", "standalone"),
        ("managedLedgerDefaultEnsembleSize", "1"),
        ("managedLedgerDefaultWriteQuorum", "1"),
        ("managedLedgerDefaultAckQuorum", "1"),
        ("loadBalancerEnabled", "false"),
        ("loadManagerClassName", "org.apache.pulsar.broker.loadbalance.NoopLoadManager"),
        ("allowLoopback", "true"),
        ("diskUsageThreshold", "0.99"),
        ("diskUsageWarnThreshold", "0.99"),
        // Its standalone.conf says false: receipts before the sync. That would compare unlike things.
        ("journalSyncData", &sync),
        ("journalMaxGroupWaitMSec", "1"),
    ];
    let chosen = |key: &str| choice.settings.iter().any(|(chosen, _)| chosen == key);
    let ours = ours.into_iter().filter(|(key, _)| !chosen(key)).map(|(key, value)| (key.to_owned(), value.to_owned()));
    ours.chain(choice.settings.iter().cloned()).collect()
}

fn value<'a>(settings: &'a [(String, String)], key: &str) -> &'a str {
    settings.iter().rfind(|(name, _)| name == key).map_or("", |(_, value)| value)
}

/// What its receipts wait for.
fn receipts(settings: &[(String, String)], sync_off: bool) -> String {
    if sync_off {
        return "nothing: the journal is not synced (journalSyncData)".to_owned();
    }
    let wait = value(settings, "journalMaxGroupWaitMSec");
    format!(
        "a sync of the bookie's journal (journalSyncData=true), shared by what arrives within {wait} ms (journalMaxGroupWaitMSec); \
         one bookie, in the broker's process"
    )
}

fn write_files(home: &Path, settings: &[(String, String)]) -> anyhow::Result<()> {
    let lines: String = settings.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    fs::write(home.join("standalone.conf"), lines).with_context(|| format!("{} cannot be written", home.display()))?;
    fs::write(home.join("log4j2.xml"), LOGGING)?;
    Ok(())
}

fn command(java: &Path, jars: &Path, home: &Path, ports: Ports) -> Command {
    let mut command = Command::new(java);
    command.current_dir(home).args(JVM).args(NEEDED).arg("-Dlog4j.configurationFile=log4j2.xml");
    command.arg("-cp").arg(jars.join("*")).arg("org.apache.pulsar.PulsarStandaloneStarter");
    command.args(["--config", "standalone.conf", "--no-functions-worker", "--no-stream-storage"]);
    command.args(["--bookkeeper-dir", "bookkeeper", "--metadata-dir", "metadata", "--advertised-address", "127.0.0.1"]);
    command.args(["--bookkeeper-port", &ports.bookie.to_string()]);
    command
}

fn words(command: &Command) -> Vec<String> {
    let arguments = command.get_args().map(|word| word.to_string_lossy().into_owned());
    std::iter::once(command.get_program().to_string_lossy().into_owned()).chain(arguments).collect()
}

/// Ready when the default namespace is there, which is the last thing that a start makes.
fn ready(ports: Ports) -> Option<Addresses> {
    let status = get(ports.http, "/admin/v2/namespaces/public/default").ok()?;
    (status == 200).then(|| Addresses {
        service_url: format!("pulsar://127.0.0.1:{}", ports.broker),
        admin_url: format!("http://127.0.0.1:{}", ports.http),
    })
}

/// The status of a GET.
fn get(port: u16, path: &str) -> anyhow::Result<u16> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut stream = TcpStream::connect_timeout(&address, HTTP_PATIENCE)?;
    stream.set_read_timeout(Some(HTTP_PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    let status = std::str::from_utf8(&head)?.split(' ').nth(1).context("no status")?;
    Ok(status.parse()?)
}

/// A Java that is new enough: the one that was named, else the newest of `JAVA_HOME`, `PATH` and where Linux keeps them.
fn java(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(home) = named {
        let found = java_version(home).with_context(|| format!("{} is not the home of a JDK", home.display()))?;
        anyhow::ensure!(found >= OLDEST_JAVA, "{} is Java {found}, Apache Pulsar {VERSION} needs {OLDEST_JAVA} or newer", home.display());
        return Ok(home.join("bin/java"));
    }
    let homes = homes();
    let usable =
        homes.iter().filter_map(|home| java_version(home).filter(|version| *version >= OLDEST_JAVA).map(|version| (version, home)));
    let newest = usable.max_by_key(|(version, _)| *version);
    let (_, home) = newest.with_context(|| {
        let older: Vec<String> =
            homes.iter().filter_map(|home| Some(format!("Java {} in {}", java_version(home)?, home.display()))).collect();
        let found = if older.is_empty() { "there is none".to_owned() } else { format!("there is only {}", older.join(", ")) };
        format!(
            "Apache Pulsar {VERSION} needs Java {OLDEST_JAVA} or newer, and {found}: install a JDK (such as the package \
             openjdk-{OLDEST_JAVA}-jdk-headless, or Eclipse Temurin), or name the home of one by --executable"
        )
    })?;
    Ok(home.join("bin/java"))
}

/// Where a Java may be.
fn homes() -> Vec<PathBuf> {
    let listed = fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten().map(|entry| entry.path());
    let named = std::env::var_os("JAVA_HOME").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    // What is called java on the path is mostly a link to `bin/java` of a home.
    let called = std::env::split_paths(&path).filter_map(|folder| folder.join("java").canonicalize().ok());
    let called = called.filter_map(|java| Some(java.parent()?.parent()?.to_owned()));
    let mut homes: Vec<PathBuf> = named.into_iter().chain(called).chain(listed).filter_map(|home| home.canonicalize().ok()).collect();
    homes.sort();
    homes.dedup();
    homes
}

/// The feature release of the JDK in a directory.
fn java_version(home: &Path) -> Option<u32> {
    let release = fs::read_to_string(home.join("release")).ok()?;
    home.join("bin/java").exists().then(|| feature_release(&release))?
}

fn feature_release(release: &str) -> Option<u32> {
    let version = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION="))?;
    version.trim_matches('"').split(['.', '-', '+']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jdk_tells_its_release() {
        assert_eq!(feature_release("IMPLEMENTOR=\"X\"\nJAVA_VERSION=\"25.0.3\"\n"), Some(25));
        assert_eq!(feature_release("JAVA_VERSION=\"21\"\n"), Some(21));
        assert_eq!(feature_release("nothing"), None);
    }

    #[test]
    fn the_journal_is_synced_unless_it_is_switched_off() {
        let ports = Ports { broker: 1, http: 2, bookie: 3 };
        let of = |choice: &BrokerChoice| settings(choice, ports).into_iter().find(|(key, _)| key == "journalSyncData");
        assert_eq!(of(&BrokerChoice::default()).unwrap().1, "true");
        assert_eq!(of(&BrokerChoice { sync_off: true, ..BrokerChoice::default() }).unwrap().1, "false");
        let told = receipts(&settings(&BrokerChoice::default(), ports), false);
        assert!(told.contains("journalSyncData=true") && told.contains("within 1 ms"), "{told}");
    }

    #[test]
    fn a_chosen_setting_stands_in_the_file_once() {
        let settings_chosen = vec![("journalMaxGroupWaitMSec".to_owned(), "2".to_owned())];
        let choice = BrokerChoice { settings: settings_chosen, ..BrokerChoice::default() };
        let all = settings(&choice, Ports { broker: 1, http: 2, bookie: 3 });
        let found: Vec<&str> = all.iter().filter(|(key, _)| key == "journalMaxGroupWaitMSec").map(|(_, value)| value.as_str()).collect();
        assert_eq!(found, ["2"]);
    }

    #[test]
    fn a_slower_disk_cannot_be_asked_of_it() {
        let choice = BrokerChoice { added_sync_ms: Some(5), ..BrokerChoice::default() };
        assert!(start(&choice, &Interrupt::never()).unwrap_err().to_string().contains("--added-sync-ms"));
    }
}
